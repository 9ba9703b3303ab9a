"""The own node over TLS, with a certificate that nobody else need trust."""

import datetime as dt
import ipaddress
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from comity.identity.key_files import create_identity
from comity.runtime.settings import HttpSettings, TlsSettings
from tests.node.commands.neighbourhood import SEND


def self_signed(folder, name):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node.test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(exist_ok=True)
    cert, private = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return TlsSettings(cert=cert, key=private)


@pytest.fixture
def tls(tmp_path):
    return self_signed(tmp_path / "certificates", "ours")


@pytest.fixture
def settle(data):
    """Write the settings of the own node down, where the commands find them."""
    create_identity(data)

    def settle(tls, more=""):
        (data / "config.toml").write_text(f'{more}\n[tls]\ncert = "{tls.cert}"\nkey = "{tls.key}"\n')

    return settle


def test_the_own_node_is_known_by_its_own_certificate(comity, neighbourhood, data, tls, settle):
    settle(tls)
    node = neighbourhood.node(data, tls=tls)
    assert node.url.startswith("https://")
    assert json.loads(comity("state", "set", "sunk", "--json").out)["node"] == node.url
    comity("state", "set", "local")
    assert json.loads(comity("card", "publish", "--json").out)["directory"] == node.url
    assert len(json.loads(comity("search", "echo", "--json").out)["matches"]) == 1


def test_commands_need_no_certificate_for_their_own_node(comity, neighbourhood, data, tls, settle, tmp_path):
    neighbourhood.node(data, tls=tls)
    settle(self_signed(tmp_path / "certificates", "other"))
    assert comity("state", "show").code == 0
    assert comity("status").code == 0


def test_an_older_node_that_names_no_pin_and_shows_another_certificate_is_not_told_the_token(
    comity, neighbourhood, data, tls, settle, tmp_path, monkeypatch
):
    monkeypatch.setattr("comity.node.http_server.has_owner_socket", lambda: False)
    monkeypatch.setattr("comity.node.http_server.pin_of_file", lambda _cert: "")
    settle(self_signed(tmp_path / "certificates", "other"))
    neighbourhood.node(data, tls=tls)
    outcome = comity("state", "show")
    assert (outcome.code, outcome.out) == (1, "")
    assert "its certificate is not valid for 127.0.0.1" in outcome.err


def test_a_node_that_names_no_owner_socket_is_asked_with_the_token(comity, neighbourhood, data, monkeypatch):
    """As one of an older release, or on a system without such sockets."""
    monkeypatch.setattr("comity.node.http_server.has_owner_socket", lambda: False)
    node = neighbourhood.node(data)
    assert json.loads(comity("status", "--json").out)["url"] == node.url


def test_a_stranger_needs_a_certificate_that_is_trusted(comity, neighbourhood, tmp_path, tls, data):
    node = neighbourhood.node(tmp_path / "there", tls=tls)
    outcome = comity("call", node.url, "hi")
    assert outcome.code == 1
    assert "its certificate is not valid for 127.0.0.1; nothing was sent" in outcome.err
    assert not data.exists()


def test_a_node_on_every_address_is_asked_on_this_machine(comity, neighbourhood, data, tls, settle):
    settle(tls, 'host = "0.0.0.0"\n[http]\npublic = true\n')
    node = neighbourhood.node(data, host="0.0.0.0", tls=tls, http=HttpSettings(public=True))
    reachable = node.url.replace("0.0.0.0", "127.0.0.1")
    assert json.loads(comity("state", "show", "--json").out)["node"] == reachable
    outcome = comity("card", "publish")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"the card names {node.url}{SEND}, where nobody can call it" in outcome.err


def test_loopback_is_not_called_from_a_node_that_others_can_reach(
    comity, neighbourhood, data, tls, settle, tmp_path, monkeypatch
):
    target = neighbourhood.node(tmp_path / "there")
    settle(tls, 'host = "0.0.0.0"\n[http]\npublic = true\n')
    outcome = comity("call", target.url, "hi")
    assert outcome.code == 1
    assert "127.0.0.1 is at a loopback address" in outcome.err
    monkeypatch.setenv("COMITY_DISPATCH_ALLOWED_HOSTS", "127.0.0.1")
    assert comity("call", target.url, "hi").code == 0


def test_a_card_for_others_that_only_this_machine_can_call_comes_with_a_note(
    comity, neighbourhood, data, tmp_path, monkeypatch
):
    """The directory is on this machine under a name that could be anywhere."""
    directory = neighbourhood.node(
        tmp_path / "directory", http=HttpSettings(allowed_hosts=("directory.test",))
    )
    neighbourhood.node(data)

    async def resolve(_host, _port):
        return ["127.0.0.1"]

    monkeypatch.setattr("comity.http.client_network.system_resolve", resolve)
    url = directory.url.replace("127.0.0.1", "directory.test")
    outcome = comity("card", "publish", "--directory", url)
    assert outcome.code == 0
    assert "which only this machine can reach" in outcome.err
    assert "note" not in comity("card", "publish").err
