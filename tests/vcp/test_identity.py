"""Who a token makes its sender, and what is looked up before that is believed."""

import msgspec
import pytest
from msgspec.structs import replace

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.revocation import (
    CrlSource,
    Denylist,
    RevocationList,
    Status,
    Unavailable,
    sign_members,
    sign_proof,
)
from comity.identity.protocol.tokens import (
    IdentityMode,
    Issuer,
    IssuerRegistry,
    SignatureKey,
    subject_id,
    token_id,
)
from comity.testing import EPOCH, VirtualClock
from comity.vcp.identity import IdentityChecker
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.context import constitution_id
from comity.vcp.protocol.negotiation import IdentityRefusedError, SessionEndedError
from comity.vcp.protocol.signals import ContextError
from comity.wire.errors import UnauthenticatedError
from tests.vcp.runtime import ALICE, ISSUER_KEY, ISSUERS, token

SUBJECT = subject_id("creed", "alice")
STRUCTURAL = Identity(issuer="creed", subject="alice")
SOURCE = CrlSource(issuer_id="creed", uri="https://creed.example/crl", accept_unsigned=True)
WITH_LIST = IssuerRegistry(
    [Issuer(name="creed", signature_keys=(SignatureKey(ISSUER_KEY.vacant_id.public),), crl=SOURCE)]
)
EMPTY = RevocationList(
    issuer_id="creed", published_at=EPOCH - 60, next_update=EPOCH + 3600, jtis={}, bundle_ids={}
)


class Lists:
    def __init__(self, found):
        self.found = found
        self.asked = []

    async def current(self, source):
        self.asked.append(source)
        return self.found

    def held(self, source):
        return None if isinstance(self.found, Unavailable) else self.found


def checker(**named):
    return IdentityChecker(VirtualClock(), **({"mode": IdentityMode.VERIFIED, "issuers": ISSUERS} | named))


async def decisions_about(asked, text):
    decided = []
    try:
        identity = await asked.check(text, lambda _verdict, status: decided.append(status.status.value))
    except UnauthenticatedError:
        return None, decided
    return identity, decided


async def test_a_proven_token_has_an_owner():
    identity, decided = await decisions_about(checker(), token())
    jtis = (token_id(token()),)
    assert identity == Identity(issuer="creed", subject="alice", owner="creed:user:alice", jtis=jtis)
    assert decided == ["good"]


@pytest.mark.parametrize("text", [token()[:-4] + "AAAA", token().replace("creed", "nobody")])
async def test_a_structural_token_has_none_where_nobody_vouches_for_it(text):
    identity, decided = await decisions_about(checker(mode=IdentityMode.STRUCTURAL), text)
    assert (identity.subject, identity.owner) == ("alice", None)
    assert decided == ["good"]


async def test_a_token_that_verifies_has_an_owner_in_every_mode():
    identity, decided = await decisions_about(checker(mode=IdentityMode.STRUCTURAL), token())
    assert (identity.subject, identity.owner) == ("alice", "creed:user:alice")
    assert decided == ["good"]
    denied = checker(
        mode=IdentityMode.STRUCTURAL, denylist=lambda: Denylist(jtis=frozenset({token_id(token())}))
    )
    assert await decisions_about(denied, token()) == (None, ["revoked"])


@pytest.mark.parametrize("text", ["nonsense", "", token()[:-4] + "AAAA", "family.safe.guide"])
async def test_what_is_not_proven_is_refused_and_nothing_is_looked_up_for_it(text):
    lists = Lists(EMPTY)
    assert await decisions_about(checker(issuers=WITH_LIST, lists=lists), text) == (None, [])
    assert lists.asked == []


async def test_the_list_of_the_issuer_decides():
    lists = Lists(EMPTY)
    identity, decided = await decisions_about(checker(issuers=WITH_LIST, lists=lists), token())
    assert (identity.verified, decided, lists.asked) == (True, ["good"], [SOURCE])
    revoked = Lists(replace(EMPTY, jtis={token_id(token()): "key_compromise"}))
    assert await decisions_about(checker(issuers=WITH_LIST, lists=revoked), token()) == (None, ["revoked"])


@pytest.mark.parametrize(
    "lists", [None, Lists(Unavailable("no answer")), Lists(replace(EMPTY, next_update=EPOCH - 301))]
)
async def test_what_cannot_be_known_counts_as_revoked(lists):
    assert await decisions_about(checker(issuers=WITH_LIST, lists=lists), token()) == (None, ["unknown"])


