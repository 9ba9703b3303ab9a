"""The guard: what stops at the door, before any room hears of it."""

import pytest

from comity.doors.http.entry import Entry
from comity.doors.http.guard import Guard, peer_of
from comity.testing import VirtualClock
from tests.doors.http.asgi_calls import ask, scope_of

LIMIT = 1000
TOKEN = ("authorization", "Bearer right")


class Room:
    """Behind the guard: it only notices who came."""

    def __init__(self):
        self.reached = 0

    async def __call__(self, scope, receive, send):
        self.reached += 1
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"inside"})


class House:
    def __init__(self, **named):
        self.room = Room()
        self.refused = []
        self.entry = Entry(lambda token: token == "right", VirtualClock(), port=8420, secure=False)
        self.guard = Guard(
            self.room,
            self.entry,
            is_public=lambda path: path == "/public",
            body_limit=LIMIT,
            refused=self.refused.append,
            **named,
        )

    async def ask(self, *headers, path="/private", **more):
        return await ask(self.guard, scope_of(path=path, headers=headers, **more))

    async def with_host(self, *hosts, **more):
        scope = scope_of(path="/public", **more)
        scope["headers"] = [(b"host", host.encode("latin-1")) for host in hosts] + scope["headers"][1:]
        return await ask(self.guard, scope)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8420",
        "LocalHost:8420",
        "127.0.0.1",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:8420",
        "node.example",
        "NODE.EXAMPLE:443",
        "[2001:db8::1]",
        "[2001:DB8::1]:443",
    ],
)
async def test_a_name_of_this_node_is_let_in(host):
    house = House(hosts=("Node.Example", "2001:DB8::1"))
    assert (await house.with_host(host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8420",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "::1",
        "[::2]",
        "[::1",
        "",
        " ",
        "localhost localhost",
        "localhost:8420:8420",
        "user@localhost",
        "localhost/",
        "xn--lcalhost-n2a",
    ],
)
async def test_a_host_that_is_not_ours_is_refused(host):
    house = House()
    answer = await house.with_host(host)
    assert answer.status in (400, 403)
    assert answer.json()["code"] in ("forbidden", "malformed")
    assert house.room.reached == 0
    assert house.refused == [answer.json()["code"]]


async def test_the_refusal_of_a_host_says_how_to_allow_it():
    assert "http.allowed_hosts" in (await House().with_host("node.example")).json()["detail"]


@pytest.mark.parametrize("port", ["http", "-1", "", "84 20", "8_420"])
async def test_a_host_with_something_else_than_a_port_is_malformed(port):
    answer = await House().with_host(f"localhost:{port}")
    assert answer.status == 400


async def test_a_request_without_a_host_or_with_two_is_refused():
    house = House()
    assert (await house.with_host()).status == 403
    answer = await house.with_host("localhost", "localhost")
    assert answer.status == 400
    assert answer.json()["detail"] == "the header host comes 2 times; send it once"
    assert house.room.reached == 0


@pytest.mark.parametrize(
    ("origin", "scheme", "status"),
    [
        ("http://localhost:8420", "http", 200),
        ("HTTP://LocalHost:8420", "http", 200),
        ("https://localhost:8420", "https", 200),
        ("https://app.example", "http", 200),
        ("https://APP.example", "http", 200),
        ("http://localhost:8421", "http", 403),
        ("https://localhost:8420", "http", 403),
        ("http://localhost:8420", "https", 403),
        ("http://127.0.0.1:8420", "http", 403),
        ("http://localhost", "http", 403),
        ("http://localhost:8420/", "http", 403),
        ("http://localhost:8420.evil.example", "http", 403),
        ("http://app.example", "http", 403),
        ("https://sub.app.example", "http", 403),
        ("https://evil.example", "http", 403),
        ("null", "http", 403),
        ("", "http", 403),
    ],
)
async def test_only_pages_of_ours_and_of_allowed_origins_may_ask(origin, scheme, status):
    house = House(origins=("https://App.example/",))
    answer = await house.ask(("origin", origin), path="/public", scheme=scheme)
    assert answer.status == status
    assert house.room.reached == (status == 200)


