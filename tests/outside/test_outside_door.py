"""The door for other machines: what it serves, to whom, and what a stranger can make of it."""

import asyncio
import hashlib
import json
import re
import socket
import ssl

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from comity.http.server import HttpServer
from comity.identity.protocol.rights import GRANTS
from comity.identity.secrets import make_token
from comity.outside.part import OutsideSettings
from comity.rooms.protocol.invite import read_invite
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.runtime.settings import HttpSettings, RateSettings
from comity.testing import bearer, running_node
from comity.wire.errors import ConfigError
from tests.outside.conftest import outside_node
from tests.ports import unused_port

UNKNOWN = "/v1/nothing-here"


def trusting(highest=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if highest is not None:
        context.maximum_version = highest
    return context


async def certificate_of(port):
    _reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(shown)


def pin_of(certificate):
    spki = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(spki).hexdigest()


async def credentials(node):
    """Everything that opens something on the first door, as headers."""
    async with httpx.AsyncClient(base_url=node.url) as browser:
        cookie = (await browser.get(node.entry_link)).headers["set-cookie"].partition(";")[0]
    found = {"nobody": {}, "the admin token": bearer(node), "a browser's cookie": {"cookie": cookie}}
    for grant in GRANTS:
        _, token = make_token(node.settings.data, f"for-{grant}", grant, now=node.runtime.clock.now(), days=1)
        found[f"a token for {grant}"] = {"authorization": f"Bearer {token}"}
    return found


async def test_it_is_closed_until_a_reason_holds_and_again_after_the_last():
    async with outside_node(reasons=()) as outsider:
        door = outsider.door
        assert (door.is_open, door.port, door.addresses(), door.pin) == (False, 0, [], "")
        await door.open_for("invite:lab:1")
        await door.open_for("invite:lab:1")
        await door.open_for("invite:plan:1")
        port = door.port
        assert door.addresses() == [f"https://127.0.0.1:{port}"]
        await door.close_for("invite:lab:1")
        assert (await outsider.http.get(f"{outsider.base}/card")).status_code == 200
        await door.close_for("invite:plan:1")
        await door.close_for("invite:plan:1")
        assert not door.is_open
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await door.open_for("invite:lab:2")
        assert door.port == port


async def test_an_invite_opens_meeting_and_signed_calls_and_the_switch_the_rest():
    async with outside_node(reasons=("invite:lab:1",)) as outsider:

        async def served():
            answers = {
                path: (await outsider.http.get(outsider.base + path)).status_code
                for path in (
                    "/signal",
                    "/a2a/message/send",
                    "/card",
                    "/health",
                    "/healthz",
                    "/vcp",
                    "/v1/halo",
                )
            }
            return {path for path, status in answers.items() if status != 404}

        assert await served() == {"/signal", "/a2a/message/send", "/card"}
        await outsider.door.open_for("switch")
        assert len(await served()) == 7
        await outsider.door.close_for("switch")
        assert await served() == {"/signal", "/a2a/message/send", "/card"}


@pytest.fixture
async def patient():
    """Faults cost nothing there for long."""
    async with outside_node(rate=RateSettings(per_seconds=0.01)) as found:
        yield found


async def test_no_credential_opens_an_owners_path_there(patient):
    outsider, node, http = patient, patient.node, patient.http
    async with httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner:
        described = (await owner.get("/openapi.json")).json()["paths"]
    owned = {
        (method.upper(), path)
        for path, item in described.items()
        for method, operation in item.items()
        if method in ("get", "post", "delete")
        and ("x-right" in operation or path.startswith(("/enter/", "/assets/", "/.well-known/oauth")))
    }
    assert {("POST", "/v1/stop"), ("POST", "/mcp"), ("GET", "/"), ("POST", "/v1/outside")} <= owned
    for who, headers in (await credentials(node)).items():
        expected = await http.post(outsider.base + UNKNOWN, headers=headers, json={})
        assert expected.status_code == 404
        for method, path in sorted(owned):
            filled = re.sub(r"\{[a-z]+\}", "x", path)
            answer = await http.request(method, outsider.base + filled, headers=headers, json={})
            assert (answer.status_code, answer.content) == (404, expected.content), (who, method, path)
            with pytest.raises(InvalidStatus) as refused:
                async with connect(
                    outsider.base.replace("http", "ws", 1) + filled,
                    ssl=trusting(),
                    additional_headers=headers,
                    proxy=None,
                ):
                    pass
            assert (refused.value.response.status_code, refused.value.response.body) == (
                404,
                expected.content,
            ), (who, path)
    assert node.runtime.stopping.is_set() is False


async def test_a_one_time_link_is_not_used_up_there(outsider):
    path = outsider.node.entry_link.removeprefix(outsider.node.url)
    assert (await outsider.http.get(outsider.base + path)).status_code == 404
    async with httpx.AsyncClient() as browser:
        assert (await browser.get(outsider.node.entry_link)).status_code == 303


async def test_a_right_token_gets_what_a_wrong_one_gets_on_an_open_path(outsider):
    for path in ("/card", "/healthz"):
        answers = [
            await outsider.http.get(outsider.base + path, headers=headers)
            for headers in ({}, bearer(outsider.node), {"authorization": "Bearer wrong"})
        ]
        assert {(answer.status_code, answer.content) for answer in answers} == {(200, answers[0].content)}


def room_id_of(line):
    invite = read_invite(line)
    return RoomCipher(effective_password(invite.password)).room_id(invite.room)


async def joined(url, room, **options):
    async with connect(url, ssl=trusting(), proxy=None, **options) as peer:
        await peer.send(json.dumps({"request": "joinroom", "roomid": room}))
        async with asyncio.timeout(20):
            return json.loads(await peer.recv())


async def test_the_relay_serves_only_rooms_that_were_invited_to_whatever_token_comes(outsider):
    signal = outsider.base.replace("http", "ws", 1) + "/signal"
    token = outsider.node.runtime.token
    for query, headers in (
        ("", {}),
        (f"?token={token}", {}),
        ("?token=wrong", {}),
        ("", bearer(outsider.node)),
    ):
        said = await joined(signal + query, "0123456789abcdef", additional_headers=headers)
        assert said["code"] == "ROOM_REFUSED"
    async with httpx.AsyncClient(base_url=outsider.node.url, headers=bearer(outsider.node)) as owner:
        made = await owner.post("/v1/rooms", json={"tool": "invite", "arguments": {"room": "lab"}})
        assert made.json()["ok"] is True, made.text
        line = made.json()["invite"]
    assert (await joined(signal, room_id_of(line)))["request"] == "listing"


async def test_what_comes_through_a_tunnel_has_the_limits_of_a_stranger():
    rate = RateSettings(requests=20, per_seconds=3600)
    http = HttpSettings(trusted_proxies=("127.0.0.1",))
    async with outside_node(rate=rate, http=http) as outsider:
        answers = [
            await outsider.http.get(f"{outsider.base}/card", headers={"x-forwarded-for": f"10.0.0.{number}"})
            for number in range(30)
        ]
        assert [answer.status_code for answer in answers] == [200] * 20 + [429] * 10
        async with httpx.AsyncClient() as here:
            assert (await here.get(f"{outsider.node.url}/card")).status_code == 200


async def test_faults_close_the_door_to_an_address_and_leave_the_first_one_open():
    async with outside_node(rate=RateSettings(per_seconds=3600)) as outsider:

        async def ask_until_refused():
            for _ in range(300):
                async with httpx.AsyncClient(verify=False) as stranger:
                    assert (await stranger.get(outsider.base + UNKNOWN)).status_code in (404, 429)

        with pytest.raises(httpx.TransportError):
            await ask_until_refused()
        async with httpx.AsyncClient() as here:
            assert (await here.get(f"{outsider.node.url}/card")).status_code == 200


async def test_only_tls_1_3_is_spoken(outsider):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", outsider.door.port, ssl=trusting(ssl.TLSVersion.TLSv1_2))
    reader, writer = await asyncio.open_connection("127.0.0.1", outsider.door.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert not (await reader.read(100)).startswith(b"HTTP/")
    writer.close()


@pytest.mark.parametrize(("origin", "status"), [("https://app.example", 200), ("https://evil.example", 403)])
async def test_an_origin_must_be_allowed_by_a_setting(origin, status):
    async with outside_node(http=HttpSettings(allowed_origins=("https://app.example",))) as outsider:
        for host in ("evil.example", f"127.0.0.1:{outsider.door.port}"):
            answer = await outsider.http.get(
                f"{outsider.base}/healthz", headers={"origin": origin, "host": host}
            )
            assert answer.status_code == status
        own = await outsider.http.get(f"{outsider.base}/healthz", headers={"origin": outsider.base})
        assert own.status_code == 403


async def test_any_host_may_be_named(outsider):
    answer = await outsider.http.get(f"{outsider.base}/healthz", headers={"host": "dyndns.example:1"})
    assert answer.status_code == 200


async def test_a_body_over_the_limit_is_refused_unread():
    async with outside_node(http=HttpSettings(body_limit=2000)) as outsider:
        answer = await outsider.http.post(f"{outsider.base}/v1/halo", content=b"x" * 3000)
        assert answer.status_code == 413


async def test_the_pin_is_that_of_the_key_and_a_new_certificate_keeps_it(tmp_path):
    async with outside_node(tmp_path / "data") as outsider:
        before = await certificate_of(outsider.door.port)
        assert pin_of(before) == outsider.door.pin
        async with httpx.AsyncClient(base_url=outsider.node.url, headers=bearer(outsider.node)) as owner:
            renewed = (await owner.post("/v1/outside/renew", json={})).json()
        after = await certificate_of(outsider.door.port)
        assert after.serial_number != before.serial_number
        assert pin_of(after) == renewed["pin"] == outsider.door.pin
    async with outside_node(tmp_path / "data") as again:
        assert (await certificate_of(again.door.port)).serial_number == after.serial_number


async def test_the_switch_holds_after_a_restart_and_a_kept_port_is_taken_again(tmp_path):
    async with outside_node(tmp_path / "data", reasons=()) as outsider:
        async with httpx.AsyncClient(base_url=outsider.node.url, headers=bearer(outsider.node)) as owner:
            state = (await owner.post("/v1/outside", json={"open": True})).json()
        assert (state["open"], state["paths"], state["reasons"]) == (True, "all", ["switch"])
        port = outsider.door.port
    async with outside_node(tmp_path / "data", reasons=()) as again:
        assert (again.door.is_open, again.door.port) == (True, port)
        async with httpx.AsyncClient(base_url=again.node.url, headers=bearer(again.node)) as owner:
            assert (await owner.post("/v1/outside", json={"open": False})).json()["paths"] == "none"
            assert (await owner.post("/v1/outside", json={"open": 1})).status_code == 400
    async with outside_node(tmp_path / "data", reasons=()) as last:
        assert not last.door.is_open


async def test_a_port_that_is_taken_stops_no_node(tmp_path):
    taken = HttpServer("127.0.0.1", unused_port(), cert=None, key=None)
    try:
        outside = OutsideSettings(listen="127.0.0.1", port=taken.port, on=True)
        async with outside_node(tmp_path / "data", reasons=(), outside=outside) as outsider:
            assert not outsider.door.is_open
            assert any("the outside door stays closed" in each for each in outsider.node.notices)
            with pytest.raises(ConfigError, match=f"port {taken.port}"):
                await outsider.door.open_for("invite:lab:1")
            assert (outsider.door.is_open, outsider.door.addresses()) == (False, [])
    finally:
        await taken.stop()


async def test_addresses_of_the_settings_come_first(tmp_path):
    names = OutsideSettings(
        listen="127.0.0.1", addresses=("home.example", "relay.example:443", "[2001:db8::1]")
    )
    async with outside_node(tmp_path / "data", outside=names) as outsider:
        port = outsider.door.port
        assert outsider.door.addresses() == [
            f"https://home.example:{port}",
            "https://relay.example:443",
            f"https://[2001:db8::1]:{port}",
            f"https://127.0.0.1:{port}",
        ]


async def test_on_all_addresses_it_answers_in_both_families_of_this_machine():
    async with outside_node(outside=OutsideSettings()) as outsider:
        port = outsider.door.port
        hosts = ["127.0.0.1", *(["[::1]"] if _has_ipv6() else [])]
        for host in hosts:
            assert (await outsider.http.get(f"https://{host}:{port}/healthz")).status_code == 200
        assert not any("127.0.0.1" in each or "[::1]" in each for each in outsider.door.addresses())


async def test_it_is_named_on_the_page_in_the_figures_and_in_the_record(outsider):
    async with httpx.AsyncClient(base_url=outsider.node.url, headers=bearer(outsider.node)) as owner:
        panel = (await owner.get("/v1/status")).json()["panels"]["outside"]
        assert ["pin", outsider.door.pin] in panel["rows"]
        assert "comity_outside_open 1" in (await owner.get("/metrics")).text
    counted = outsider.node.runtime.metrics.exposition()
    assert b"OUTSIDE_OPENED" in (counted if isinstance(counted, bytes) else counted.encode())


async def test_a_node_without_the_part_says_that_it_has_no_door():
    async with running_node(off=("outside",)) as node:
        assert not node.runtime.outside.is_open
        with pytest.raises(ConfigError, match="`off`"):
            await node.runtime.outside.open_for("invite:lab:1")


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
