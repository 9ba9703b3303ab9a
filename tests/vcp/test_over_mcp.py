"""A handshake inside an MCP message: by the same rules as on a link, and no reason for MCP to fail."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.revocation import Denylist
from comity.identity.protocol.tokens import IdentityMode, log_prefix
from comity.mcp.protocol.context import McpClient
from comity.requests.budget import HANDSHAKE_PERIOD, Figures
from comity.requests.caller import OWN_PROCESS, Caller, anonymous
from comity.store.vault import Vault
from comity.testing import SimulatedClock, run_simulated
from comity.vcp import over_mcp
from comity.vcp.identity import IdentityChecker
from comity.vcp.over_mcp import VcpOverMcp, owner_of_caller
from comity.vcp.protocol.agreement import Identity
from comity.vcp.protocol.messages import HANDSHAKE_LIMIT
from comity.wire import strict_json
from tests.callers import visitor
from tests.vcp.runtime import (
    ISSUERS,
    PERSONAL,
    RELATIONAL,
    STRANGER,
    TORCH,
    NodeRuntime,
    SlowChecker,
    hello,
    token,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = ["version", "min_version", "extensions", "identity", "client_id", "capabilities", "nonce"]


def client(*, modern=False, peer=STRANGER, owner="ann"):
    return McpClient(
        version="2026-07-28" if modern else "2025-06-18", modern=modern, caller=visitor(owner, peer)
    )


class Over:
    def __init__(self, **settings):
        self.runtime = NodeRuntime(**settings)
        self.vcp = VcpOverMcp(self.runtime.service, self.runtime.clock, own_id="f" * 64)

    async def say(self, message, **who):
        return await self.vcp.negotiate(message, client(**who))

    @property
    def live(self):
        return [session.id for session in self.runtime.service.sessions]


def test_a_hello_is_acknowledged_with_what_is_supported():
    async def main():
        over = Over()
        agreed = await over.say(hello(PERSONAL, TORCH))
        assert agreed.reply["type"] == "vcp-ack"
        assert agreed.reply["supported"] == [PERSONAL]
        assert agreed.reply["unsupported"] == [TORCH]
        assert agreed.attached.extensions == (PERSONAL,)
        assert agreed.agreed(client()).active == frozenset({PERSONAL})
        assert await over.runtime.results() == ["HANDSHAKE_ACK"]

    run_simulated(main)


def test_the_session_of_a_legacy_client_lives_until_it_is_ended():
    async def main():
        over = Over()
        agreed = await over.say(hello(PERSONAL))
        assert over.live == [agreed.attached.id]
        over.vcp.end(agreed.attached)
        over.vcp.end(agreed.attached)
        over.vcp.end(None)
        assert over.live == []

    run_simulated(main)


def test_the_session_of_a_modern_request_is_not_found_by_the_next():
    async def main():
        over = Over()
        one = await over.say(hello(PERSONAL), modern=True)
        other = await over.say(hello(PERSONAL), modern=True)
        assert one.attached.id != other.attached.id
        assert over.live == []

    run_simulated(main)


@pytest.mark.parametrize("said", [None, 7, "vcp-hello", [], {}, {"type": "vcp-ack"}, {"version": "3.1"}])
def test_what_is_no_hello_is_told_so(said):
    async def main():
        over = Over()
        refused = await over.say(said)
        assert (refused.reply["type"], refused.attached) == ("vcp-error", None)
        assert "vcp-hello" in refused.reply["message"]

    run_simulated(main)


def test_a_version_that_is_not_spoken_is_an_error_and_no_session():
    async def main():
        over = Over()
        refused = await over.say(hello(PERSONAL, version="9.0", min_version="9.0"))
        assert refused.reply["type"] == "vcp-error"
        assert refused.agreed(client()).active == frozenset()
        assert over.live == []

    run_simulated(main)


def test_a_hello_is_limited_in_size():
    async def main():
        over = Over()
        left = HANDSHAKE_LIMIT - len(strict_json.dumps(hello(PERSONAL, note="")))
        large = await over.say(hello(PERSONAL, note="x" * (left + 1)))
        assert (large.reply["type"], "65,536" in large.reply["message"]) == ("vcp-error", True)
        fits = await over.say(hello(PERSONAL, note="x" * left))
        assert fits.reply["type"] == "vcp-ack"

    run_simulated(main)


def test_a_token_makes_the_owner_and_shows_only_its_beginning():
    async def main():
        over = Over()
        agreed = await over.say(hello(PERSONAL, identity=token()))
        assert agreed.attached.identity.owner == "creed:user:alice"
        assert agreed.token_prefix == log_prefix(token())
        assert token() not in str(agreed)

    run_simulated(main)


def test_a_token_that_is_not_accepted_is_an_error():
    async def main():
        refused = await Over().say(hello(PERSONAL, identity="forged"))
        assert refused.reply["type"] == "vcp-error"
        assert "forged" not in str(refused.reply)

    run_simulated(main)


def test_an_identity_check_that_hangs_is_answered_in_time():
    async def main():
        over = Over(checker=SlowChecker(60))
        refused = await over.say(hello(PERSONAL, identity=token()))
        assert refused.reply["code"] == "INTERNAL_ERROR"
        assert over.runtime.clock.monotonic() < 5
        assert over.live == []

    run_simulated(main)


def test_an_identity_check_that_breaks_is_an_error_of_vcp_only():
    class Broken:
        async def check(self, _token, _decided):
            await asyncio.sleep(0)
            raise RuntimeError("the secret is 42")

    async def main():
        refused = await Over(checker=Broken()).say(hello(PERSONAL, identity=token()))
        assert refused.reply["type"] == "vcp-error"
        assert "42" not in str(refused.reply)

    run_simulated(main)


def test_sessions_of_one_address_are_limited():
    async def main():
        over = Over()
        for _ in range(Figures().handshakes):
            assert (await over.say(hello(PERSONAL))).reply["type"] == "vcp-ack"
        refused = (await over.say(hello(PERSONAL), owner="bob")).reply
        assert refused["code"] == "RATE_LIMITED"
        assert refused["retry_after"] >= 1
        assert (await over.say(hello(PERSONAL), peer="203.0.113.9")).reply["type"] == "vcp-ack"

    run_simulated(main)


def test_a_modern_client_may_repeat_its_hello_with_each_request():
    async def main():
        over = Over()
        await asyncio.sleep(10 * HANDSHAKE_PERIOD)
        for _ in range(Figures().handshakes * 20):
            agreed = await over.say(hello(PERSONAL, identity=token()), modern=True)
            assert agreed.reply["type"] == "vcp-ack"
            assert agreed.attached.identity.owner == "creed:user:alice"
        handshakes = [one for one in await over.runtime.results() if one == "HANDSHAKE_ACK"]
        assert len(handshakes) == 1

    run_simulated(main)


def test_only_the_same_hello_of_the_same_asker_is_a_repetition():
    async def main():
        over = Over()
        await over.say(hello(PERSONAL), modern=True)
        for number in range(Figures().handshakes - 1):
            await over.say(hello(PERSONAL, client_id=f"c{number}"), modern=True)
        for other in (hello(RELATIONAL), hello(PERSONAL, client_id="new")):
            assert (await over.say(other, modern=True)).reply["code"] == "RATE_LIMITED"
        assert (await over.say(hello(PERSONAL), modern=True, owner="bob")).reply["code"] == "RATE_LIMITED"
        assert (await over.say(hello(PERSONAL))).reply["code"] == "RATE_LIMITED"
        assert (await over.say(hello(PERSONAL), modern=True)).reply["type"] == "vcp-ack"

    run_simulated(main)


def test_the_hellos_that_are_remembered_are_bounded_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr(over_mcp, "_MAX_REPEATING", 2)

    async def main():
        over = Over()
        old, *new = [hello(PERSONAL, client_id=f"c{number}") for number in range(3)]
        for one in (old, *new, *new):
            await over.say(one, modern=True)
        assert await over.runtime.results() == ["HANDSHAKE_ACK"] * 3
        await over.say(old, modern=True)
        assert await over.runtime.results() == ["HANDSHAKE_ACK"] * 4

    run_simulated(main)


def test_a_repetition_after_a_while_is_a_handshake_again():
    async def main():
        over = Over()
        await over.say(hello(PERSONAL), modern=True)
        await asyncio.sleep(HANDSHAKE_PERIOD + 1)
        await over.say(hello(PERSONAL), modern=True)
        assert await over.runtime.results() == ["HANDSHAKE_ACK"] * 2

    run_simulated(main)


def test_a_token_that_is_refused_later_is_refused_in_a_repetition_too():
    class Changing:
        good = True

        async def check(self, _token, _decided):
            if not self.good:
                raise ValueError("no more")
            return Identity(issuer="creed", subject="alice", owner="creed:user:alice")

    async def main():
        checker = Changing()
        over = Over(checker=checker)
        said = hello(PERSONAL, identity=token())
        assert (await over.say(said, modern=True)).attached is not None
        checker.good = False
        assert (await over.say(said, modern=True)).attached is None
        assert "HANDSHAKE_ERROR" in await over.runtime.results()

    run_simulated(main)


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=4), st.booleans())
def test_whatever_a_hello_holds_it_is_answered(members, modern):
    async def main():
        over = Over(loopback_handshakes=1_000_000)
        outcome = await over.say({**hello(), **members}, modern=modern, peer="127.0.0.1")
        assert outcome.reply["type"] in ("vcp-ack", "vcp-error")
        assert (outcome.attached is None) == (outcome.reply["type"] == "vcp-error")

    run_simulated(main)


def test_a_lost_feature_ends_the_session_of_a_legacy_client_for_good():
    async def main():
        over = Over()
        result = []
        over.vcp.on_end = lambda: result.append("lists")
        agreed = await over.say(hello(PERSONAL))
        who = agreed.agreed(client())
        assert over.vcp.current(who) is who
        kept, over.runtime.vault = over.runtime.vault, Vault([])
        await asyncio.sleep(1.5)
        assert (over.live, result) == ([], ["lists"])
        now = over.vcp.current(who)
        assert (now.attached, now.active, now.token_prefix) == (None, frozenset(), None)
        assert "lost encryption" in now.vcp_ended
        over.runtime.vault = kept
        await asyncio.sleep(1.5)
        assert over.vcp.current(who).attached is None
        again = await over.say(hello(PERSONAL))
        assert again.reply["type"] == "vcp-ack"
        assert over.vcp.current(again.agreed(client())).active == {PERSONAL}
        assert await over.runtime.results() == ["HANDSHAKE_ACK", "SESSION_ENDED", "HANDSHAKE_ACK"]
        await over.vcp.aclose()

    run_simulated(main)


def test_a_lost_feature_is_noticed_by_the_next_request_too_also_of_a_session_from_before_a_restart():
    async def main():
        before = Over()
        agreed = await before.say(hello(PERSONAL))
        await before.vcp.aclose()
        over = Over()
        over.runtime.vault = Vault([])
        assert over.vcp.current(agreed.agreed(client())).attached is None
        assert await over.runtime.results() == ["SESSION_ENDED"]

    run_simulated(main)


def test_a_revoked_identity_ends_its_session_at_the_next_request():
    async def main():
        denied = Denylist()
        clock = SimulatedClock()
        checker = IdentityChecker(clock, mode=IdentityMode.VERIFIED, issuers=ISSUERS, denylist=lambda: denied)
        over = Over(clock=clock, checker=checker)
        alice = (await over.say(hello(PERSONAL, identity=token()))).agreed(client())
        bob = (await over.say(hello(PERSONAL, identity=token("bob")))).agreed(client())
        assert over.vcp.current(alice).active == {PERSONAL}
        denied = Denylist(bundle_ids=frozenset({"creed:alice"}))
        assert "revoked" in over.vcp.current(alice).vcp_ended
        assert over.vcp.current(bob).active == {PERSONAL}
        assert over.live == [bob.attached.id]
        await over.vcp.aclose()

    run_simulated(main)


def test_whom_a_session_belongs_to_without_a_token():
    own = "f" * 64
    visitor = Caller(
        kind="oauth", id="https://login.example:alice", address="192.0.2.1", proof="access token"
    )
    assert owner_of_caller(OWN_PROCESS, own) == own
    assert owner_of_caller(visitor, own) == "oauth/https://login.example:alice"
    assert owner_of_caller(anonymous("192.0.2.1"), own) is None
