"""The log of what an actor registered, as a reader sees and verifies it."""

import msgspec
import pytest

from comity.core.card.register_event import RegisterEvent
from comity.core.envelope.errors import HashChainError, SignatureVerificationError
from comity.core.errors import InvalidError
from comity.pipeline.directory.events import LoggedEvent, check_events, event_log
from tests.pipeline.directory.publications import agent, publication

ALICE, BOB = agent("alice"), agent("bob")


@pytest.fixture
async def filled(directory):
    for seq in range(1, 6):
        await directory.publish(publication(ALICE, f"text {seq}", seq=seq))
    await directory.publish(publication(BOB))
    return directory


def read(told):
    return msgspec.convert(told["events"], list[LoggedEvent])


class TestTheLog:
    async def test_holds_the_events_of_one_actor_in_order(self, filled):
        told = await filled.ask("event_log", ALICE)
        assert [event["event_seq"] for event in told["events"]] == [1, 2, 3, 4, 5]
        assert {event["actor"] for event in told["events"]} == {ALICE.vacant_id.hex()}
        assert told["last_seq"] == 5

    @pytest.mark.parametrize(
        ("page", "expected"),
        [
            ({"from_seq": 0}, [1, 2, 3, 4, 5]),
            ({"from_seq": 3}, [3, 4, 5]),
            ({"from_seq": 2, "limit": 2}, [2, 3]),
            ({"from_seq": 6}, []),
            ({"from_seq": 10**17}, []),
            ({"limit": 500}, [1, 2, 3, 4, 5]),
        ],
    )
    async def test_is_read_in_pages(self, filled, page, expected):
        told = await filled.ask("event_log", ALICE, **page)
        assert [event["event_seq"] for event in told["events"]] == expected
        assert told["last_seq"] == 5

    @pytest.mark.parametrize(
        "page",
        [
            {"limit": 0},
            {"limit": 501},
            {"limit": ""},
            {"limit": "ten"},
            {"limit": "1.0"},
            {"limit": "\u0665"},
            {"from_seq": -1},
            {"from_seq": "9" * 30},
        ],
    )
    async def test_has_no_pages_outside_their_range(self, filled, page):
        with pytest.raises(InvalidError, match="must be a number"):
            await filled.ask("event_log", ALICE, **page)

    async def test_refuses_the_same_from_inside(self, filled):
        for wrong in ({"from_seq": -1}, {"limit": 0}, {"limit": 501}):
            with pytest.raises(InvalidError):
                await event_log(filled.store, ALICE.vacant_id, **wrong)


class TestVerifying:
    async def test_accepts_every_page(self, filled):
        for from_seq in range(1, 7):
            check_events(ALICE.vacant_id, read(await filled.ask("event_log", ALICE, from_seq=from_seq)))

    @pytest.mark.parametrize(
        ("member", "value", "error"),
        [
            ("payload", '{"visibility":"NONE"}', HashChainError),
            ("payload_hash_hex", "00" * 32, SignatureVerificationError),
            ("payload_hash_hex", "zz", HashChainError),
            ("idempotency_key", "other", SignatureVerificationError),
            ("ts_ms", 1, SignatureVerificationError),
            ("ts_ms", -1, HashChainError),
            ("actor_seq", 9, SignatureVerificationError),
            ("actor", BOB.vacant_id.hex(), SignatureVerificationError),
            ("subject", BOB.vacant_id.hex(), SignatureVerificationError),
            ("event_type", "forget", SignatureVerificationError),
            ("signature_hex", "00" * 64, SignatureVerificationError),
            ("signature_hex", "", SignatureVerificationError),
            ("prev_event_hash_hex", "00" * 32, HashChainError),
            ("prev_event_hash_hex", "0", HashChainError),
            ("event_hash_hex", "00" * 32, HashChainError),
        ],
    )
    async def test_refuses_an_event_that_was_changed(self, filled, member, value, error):
        events = read(await filled.ask("event_log", ALICE))
        events[2] = msgspec.structs.replace(events[2], **{member: value})
        with pytest.raises(error, match="event"):
            check_events(ALICE.vacant_id, events)

    async def test_refuses_a_link_to_something_else_although_its_hash_fits(self, filled):
        events = read(await filled.ask("event_log", ALICE))
        last = events[-1]
        signed = RegisterEvent(
            actor=ALICE.vacant_id,
            payload_hash=bytes.fromhex(last.payload_hash_hex),
            idempotency_key=last.idempotency_key,
            ts_ms=last.ts_ms,
            actor_seq=last.actor_seq,
            signature=bytes.fromhex(last.signature_hex),
        )
        other = bytes([7] * 32)
        events[-1] = msgspec.structs.replace(
            last, prev_event_hash_hex=other.hex(), event_hash_hex=signed.event_hash(other).hex()
        )
        with pytest.raises(HashChainError, match="event 5 does not follow event 4"):
            check_events(ALICE.vacant_id, events)

    async def test_refuses_a_last_hash_that_is_not_its_own(self, filled):
        events = read(await filled.ask("event_log", ALICE))
        events[-1] = msgspec.structs.replace(events[-1], event_hash_hex="00" * 32)
        with pytest.raises(HashChainError, match="hash it claims"):
            check_events(ALICE.vacant_id, events)

    async def test_refuses_a_gap_and_a_swap(self, filled):
        events = read(await filled.ask("event_log", ALICE))
        for wrong in ([events[0], events[2]], [events[1], events[0]], [events[0], events[0]]):
            with pytest.raises(HashChainError, match="does not follow"):
                check_events(ALICE.vacant_id, wrong)

    async def test_refuses_a_first_event_that_follows_something(self, filled):
        (first, *_) = read(await filled.ask("event_log", ALICE))
        with pytest.raises(HashChainError, match="32 zero bytes"):
            check_events(ALICE.vacant_id, [msgspec.structs.replace(first, prev_event_hash_hex="11" * 32)])

    async def test_refuses_the_events_of_somebody_else(self, filled):
        events = read(await filled.ask("event_log", BOB))
        with pytest.raises(SignatureVerificationError):
            check_events(ALICE.vacant_id, events)
