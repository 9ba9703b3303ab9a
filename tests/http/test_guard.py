"""The guard: what stops at the door, before any room hears of it."""

import pytest

from comity.http.asgi import answer_error, answer_json, read_body
from comity.http.guard import Guard, HttpAccess, TokenHolder
from comity.http.peer_address import peer_of
from comity.requests.budget import Budget, Figures
from comity.requests.handler import begin_request, excuse_request
from comity.testing import VirtualClock
from comity.wire.errors import ForbiddenError, RateLimitedError
from tests.callers import visitor
from tests.http.asgi_calls import ask, scope_of

LIMIT = 1000
TOKEN = ("authorization", "Bearer right")


class Handler:
    """Behind the guard: it only notices who came."""

    def __init__(self):
        self.reached = 0

    async def __call__(self, scope, receive, send):
        self.reached += 1
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"inside"})


class NodeRuntime:
    def __init__(self, figures=None, **named):
        self.handler = Handler()
        self.refused = []
        self.clock = VirtualClock()
        self.budget = Budget(self.clock, figures)
        self.entry = HttpAccess(
            lambda token: TokenHolder("admin") if token == "right" else None,
            self.clock,
            port=8420,
            secure=False,
        )
        self.guard = Guard(
            self.handler,
            self.entry,
            is_public=lambda path: path == "/public",
            body_limit=LIMIT,
            refused=self.refused.append,
            budget=self.budget,
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
    runtime = NodeRuntime(hosts=("Node.Example", "2001:DB8::1"))
    assert (await runtime.with_host(host)).status == 200


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
    runtime = NodeRuntime()
    answer = await runtime.with_host(host)
    assert answer.status in (400, 403)
    assert answer.json()["code"] in ("forbidden", "malformed")
    assert runtime.handler.reached == 0
    assert runtime.refused == [answer.json()["code"]]


async def test_the_refusal_of_a_host_says_how_to_allow_it():
    assert "http.allowed_hosts" in (await NodeRuntime().with_host("node.example")).json()["detail"]


@pytest.mark.parametrize("port", ["http", "-1", "", "84 20", "8_420"])
async def test_a_host_with_something_else_than_a_port_is_malformed(port):
    answer = await NodeRuntime().with_host(f"localhost:{port}")
    assert answer.status == 400


async def test_a_request_without_a_host_or_with_two_is_refused():
    runtime = NodeRuntime()
    answer = await runtime.with_host()
    assert answer.status == 400
    assert answer.json()["detail"] == "there is no Host header; send one that names this node"
    answer = await runtime.with_host("localhost", "localhost")
    assert answer.status == 400
    assert answer.json()["detail"] == "the header host comes 2 times; send it once"
    assert runtime.handler.reached == 0


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
    runtime = NodeRuntime(origins=("https://App.example/",))
    answer = await runtime.ask(("origin", origin), path="/public", scheme=scheme)
    assert answer.status == status
    assert runtime.handler.reached == (status == 200)


async def test_the_token_of_a_page_of_another_origin_does_not_help():
    runtime = NodeRuntime()
    assert (await runtime.ask(("origin", "https://evil.example"), TOKEN)).status == 403


@pytest.mark.parametrize(
    ("size", "status"), [("0", 200), (str(LIMIT), 200), (str(LIMIT + 1), 413), ("9" * 5000, 413)]
)
async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(size, status):
    runtime = NodeRuntime()
    answer = await runtime.ask(("content-length", size), path="/public", method="POST")
    assert answer.status == status
    if status == 413:
        assert "limit of 1,000 bytes" in answer.json()["detail"]
        assert runtime.handler.reached == 0


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
    runtime = NodeRuntime()
    answer = await runtime.ask(("authorization", authorization))
    assert answer.status == status
    assert runtime.handler.reached == (status == 200)
    if status == 401:
        assert answer.headers["www-authenticate"] == 'Bearer realm="comity"'
        assert "one-time link" in answer.json()["detail"]


async def test_without_a_token_and_with_two_it_stays_closed():
    runtime = NodeRuntime()
    assert (await runtime.ask()).status == 401
    assert (await runtime.ask(TOKEN, TOKEN)).status == 400
    assert (await runtime.ask(path="/public")).status == 200
    assert runtime.refused == ["unauthenticated", "malformed"]


@pytest.mark.parametrize("path", ["/public/", "//public", "/public/..", "/PUBLIC", "/private/../public", ""])
async def test_public_is_a_path_and_nothing_that_resembles_it(path):
    runtime = NodeRuntime()
    assert (await runtime.ask(path=path)).status == 401
    assert runtime.handler.reached == 0


@pytest.mark.parametrize("host", [b"evil.example", b"localhost"])
async def test_a_websocket_that_may_not_pass_is_closed(host):
    runtime = NodeRuntime()
    sent = []
    scope = scope_of(path="/private", type="websocket", scheme="ws")
    scope["headers"] = [(b"host", host)]

    async def send(message):
        sent.append(message)

    await runtime.guard(scope, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert runtime.handler.reached == 0


async def test_a_websocket_that_may_pass_does():
    runtime = NodeRuntime()
    same = ("origin", "http://localhost:8420")
    await runtime.guard(
        scope_of(path="/private", type="websocket", scheme="ws", headers=[TOKEN, same]), None, None
    )
    assert runtime.handler.reached == 1


STRANGER = {"client": ("192.0.2.7", 4000)}
FIGURES = Figures(requests=2, bytes=2000, per_seconds=60)


async def test_who_has_nothing_left_is_told_when_to_come_again_before_anything_else_is_looked_at():
    runtime = NodeRuntime(Figures(requests=4, per_seconds=120))
    for _ in range(2):
        assert (await runtime.with_host("evil.example", **STRANGER)).status == 403
    answer = await runtime.with_host("evil.example", **STRANGER)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "30"
    assert answer.json() == {
        "detail": "too many requests of this address; try again in 30 seconds",
        "code": "rate_limited",
    }
    assert runtime.refused == ["forbidden", "forbidden", "rate_limited"]
    await runtime.clock.advance(30)
    assert (await runtime.ask(path="/public", **STRANGER)).status == 200


async def test_announced_bytes_are_charged_and_refused_before_they_are_read():
    runtime = NodeRuntime(FIGURES)
    body = ("content-length", "1000")
    for _ in range(2):
        assert (await runtime.ask(body, path="/public", **STRANGER)).status == 200
    runtime = NodeRuntime(Figures(requests=100, bytes=1600, per_seconds=100))
    assert (await runtime.ask(body, path="/public", **STRANGER)).status == 200
    answer = await runtime.ask(body, path="/public", **STRANGER)
    assert (answer.status, answer.headers["retry-after"]) == (429, "25")
    assert "too many bytes of this address" in answer.json()["detail"]
    assert (await runtime.ask(path="/public", **STRANGER)).status == 200


async def test_a_body_beyond_the_limit_costs_a_refusal_and_no_bytes():
    runtime = NodeRuntime(Figures(requests=6, bytes=6000, per_seconds=60))
    for _ in range(3):
        answer = await runtime.ask(("content-length", "99999999999"), path="/public", **STRANGER)
        assert answer.status == 413
    assert (await runtime.ask(path="/public", **STRANGER)).status == 429


@pytest.mark.parametrize("parts", [[b"x" * 500] * 2, [b"x" * 1000]])
async def test_bytes_that_are_not_announced_are_charged_as_they_are_read(parts):
    runtime = NodeRuntime(Figures(requests=100, bytes=1500, per_seconds=60))

    async def read(scope, receive, send):
        try:
            assert len(await read_body(scope, receive, LIMIT)) == 1000
        except RateLimitedError as refusal:
            await answer_error(send, refusal)
        else:
            await answer_json(send, {})

    runtime.guard._app = read
    chunked = ("transfer-encoding", "chunked")
    statuses = [
        (await ask(runtime.guard, scope_of("POST", "/public", [chunked], **STRANGER), parts)).status
        for _ in range(2)
    ]
    assert statuses == [200, 429]


async def test_this_machine_is_not_charged_unless_a_setting_says_so():
    runtime = NodeRuntime(FIGURES)
    assert {(await runtime.ask(path="/public")).status for _ in range(5)} == {200}
    runtime = NodeRuntime(Figures(requests=2, limit_loopback=True))
    assert [(await runtime.ask(path="/public")).status for _ in range(3)] == [200, 200, 429]


async def test_the_owner_is_not_charged_and_a_wrong_token_is():
    runtime = NodeRuntime(FIGURES)
    assert {(await runtime.ask(TOKEN, **STRANGER)).status for _ in range(5)} == {200}
    wrong = ("authorization", "Bearer wrong")
    assert [(await runtime.ask(wrong, **STRANGER)).status for _ in range(3)] == [401, 429, 429]
    assert (await runtime.ask(TOKEN, **STRANGER)).status == 200
    assert (await runtime.ask(TOKEN, path="/public", **STRANGER)).status == 200


class TestRefusalsAreCharged:
    """A refusal costs a hundredth of the budget of its address, once, whichever layer refused."""

    async def answering(self, status, *headers, excused=False, **more):
        """What an address has left of 1000 after ten requests that the application answers with `status`."""
        runtime = NodeRuntime(Figures(requests=1000, per_seconds=1e9))

        async def answer(scope, receive, send):
            if excused:
                excuse_request()
            await answer_json(send, {}, status)

        runtime.guard._app = answer
        for _ in range(10):
            begin_request("one")
            assert (await runtime.ask(*headers, path="/public", **STRANGER, **more)).status == status
        return self.left_of(runtime)

    def left_of(self, runtime):
        left = 0
        while not runtime.budget.take(STRANGER["client"][0]):
            left += 1
        return left

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 415, 421, 423, 426, 431])
    async def test_what_the_application_refuses_is_charged_once(self, status):
        assert await self.answering(status) == 1000 - 10 * (1 + 10)

    @pytest.mark.parametrize("status", [200, 202, 304, 429, 500, 503, 507])
    async def test_answers_too_many_requests_and_our_own_failures_are_no_faults(self, status):
        assert await self.answering(status) == 1000 - 10

    async def test_who_has_proven_who_it_is_is_not_charged_for_a_refusal(self):
        assert await self.answering(409, excused=True) == 1000 - 10
        assert await self.answering(400, TOKEN) == 1000

    async def test_what_the_guard_refuses_is_charged_once(self):
        for headers, path in (
            ((), "/private"),
            ((("authorization", "Bearer wrong"),), "/private"),
            ((("origin", "http://evil.example"),), "/public"),
            ((("content-length", "99999999"),), "/public"),
        ):
            runtime = NodeRuntime(Figures(requests=1000, per_seconds=1e9))
            assert (await runtime.ask(*headers, path=path, **STRANGER)).status in (401, 403, 413)
            assert self.left_of(runtime) == 1000 - (1 + 10)

    async def test_an_upgrade_that_is_refused_is_charged_once(self):
        async def ignore(message):
            pass

        async def refuse(scope, receive, send):
            await send({"type": "websocket.http.response.start", "status": 403, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b""})

        for path, app in (("/private", None), ("/public", refuse)):
            runtime = NodeRuntime(Figures(requests=1000, per_seconds=1e9))
            runtime.guard._app = app
            await runtime.guard(scope_of(path=path, type="websocket", scheme="ws", **STRANGER), None, ignore)
            assert self.left_of(runtime) == 1000 - (1 + 10)

    async def test_an_access_token_that_lacks_the_scope_is_not_charged_to_the_address(self):
        class Lacking:
            def identify(self, path, token, address):
                raise ForbiddenError("the access token lacks the scope")

            def challenge(self, path, error):
                return None

        runtime = NodeRuntime(Figures(requests=1000, per_seconds=1e9), visitors=Lacking())
        assert (await runtime.ask(("authorization", "Bearer ann"), **STRANGER)).status == 403
        assert self.left_of(runtime) == 1000 - 1

    async def test_a_visitor_is_not_charged_for_a_refusal(self):
        class Known:
            def identify(self, path, token, address):
                return visitor(token, address)

            def challenge(self, path, error):
                return None

        async def refuse(scope, receive, send):
            await answer_json(send, {}, 400)

        runtime = NodeRuntime(
            Figures(requests=1000, per_seconds=1e9), visitors=Known(), right_for=lambda _path: "mcp"
        )
        runtime.guard._app = refuse
        assert (await runtime.ask(("authorization", "Bearer ann"), **STRANGER)).status == 400
        assert self.left_of(runtime) == 1000 - 1


