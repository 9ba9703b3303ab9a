"""Publishing under a new key retires the card of the old one, and a thief keeps nothing that the recovery key takes back."""

import pytest

from comity.directory.outcomes import CallOutcomes
from comity.directory.protocol.reviews import SignedReview
from comity.directory.reviews import ReviewHandler, reviewed
from comity.envelopes.protocol.card import SubstrateSpec
from comity.envelopes.successions import known_lines
from comity.identity.protocol.succession import SuccessionRefusedError, make_succession, recovery_hash
from comity.requests.caller import OWN_PROCESS, anonymous
from comity.requests.handler import Request
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from comity.wire.errors import ConflictError, InvalidError
from tests.directory.publications import PEER, Directory, agent, card_of, hexes, publication

WHEN = "2026-01-31T08:15:00.000000Z"
A, B, C, THIEF, PAPER = map(agent, ("a", "b", "c", "thief", "paper"))
RECOVERY = recovery_hash(PAPER.vacant_id.public)


@pytest.fixture
def directory():
    clock = VirtualClock()
    return Directory(MemoryStore(clock, trail=AuditTrail("main", PAPER)), clock)


def line_of(*steps):
    line = ()
    for old, new, signer in steps:
        line += (
            make_succession(line, old=old.vacant_id, new=new, signer=signer, time=WHEN, reason="planned"),
        )
    return line


def publishing(key, line=(), *, seq=1, recovery=RECOVERY, text="echo what is said", **policy):
    policy |= {"recovery": recovery} if recovery else {}
    policy |= {"succession": [each.as_json() for each in line]} if line else {}
    card = card_of(key, text, substrate_spec=SubstrateSpec(policy=policy))
    return publication(key, seq=seq, card=card)


async def test_a_search_shows_the_new_card_and_not_the_old_one(directory):
    await directory.publish(publishing(A))
    await directory.publish(publishing(B, line_of((A, B, A))))
    assert await directory.found("echo") == hexes(B)
    shown = await directory.ask("card", A)
    assert shown["succeeded_by"] == B.vacant_id.hex()
    await directory.publish(publishing(C, line_of((A, B, A), (B, C, B))))
    assert await directory.found() == hexes(C)
    with pytest.raises(ConflictError, match="was replaced by"):
        await directory.publish(publishing(A, seq=2))
    assert await directory.found() == hexes(C)


async def test_a_card_that_names_no_recovery_key_is_not_retired(directory):
    await directory.publish(publishing(A, recovery=""))
    await directory.publish(publishing(B, line_of((A, B, A))))
    assert set(await directory.found("echo")) == set(hexes(A, B))
    (line,) = await known_lines(directory.store)
    assert line.state == "waits"


async def test_the_recovery_key_takes_the_place_in_the_directory_back(directory):
    await directory.publish(publishing(A))
    stolen = recovery_hash(THIEF.vacant_id.public)
    await directory.publish(
        publishing(A, seq=2, recovery=stolen)
    )  # the thief of the old key names a key of its own
    await directory.publish(publishing(THIEF, line_of((A, THIEF, A)), recovery=stolen))
    assert await directory.found() == hexes(THIEF)
    await directory.publish(publishing(B, line_of((A, B, PAPER))))
    assert await directory.found() == hexes(B)
    for _again in range(2):
        with pytest.raises(ConflictError, match="was replaced by"):
            await directory.publish(publishing(THIEF, line_of((A, THIEF, A)), seq=2))
    assert await directory.found() == hexes(B)


async def test_a_conflict_retires_nothing_more(directory):
    await directory.publish(publishing(A))
    await directory.publish(publishing(B, line_of((A, B, A))))
    await directory.publish(publishing(THIEF, line_of((A, THIEF, A))))
    (line,) = await known_lines(directory.store)
    assert line.state == "conflict"
    assert set(await directory.found()) == set(hexes(B, THIEF))


@pytest.mark.parametrize(
    "spoiled",
    [
        "x",
        [],
        [{}],
        [{**line_of((A, B, A))[0].as_json(), "reason": "other"}],
        [line_of((A, B, A))[0].as_json()] * 40,
    ],
)
async def test_a_false_line_is_refused_with_its_publication(directory, spoiled):
    await directory.publish(publishing(A))
    card = card_of(B, substrate_spec=SubstrateSpec(policy={"succession": spoiled}))
    with pytest.raises(SuccessionRefusedError):
        await directory.publish(publication(B, card=card))
    assert await directory.found() == hexes(A)
    assert await known_lines(directory.store) == []
    assert issubclass(SuccessionRefusedError, InvalidError)


async def test_a_line_that_ends_at_another_key_retires_nothing(directory):
    await directory.publish(publishing(A))
    await directory.publish(publishing(THIEF, line_of((A, B, A))))
    assert set(await directory.found()) == set(hexes(A, THIEF))


async def reviewed_by(directory, reviewer, target):
    directory.clock.jump(1)
    review = SignedReview(
        reviewer=reviewer.vacant_id.hex(),
        target=target.vacant_id.hex(),
        signals={"factual": 1.0},
        ts_ms=int(directory.clock.now() * 1000),
    ).signed(reviewer)
    request = Request(door="test", caller=anonymous(PEER), body=review)
    await directory.pipeline.run(ReviewHandler(directory.store), request)
    return await reviewed(directory.store, target.vacant_id.hex())


async def test_the_reputation_of_the_old_key_goes_on_under_the_new_one(directory):
    for key in (A, C):
        await directory.publish(publishing(key, recovery=RECOVERY if key is A else ""))
    before = await reviewed_by(directory, C, A)
    await directory.publish(publishing(B, line_of((A, B, A))))
    assert await reviewed(directory.store, B.vacant_id.hex()) == before
    after = await reviewed_by(directory, C, B)
    assert after.reviews == 2
    assert await reviewed(directory.store, A.vacant_id.hex()) == before


async def test_what_became_of_calls_to_the_old_key_counts_for_the_new_one(directory):
    await directory.publish(publishing(A, recovery=RECOVERY))
    outcomes = CallOutcomes(directory.store, directory.clock)
    with outcomes.watch(A.vacant_id, OWN_PROCESS):
        pass
    await outcomes.flush()
    await directory.publish(publishing(B, line_of((A, B, A))))
    before = await outcomes.of(A.vacant_id.hex())
    assert await outcomes.of(B.vacant_id.hex()) == before
    with outcomes.watch(B.vacant_id, OWN_PROCESS):
        pass
    await outcomes.flush()
    assert (await outcomes.of(B.vacant_id.hex())).events == 2
    assert (await outcomes.of(C.vacant_id.hex())).events == 0
