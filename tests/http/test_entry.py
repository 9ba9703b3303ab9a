"""Who may come in: tokens for programs, one-time links and cookies for browsers."""

import pytest

from comity.http.guard import LINK_SECONDS, SESSION_LIMIT, SESSION_SECONDS, HttpAccess, TokenHolder
from comity.testing import VirtualClock
from tests.http.asgi_calls import scope_of


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def entry(clock):
    return HttpAccess(
        lambda token: TokenHolder("admin") if token == "right" else None, clock, port=8420, secure=False
    )


def ticket_of(entry):
    path = entry.new_link()
    assert path.startswith("/enter/")
    return path.removeprefix("/enter/")


def cookie_of(entry):
    return entry.redeem(ticket_of(entry)).partition(";")[0]


def with_cookie(cookie, *more):
    return scope_of(headers=[("cookie", cookie), *more])


def admitted(entry, scope):
    """The kind of caller that the node sees in this request; None for anybody else."""
    caller = entry.caller_of(scope, "192.0.2.1")
    return None if caller is None else caller.kind


def test_a_link_leaves_a_cookie_that_lets_in(entry):
    cookie = cookie_of(entry)
    assert admitted(entry, with_cookie(cookie))
    assert not admitted(entry, with_cookie(cookie[:-1]))
    assert not admitted(entry, with_cookie(cookie.partition("=")[0] + "="))
    assert not admitted(entry, scope_of())


def test_a_link_works_once(entry):
    ticket = ticket_of(entry)
    assert entry.redeem(ticket)
    assert entry.redeem(ticket) is None


@pytest.mark.parametrize("ticket", ["", "nonsense", "0.0"])
def test_a_link_that_was_never_given_out_does_not_work(entry, ticket):
    assert entry.redeem(ticket) is None


def test_links_and_cookies_are_secrets_of_their_own(entry):
    tickets = {ticket_of(entry) for _ in range(50)}
    cookies = {cookie_of(entry) for _ in range(50)}
    assert len(tickets) == len(cookies) == 50
    assert all(len(ticket) >= 32 for ticket in tickets)
    assert not admitted(entry, with_cookie(f"comity-8420={ticket_of(entry)}"))


def test_a_link_expires(entry, clock):
    fresh, stale = ticket_of(entry), ticket_of(entry)
    clock.jump(LINK_SECONDS - 1)
    assert entry.redeem(fresh)
    clock.jump(1)
    assert entry.redeem(stale) is None


def test_a_session_expires(entry, clock):
    cookie = cookie_of(entry)
    clock.jump(SESSION_SECONDS - 1)
    assert admitted(entry, with_cookie(cookie))
    clock.jump(1)
    assert not admitted(entry, with_cookie(cookie))


def test_one_session_too_many_ends_the_oldest(entry):
    cookies = [cookie_of(entry) for _ in range(SESSION_LIMIT + 1)]
    let_in = [admitted(entry, with_cookie(cookie)) is not None for cookie in cookies]
    assert let_in == [False] + [True] * SESSION_LIMIT


@pytest.mark.parametrize("secure", [False, True])
def test_the_cookie_is_hidden_from_scripts_and_from_other_sites(clock, secure):
    entry = HttpAccess(lambda _token: None, clock, port=443, secure=secure)
    name, *attributes = entry.redeem(ticket_of(entry)).split("; ")
    assert name.startswith("comity-443=")
    wanted = {"Path=/", "HttpOnly", "SameSite=Strict", f"Max-Age={SESSION_SECONDS}"}
    assert set(attributes) == wanted | ({"Secure"} if secure else set())


def test_two_nodes_of_one_host_do_not_take_each_others_cookie(clock):
    """A browser sends the cookies of a host to all its ports."""
    nodes = [HttpAccess(lambda _token: None, clock, port=port, secure=False) for port in (8420, 8421)]
    cookies = [cookie_of(node) for node in nodes]
    jar = {cookie.partition("=")[0]: cookie for cookie in cookies}
    assert len(jar) == 2
    assert all(admitted(node, with_cookie("; ".join(cookies))) for node in nodes)
    assert not admitted(nodes[0], with_cookie(cookies[1]))


@pytest.mark.parametrize(
    "neighbours",
    [
        'prefs={"theme":"dark"}; {}',
        "{}; =; ;;",
        "theme=dark;{}",
        "a=b=c;  {}  ",
        "comity=old; {}",
        "\x80; {}",
    ],
)
def test_cookies_of_other_programs_on_this_host_are_no_obstacle(entry, neighbours):
    cookie = cookie_of(entry)
    assert admitted(entry, with_cookie(neighbours.replace("{}", cookie)))


def test_a_wrong_token_is_not_made_good_by_a_cookie(entry):
    cookie = cookie_of(entry)
    assert not admitted(entry, with_cookie(cookie, ("authorization", "Bearer wrong")))
    assert admitted(entry, with_cookie("none", ("authorization", "Bearer right")))
    assert admitted(entry, with_cookie(cookie, ("authorization", "Basic dXNlcg==")))


def test_ending_all_sessions_signs_every_browser_out_and_cancels_links(entry, clock):
    expired = cookie_of(entry)
    clock.jump(SESSION_SECONDS)
    cookie, ticket = cookie_of(entry), ticket_of(entry)
    assert entry.end_all() == 1
    assert not admitted(entry, with_cookie(cookie))
    assert not admitted(entry, with_cookie(expired))
    assert entry.redeem(ticket) is None
    assert admitted(entry, with_cookie(cookie_of(entry))) == "browser"


def test_what_a_caller_is_follows_from_what_it_shows(clock):
    holders = {"t1": TokenHolder("admin"), "t2": TokenHolder("metrics", "prometheus")}
    entry = HttpAccess(holders.get, clock, port=8420, secure=False)
    admin = entry.caller_of(scope_of(headers=[("authorization", "Bearer t1")]), "192.0.2.1")
    named = entry.caller_of(scope_of(headers=[("authorization", "Bearer t2")]), "192.0.2.1")
    assert (admin.kind, admin.owner, admin.short) == ("admin", "local", "local:admin")
    assert (named.kind, named.owner, named.short) == ("metrics", "local", "local:metrics:prometheus")
    reading = entry.redeem(entry.new_link(reads_only=True).removeprefix("/enter/")).partition(";")[0]
    assert admitted(entry, with_cookie(reading)) == "read"
    assert admitted(entry, with_cookie(cookie_of(entry))) == "browser"