async def test_the_token_of_a_page_of_another_origin_does_not_help():
    house = House()
    assert (await house.ask(("origin", "https://evil.example"), TOKEN)).status == 403


@pytest.mark.parametrize(
    ("size", "status"),
    [
        ("0", 200),
        (str(LIMIT), 200),
        (str(LIMIT + 1), 413),
        ("9" * 5000, 413),
    ],
)
async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(size, status):
    house = House()
    answer = await house.ask(("content-length", size), path="/public", method="POST")
    assert answer.status == status
    if status == 413:
        assert "limit of 1,000 bytes" in answer.json()["detail"]
        assert house.room.reached == 0


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer right", 200),
        ("bearer right", 200),
        ("BEARER   right ", 200),
        ("Bearer wrong", 401),
        ("Bearer rightt", 401),
        ("Bearer righ", 401),
        ("Bearer Right", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("right", 401),
        ("Basic right", 401),
        ("Token right", 401),
        ("Bearerright", 401),
        ("Bearer\tright", 401),
        ("Bearer right, Bearer right", 401),
        ("Bearer \xe9\xff", 401),
    ],
)
async def test_what_is_not_public_needs_the_token(authorization, status):
    house = House()
    answer = await house.ask(("authorization", authorization))
    assert answer.status == status
    assert house.room.reached == (status == 200)
    if status == 401:
        assert answer.headers["www-authenticate"] == 'Bearer realm="comity"'
        assert "one-time link" in answer.json()["detail"]


async def test_without_a_token_and_with_two_it_stays_closed():
    house = House()
    assert (await house.ask()).status == 401
    assert (await house.ask(TOKEN, TOKEN)).status == 400
    assert (await house.ask(path="/public")).status == 200
    assert house.refused == ["unauthenticated", "malformed"]


@pytest.mark.parametrize("path", ["/public/", "//public", "/public/..", "/PUBLIC", "/private/../public", ""])
async def test_public_is_a_path_and_nothing_that_resembles_it(path):
    house = House()
    assert (await house.ask(path=path)).status == 401
    assert house.room.reached == 0


@pytest.mark.parametrize("host", [b"evil.example", b"localhost"])
async def test_a_websocket_that_may_not_pass_is_closed(host):
    house = House()
    sent = []
    scope = scope_of(path="/private", type="websocket", scheme="ws")
    scope["headers"] = [(b"host", host)]

    async def send(message):
        sent.append(message)

    await house.guard(scope, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert house.room.reached == 0


async def test_a_websocket_that_may_pass_does():
    house = House()
    same = ("origin", "http://localhost:8420")
    await house.guard(
        scope_of(path="/private", type="websocket", scheme="ws", headers=[TOKEN, same]), None, None
    )
    assert house.room.reached == 1


async def test_who_is_beyond_his_budget_is_told_when_to_come_again_before_anything_else_is_looked_at():
    asked = []

    def wait_of(peer):
        asked.append(peer)
        return 2.2

    house = House(wait_of=wait_of)
    answer = await house.with_host("evil.example")
    assert answer.status == 429
    assert answer.headers["retry-after"] == "3"
    assert answer.json() == {"detail": "too many requests; try again in 2.2 seconds", "code": "rate_limited"}
    assert asked == ["127.0.0.1"]
    assert house.refused == ["rate_limited"]


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        (("192.0.2.7", 4000), "192.0.2.7"),
        (("::1", 4000), "::1"),
        (("::ffff:192.0.2.7", 4000), "192.0.2.7"),
        (("::ffff:127.0.0.1", 4000), "127.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 4000), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::1", 4000), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 4000), "fe80::/64"),
        (("testclient", 4000), "testclient"),
        (None, "unknown"),
    ],
)
def test_limits_are_counted_by_address_and_those_of_ipv6_by_network(client, peer):
    assert peer_of({"client": client}) == peer