async def test_headers_that_come_twice_are_charged_and_refused():
    runtime = NodeRuntime(Figures(requests=4))
    twice = [await runtime.ask(TOKEN, TOKEN, **STRANGER) for _ in range(3)]
    assert [answer.status for answer in twice] == [400, 400, 429]


async def test_a_visitor_is_charged_wherever_it_comes_from():
    class Known:
        def identify(self, path, token, address):
            return visitor(token, address)

        def challenge(self, path, error):
            return None

    runtime = NodeRuntime(FIGURES, visitors=Known(), right_for=lambda _path: "mcp")

    async def visit(who, address):
        return (await runtime.ask(("authorization", f"Bearer {who}"), client=(address, 1))).status

    assert [await visit("ann", f"192.0.2.{n}") for n in range(1, 4)] == [200, 200, 429]
    assert await visit("bob", "192.0.2.9") == 200


class TestTrustedProxies:
    async def peer(self, *headers, client="127.0.0.1", proxies=("127.0.0.1", "10.1.0.0/16", "2001:db8::/32")):
        seen = []
        runtime = NodeRuntime(proxies=proxies)

        async def look(scope, receive, send):
            seen.append(peer_of(scope))

        runtime.guard._app = look
        await runtime.ask(*headers, path="/public", client=(client, 1))
        return seen[0]

    @pytest.mark.parametrize(
        ("headers", "peer"),
        [
            ([("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
            ([("x-forwarded-for", "192.0.2.7:4711")], "192.0.2.7"),
            ([("x-forwarded-for", "spoofed, 198.51.100.9, 192.0.2.7")], "192.0.2.7"),
            ([("x-forwarded-for", "192.0.2.7, 10.1.2.3")], "192.0.2.7"),
            ([("x-forwarded-for", "192.0.2.7"), ("x-forwarded-for", "10.1.2.3")], "192.0.2.7"),
            ([("x-forwarded-for", "2001:db9:1:2:3::4")], "2001:db9:1:2::/64"),
            ([("x-forwarded-for", "[2001:db9:1:2:3::4]:99")], "2001:db9:1:2::/64"),
            ([("x-forwarded-for", "::ffff:192.0.2.7")], "192.0.2.7"),
            ([("forwarded", "for=192.0.2.7")], "192.0.2.7"),
            ([("forwarded", 'proto=https; For="192.0.2.7:4711" ;by=10.1.0.1')], "192.0.2.7"),
            ([("forwarded", 'for="[2001:db9:1:2:3::4]:99", for=10.1.2.3')], "2001:db9:1:2::/64"),
            ([("forwarded", 'for="unclosed, for=192.0.2.7')], "192.0.2.7"),
            ([("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
        ],
    )
    async def test_the_rightmost_address_that_is_no_trusted_proxy_counts(self, headers, peer):
        assert await self.peer(*headers) == peer

    @pytest.mark.parametrize(
        "headers",
        [
            [],
            [("x-forwarded-for", "")],
            [("x-forwarded-for", "garbage")],
            [("x-forwarded-for", "192.0.2.7, garbage")],
            [("x-forwarded-for", "192.0.2.7,")],
            [("x-forwarded-for", "192.0.2.7:port")],
            [("x-forwarded-for", "[2001:db9::1")],
            [("x-forwarded-for", "10.1.0.1, 10.1.0.2")],
            [("x-forwarded-for", "192.0.2.7" + ", 10.1.0.1" * 20)],
            [("x-forwarded-for", "127.0.0.2")],
            [("x-forwarded-for", "::1")],
            [("forwarded", "for=unknown")],
            [("forwarded", "for=_hidden")],
            [("forwarded", "by=192.0.2.7")],
            [("forwarded", "for=192.0.2.7;for=192.0.2.8")],
            [("forwarded", "for=198.51.100.1"), ("x-forwarded-for", "192.0.2.7")],
        ],
    )
    async def test_where_no_client_can_be_told_the_proxy_counts_with_the_limits_of_a_stranger(self, headers):
        peer = await self.peer(*headers)
        assert peer == "proxy 127.0.0.1"
        assert Budget(VirtualClock()).limits(peer)

    async def test_the_headers_of_anybody_else_are_ignored(self):
        forged = [("x-forwarded-for", "198.51.100.1"), ("forwarded", "for=198.51.100.1")]
        assert await self.peer(*forged, client="192.0.2.7") == "192.0.2.7"
        assert await self.peer(*forged, proxies=()) == "127.0.0.1"

    async def test_clients_behind_a_local_proxy_each_have_a_budget(self):
        runtime = NodeRuntime(FIGURES, proxies=["127.0.0.1"])

        async def status(client):
            return (await runtime.ask(("x-forwarded-for", client), path="/public")).status

        assert [await status("192.0.2.7") for _ in range(3)] == [200, 200, 429]
        assert await status("192.0.2.8") == 200


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