@pytest.mark.parametrize("mode", list(IdentityMode))
async def test_what_the_owner_of_the_node_revoked_is_refused_in_every_mode(mode):
    denied = Denylist(jtis=frozenset({token_id(token())}))
    strict = checker(mode=mode, denylist=lambda: denied)
    assert await decisions_about(strict, token()) == (None, ["revoked"])
    assert (await decisions_about(strict, token("bob")))[0] is not None


async def test_the_log_tells_why_and_never_the_token(caplog):
    caplog.set_level("INFO", "comity.vcp")
    await decisions_about(checker(), token()[:-4] + "AAAA")
    assert "bad_signature" in caplog.text
    assert "creed" not in caplog.text


async def test_whoever_brings_a_proven_token_is_told_whether_it_is_revoked_or_the_list_was_missing():
    async def refusal(found):
        with pytest.raises(IdentityRefusedError) as refused:
            await checker(issuers=WITH_LIST, lists=Lists(found)).check(token(), lambda *_: None)
        return refused.value

    revoked = await refusal(replace(EMPTY, jtis={token_id(token()): "key_compromise"}))
    assert "has been revoked" in revoked.message
    assert revoked.retry_after is None
    missing = await refusal(Unavailable("no answer"))
    assert "list of its issuer was not available" in missing.message
    assert "revoked" not in missing.message
    assert missing.retry_after == 10


class TestAnOpenSession:
    SESSION = Session(
        id="ses_1",
        version="3.1",
        identity=Identity(issuer="creed", subject="alice", owner="creed:user:alice", jtis=("one", "two")),
    )

    @pytest.mark.parametrize(
        "revoked", [{"jtis": {"two": "superseded"}}, {"bundle_ids": {"creed:alice": "x"}}]
    )
    async def test_ends_with_the_revocation_of_its_token_or_subject(self, revoked):
        lists = Lists(EMPTY)
        checking = checker(issuers=WITH_LIST, lists=lists)
        await checking.check_open(self.SESSION)
        assert checking.ended(self.SESSION) is None
        lists.found = replace(EMPTY, **revoked)
        with pytest.raises(SessionEndedError, match="revoked") as ended:
            await checking.check_open(self.SESSION)
        assert ended.value.vcp_code == "IDENTITY_INVALID"
        assert checking.ended(self.SESSION).message == ended.value.message

    async def test_ends_by_the_word_of_this_node(self):
        checking = checker(denylist=lambda: Denylist(jtis=frozenset({"one"})))
        with pytest.raises(SessionEndedError, match="revoked"):
            await checking.check_open(self.SESSION)

    async def test_ends_when_nobody_can_tell_any_more_and_says_so(self):
        checking = checker(issuers=WITH_LIST, lists=Lists(Unavailable("no answer")))
        with pytest.raises(SessionEndedError, match="list of its issuer was not available"):
            await checking.check_open(self.SESSION)
        assert checking.ended(self.SESSION) is None  # a fetch may still bring the list

    async def test_of_nobody_is_not_looked_up(self):
        lists = Lists(EMPTY)
        checking = checker(issuers=WITH_LIST, lists=lists)
        await checking.check_open(Session(id="ses_2", version="3.1"))
        assert checking.ended(Session(id="ses_2", version="3.1")) is None
        assert lists.asked == []


