"""Pins: a target that is known by its key needs no authority, and another key is never spoken to."""

import contextlib
import hashlib
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from comity.http.addresses import AllowList, literal, read_url, with_pin
from comity.http.asgi import answer_json
from comity.http.client import GuardedHttp
from comity.http.dialling import dialling, open_websocket
from comity.http.pins import pinned_context
from comity.http.server import HttpServer
from comity.identity.certificates import load_or_make_certificate, renew_certificate
from comity.identity.protocol.pins import pin_of_certificate
from comity.wire.errors import (
    MalformedError,
    PinRefusedError,
    TargetRefusedError,
    UnreachableError,
    UnusableAnswerError,
)

PIN = "ab" * 32
NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Scene:
    def __init__(self, server, own, seen):
        self.server, self.own, self.seen = server, own, seen
        self.url = server.url

    def pinned(self, pin=None):
        return with_pin(self.url, pin or self.own.pin)


@contextlib.asynccontextmanager
async def serving(folder):
    folder.mkdir(exist_ok=True)
    own, seen = load_or_make_certificate(folder, NOW), []

    async def answer(scope, _receive, send):
        seen.append((scope["path"], dict(scope["headers"])[b"host"]))
        headers = [(b"location", b"https://127.0.0.1/elsewhere")]
        await answer_json(send, {"here": True}, 302 if scope["path"] == "/moved" else 200, headers)

    server = HttpServer("127.0.0.1", 0, cert=own.cert, key=own.key)
    await server.start(answer, shutdown_seconds=0.2)
    try:
        yield Scene(server, own, seen)
    finally:
        await server.stop()


@pytest.fixture
async def scene(tmp_path):
    async with serving(tmp_path / "keys") as found:
        yield found


def client(**options):
    return GuardedHttp(allow_loopback=True, timeout=20, **options)


async def test_a_pin_replaces_the_authority_and_nothing_of_it_is_sent(scene):
    http = client()
    with pytest.raises(UnreachableError, match="certificate"):
        await http.request("GET", scene.url)
    answer = await http.request("GET", f"{scene.pinned()}/card")
    assert answer.status == 200
    assert scene.seen == [("/card", f"127.0.0.1:{scene.server.port}".encode())]
    await http.aclose()


async def test_another_key_is_refused_with_both_fingerprints_before_anything_is_sent(scene):
    http = client()
    with pytest.raises(PinRefusedError) as refusal:
        await http.request("POST", scene.pinned(PIN), {"secret": 1})
    assert PIN in refusal.value.message
    assert scene.own.pin in refusal.value.message
    assert scene.seen == []
    await http.aclose()


async def test_a_connection_of_one_pin_is_never_used_for_another(scene):
    http = client()
    for _ in range(2):
        assert (await http.request("GET", scene.pinned())).status == 200
        with pytest.raises(PinRefusedError):
            await http.request("GET", scene.pinned(PIN))
        with pytest.raises(UnreachableError):
            await http.request("GET", scene.url)
    await http.aclose()


async def test_a_new_certificate_of_the_same_key_goes_on_and_a_new_key_does_not(scene):
    http = client()
    renew_certificate(scene.own.cert.parent, NOW)
    scene.server.read_certificate_again()
    assert (await http.request("GET", scene.pinned())).status == 200
    await http.aclose()
    scene.own.key.unlink()
    new = load_or_make_certificate(scene.own.cert.parent, NOW)
    scene.server.read_certificate_again()
    with pytest.raises(PinRefusedError, match=new.pin):
        await http.request("GET", scene.pinned())
    await http.aclose()


async def test_a_redirect_is_not_followed_under_a_pin_either(scene):
    http = client()
    assert (await http.request("GET", f"{scene.pinned()}/moved")).status == 302
    assert len(scene.seen) == 1
    await http.aclose()


async def test_a_websocket_trusts_a_pin_as_well(scene):
    async def dial(pin):
        async with dialling("the relay", "wss://relay", lambda status: f"status {status}"):
            await open_websocket(scene.url.replace("http", "ws", 1), pinned_context(pin), 1000)

    with pytest.raises(UnusableAnswerError, match="status 200"):
        await dial(scene.own.pin)
    scene.seen.clear()
    with pytest.raises(UnusableAnswerError, match=f"{scene.own.pin}.*{PIN}"):
        await dial(PIN)
    assert scene.seen == []


@pytest.mark.parametrize(
    ("host", "refused"),
    [
        ("10.9.1.2", False),
        ("192.168.1.5", False),
        ("fd00::2", False),
        ("169.254.1.1", True),
        ("127.0.0.1", True),
        ("0.0.0.0", True),
        ("224.0.0.1", True),
        ("::ffff:10.0.0.1", True),
    ],
)
def test_a_pin_admits_private_addresses_and_no_others(host, refused):
    allowed = AllowList(pinned_private=True)
    address = literal(host)
    assert (allowed.refusal(host, address, pinned=True) is not None) is refused
    assert allowed.refusal(host, address) is not None
    assert AllowList().refusal(host, address, pinned=True) is not None


def test_a_pin_stands_in_the_address():
    url = read_url(f"https://{PIN}@10.9.1.2:8421/card?x=1")
    assert (url.pin, url.host, url.port, url.target) == (PIN, "10.9.1.2", 8421, "/card?x=1")
    assert url.authority == "10.9.1.2:8421"
    assert read_url(with_pin("https://[fd00::2]:8421", PIN)).host == "fd00::2"


@pytest.mark.parametrize(
    "url",
    [
        f"http://{PIN}@10.9.1.2",
        f"https://{PIN.upper()}@10.9.1.2",
        f"https://{PIN[:-1]}@10.9.1.2",
        f"https://{PIN}:secret@10.9.1.2",
        f"https://{PIN}@{PIN}@10.9.1.2",
        f"https://{PIN}@",
        "https://user@10.9.1.2",
    ],
)
def test_what_is_no_pin_is_a_user_and_refused(url):
    with pytest.raises(TargetRefusedError):
        read_url(url)


def certificate_for(key, *, cn="x", version=x509.Version.v3):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, cn)])
    signing = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW.replace(year=2060))
        .sign(key, signing)
        .public_bytes(serialization.Encoding.DER)
    )


KEYS = [
    ec.generate_private_key(ec.SECP256R1()),
    ec.generate_private_key(ec.SECP521R1()),
    rsa.generate_private_key(65537, 2048),
    ed25519.Ed25519PrivateKey.generate(),
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: type(key).__name__)
@pytest.mark.parametrize("cn", ["x", "long " * 12])
def test_the_pin_is_that_of_the_library_for_every_kind_of_key(key, cn):
    spki = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert pin_of_certificate(certificate_for(key, cn=cn)) == hashlib.sha256(spki).hexdigest()


@given(at=st.integers(0, 200), value=st.integers(0, 255))
def test_a_changed_certificate_has_another_pin_or_none_or_differs_outside_the_key(at, value):
    der = bytearray(certificate_for(KEYS[0]))
    before = pin_of_certificate(bytes(der))
    key = der.find(
        KEYS[0]
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    changed = at < len(der) and der[at] != value
    der[at] = value
    try:
        after = pin_of_certificate(bytes(der))
    except MalformedError:
        return
    if changed and key <= at < key + 91:
        assert after != before


@given(st.binary(max_size=64))
def test_bytes_that_are_no_certificate_have_no_pin(data):
    with pytest.raises(MalformedError):
        pin_of_certificate(data)


def test_a_length_in_a_second_form_has_no_pin():
    der = certificate_for(KEYS[0])
    assert der[:2] == b"\x30\x82"
    with pytest.raises(MalformedError):
        pin_of_certificate(b"\x30\x83\x00" + der[2:])
    with pytest.raises(MalformedError):
        pin_of_certificate(b"\x30\x80" + der[4:] + b"\x00\x00")