class TestAConstitution:
    TEXT = "Be kind to strangers."
    BUNDLE = constitution_id(TEXT)
    SESSION = TestAnOpenSession.SESSION

    def proof(self, status=Status.GOOD, key=ISSUER_KEY, **members):
        now = int(EPOCH)
        written = sign_proof(
            key,
            status=status,
            produced_at=now - 60,
            this_update=now - 60,
            next_update=now + 3600,
            responder_id="creed",
        )
        unsigned = {**msgspec.to_builtins(written), "bundle_id": self.BUNDLE, **members}
        return {**unsigned, "signature": sign_members(unsigned, key)}

    async def judged(self, stapled, **named):
        lists = Lists(Unavailable("no answer"))
        checking = checker(**{"issuers": WITH_LIST, "lists": lists} | named)
        try:
            await checking.check_bundle(self.BUNDLE, stapled, self.SESSION)
        except ContextError as refusal:
            return refusal.message, lists.asked
        return "good", lists.asked

    async def test_with_a_proof_needs_no_list(self):
        assert await self.judged(self.proof()) == ("good", [])
        result, asked = await self.judged(self.proof(Status.REVOKED))
        assert ("has been revoked" in result, asked) == (True, [])

    async def test_without_one_is_looked_up(self):
        result, asked = await self.judged(None)
        assert ("list of its issuer was not available" in result, asked) == (True, [SOURCE])
        revoked = Lists(replace(EMPTY, jtis={self.BUNDLE: "content_unsafe"}))
        assert (await self.judged(None, lists=revoked))[0].endswith("content_unsafe")
        assert (await self.judged(None, lists=Lists(EMPTY)))[0] == "good"

    STRANGER = SigningKey.from_seed(b"x" * 32)
    NO_PROOFS = (
        ({"bundle_id": "sha256:another"}, "not about this constitution"),
        ({"responder_id": "somebody"}, "no key of its responder"),
        ({"produced_at": "2020-01-01T00:00:00Z"}, "over a day before the clock here, 2026-01-01T00:00:00Z"),
        ({"produced_at": "2026-01-01T00:05:01Z"}, "the clock here says 2026-01-01T00:00:00Z"),
        ({"this_update": "2026-01-01T01:00:00Z"}, "it is of 2026-01-01T01:00:00Z, and the clock here"),
        ({"next_update": "2026-01-01T00:00:00Z"}, "it lasted until 2026-01-01T00:00:00Z, and the clock here"),
        ({"status": "unknown"}, "says itself that the status is unknown"),
        ({"status": "perhaps"}, "has a status"),
        ({"next_update": 7}, "has a status"),
        ({"key": STRANGER}, "not signed with a key"),
    )

    @pytest.mark.parametrize(("members", "fault"), NO_PROOFS)
    async def test_with_a_proof_that_does_not_count_is_looked_up_and_the_fault_named(self, members, fault):
        result, asked = await self.judged(self.proof(**members))
        assert asked == [SOURCE]
        assert f"this one does not count, because {fault}" in result or fault in result
        checking = checker(issuers=WITH_LIST, lists=Lists(EMPTY))
        assert fault in await checking.check_bundle(self.BUNDLE, self.proof(**members), self.SESSION)

    async def test_with_a_proof_that_is_changed_is_looked_up(self):
        unbound = {name: value for name, value in self.proof().items() if name != "bundle_id"}
        for stapled in (unbound, {**self.proof(Status.UNKNOWN), "status": "good"}):
            assert (await self.judged(stapled))[1] == [SOURCE]

    async def test_with_a_proof_five_minutes_ahead_needs_no_list(self):
        ahead = self.proof(produced_at="2026-01-01T00:05:00Z", this_update="2026-01-01T00:05:00Z")
        assert await self.judged(ahead) == ("good", [])

    async def test_that_this_node_revoked_is_refused_whatever_is_stapled(self):
        denied = Denylist(jtis=frozenset({self.BUNDLE}))
        result, _ = await self.judged(self.proof(), denylist=lambda: denied)
        assert "revoked on this node" in result


# Whether what a session depends on is still good.


@pytest.mark.parametrize("identity", [None, ALICE, STRUCTURAL, Identity()])
async def test_nothing_is_revoked_where_nobody_revoked(identity):
    assert not (await checker().still_good(("ses_1",), identity)).refuses


@pytest.mark.parametrize("identity", [None, ALICE, STRUCTURAL])
async def test_the_owner_of_the_node_revokes_a_thing_by_its_id(identity):
    denied = checker(denylist=lambda: Denylist(jtis=frozenset({"ses_1"})))
    assert (await denied.still_good(("ses_1",), identity)).refuses
    assert not (await denied.still_good(("ses_2",), identity)).refuses


@pytest.mark.parametrize(("identity", "refuses"), [(None, False), (ALICE, True), (STRUCTURAL, True)])
async def test_the_owner_of_the_node_revokes_a_subject_with_all_that_it_has(identity, refuses):
    denied = checker(denylist=lambda: Denylist(bundle_ids=frozenset({SUBJECT})))
    assert (await denied.still_good(("ses_1",), identity)).refuses is refuses


async def test_the_list_of_the_issuer_is_asked_for_a_proven_identity_only():
    lists = Lists(replace(EMPTY, bundle_ids={SUBJECT: "key_compromise"}))
    asking = checker(issuers=WITH_LIST, lists=lists)
    status = await asking.still_good(("ses_1",), ALICE)
    assert (status.refuses, status.detail) == (True, "key_compromise")
    assert len(lists.asked) == 1
    assert not (await asking.still_good(("ses_1",), STRUCTURAL)).refuses
    assert len(lists.asked) == 1


async def test_a_session_whose_list_cannot_be_known_counts_as_revoked():
    assert (await checker(issuers=WITH_LIST).still_good(("ses_1",), ALICE)).refuses
