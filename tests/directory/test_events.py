"""The log of what was registered, as a reader sees and verifies it."""

import msgspec
import pytest

from comity.directory.events import NODES, DirectoryEvent, check_events, event_at, event_log
from comity.directory.protocol.signed_requests import RegisterEvent
from comity.envelopes.protocol.envelope import digest
from comity.envelopes.protocol.errors import HashChainError, SignatureVerificationError
from comity.wire.errors import InvalidError
from tests.directory.publications import agent, hexes, publication

ALICE, BOB = agent("alice"), agent("bob")


@pytest.fixture
async def filled(directory):
    """Events 1, 2, 4, 5, 6 of Alice, 3 of Bob."""
    for seq in range(1, 6):
        await directory.publish(publication(ALICE, f"text {seq}", seq=seq))
        if seq == 2:
            await directory.publish(publication(BOB))
    return directory


def read(shown):
    return msgspec.convert(shown, list[DirectoryEvent])


class TestTheLog:
    async def test_holds_the_events_of_one_actor_in_order(self, filled):
        shown = await filled.ask("event_log", ALICE)
        assert [event["seq"] for event in shown] == [1, 2, 4, 5, 6]
        assert [event["actor_seq"] for event in shown] == [1, 2, 3, 4, 5]
        assert {event["actor_vacant_id"] for event in shown} == {ALICE.vacant_id.hex()}

    async def test_is_one_chain_for_all_actors(self, filled):
        previous = bytes(32).hex()
        for seq in range(1, 7):
            event = await filled.ask("event", seq)
            assert (event["seq"], event["prev_event_hash_hex"]) == (seq, previous)
            previous = event["event_hash_hex"]
        assert await event_at(filled.store, 0) is await event_at(filled.store, 7) is None

    @pytest.mark.parametrize(
        ("page", "expected"),
        [
            ({"from_seq": 0}, [1, 2, 4, 5, 6]),
            ({"from_seq": 2}, [4, 5, 6]),
            ({"from_seq": 3}, [4, 5, 6]),
            ({"from_seq": 1, "limit": 2}, [2, 4]),
            ({"from_seq": 6}, []),
            ({"from_seq": 10**17}, []),
            ({"limit": 500}, [1, 2, 4, 5, 6]),
        ],
    )
    async def test_is_read_in_pages(self, filled, page, expected):
        assert [event["seq"] for event in await filled.ask("event_log", ALICE, **page)] == expected

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
        for from_seq in range(7):
            check_events(ALICE.vacant_id, read(await filled.ask("event_log", ALICE, from_seq=from_seq)))

    async def test_accepts_events_of_a_directory_that_does_not_show_the_proof(self, filled):
        events = [
            msgspec.structs.replace(event, signature_hex=None, idempotency_key=None, prev_event_hash_hex=None)
            for event in read(await filled.ask("event_log", ALICE))
        ]
        check_events(ALICE.vacant_id, events)

    @pytest.mark.parametrize(
        ("member", "value", "error"),
        [
            ("payload_json", '{"visibility":"NONE"}', SignatureVerificationError),
            ("idempotency_key", "other", SignatureVerificationError),
            ("ts", 1, SignatureVerificationError),
            ("ts", -1, HashChainError),
            ("actor_seq", 9, SignatureVerificationError),
            ("actor_vacant_id", BOB.vacant_id.hex(), SignatureVerificationError),
            ("subject_vacant_id", BOB.vacant_id.hex(), SignatureVerificationError),
            ("signature_hex", "00" * 64, SignatureVerificationError),
            ("signature_hex", "", SignatureVerificationError),
            ("signature_hex", "zz", HashChainError),
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
        events[-1] = linked_to(bytes([7] * 32), events[-1])
        with pytest.raises(HashChainError, match="event 6 does not continue the chain of event 5"):
            check_events(ALICE.vacant_id, events)

    async def test_refuses_a_gap_and_a_swap(self, filled):
        events = read(await filled.ask("event_log", ALICE))
        for wrong in ([events[0], events[2]], [events[1], events[0]], [events[0], events[0]]):
            with pytest.raises(HashChainError, match="does not follow"):
                check_events(ALICE.vacant_id, wrong)

    async def test_refuses_a_first_event_that_follows_something(self, filled):
        (first, *_) = read(await filled.ask("event_log", ALICE))
        with pytest.raises(HashChainError, match="event 1 does not continue the chain of event 0"):
            check_events(ALICE.vacant_id, [linked_to(bytes([7] * 32), first)])

    async def test_refuses_the_events_of_somebody_else(self, filled):
        events = read(await filled.ask("event_log", BOB))
        with pytest.raises(SignatureVerificationError):
            check_events(ALICE.vacant_id, events)


def linked_to(previous, event):
    """The same signed event as one that follows `previous`."""
    signed = RegisterEvent(
        actor=ALICE.vacant_id,
        payload_hash=digest(event.payload_json.encode()),
        idempotency_key=event.idempotency_key,
        ts_ms=event.ts,
        actor_seq=event.actor_seq,
        signature=bytes.fromhex(event.signature_hex),
    )
    return msgspec.structs.replace(
        event, prev_event_hash_hex=previous.hex(), event_hash_hex=signed.event_hash(previous).hex()
    )


# Ancestors and descendants, how deep they go and what they do not show.

A, B, C, D, E = (agent(name) for name in "abcde")


async def born(directory, key, parent=None, **members):
    parent_id = None if parent is None else parent.vacant_id.hex()
    await directory.publish(publication(key, parent_id=parent_id, **members))


async def relatives(directory, key, direction, **asked):
    shown = await directory.ask("lineage", key, direction=direction, **asked)
    assert shown["direction"] == direction
    assert shown["chain"] == [node["vacant_id"] for node in shown["nodes"]]
    return [(node["vacant_id"], node["depth"]) for node in shown["nodes"]]


@pytest.fixture
async def family(directory):
    """A → B → (C, D), C → E."""
    for key, parent in ((A, None), (B, A), (C, B), (D, B), (E, C)):
        await born(directory, key, parent)
    return directory


class TestAncestors:
    async def test_come_nearest_first(self, family):
        assert await relatives(family, E, "ancestors") == list(zip(hexes(C, B, A), (1, 2, 3), strict=True))
        assert await relatives(family, A, "ancestors") == []

    async def test_end_at_the_depth_asked_for(self, family):
        assert await relatives(family, E, "ancestors", depth=2) == [*zip(hexes(C, B), (1, 2), strict=True)]

    async def test_are_what_is_meant_when_nobody_says(self, family):
        shown = await family.ask("lineage", E)
        assert (shown["direction"], len(shown["nodes"])) == ("ancestors", 3)

    async def test_end_where_a_parent_is_not_here(self, directory):
        await born(directory, B, A)
        assert await relatives(directory, B, "ancestors") == []

    async def test_end_before_one_that_is_hidden(self, directory):
        await born(directory, A)
        await born(directory, B, A, visibility="NONE")
        await born(directory, C, B)
        assert await relatives(directory, C, "ancestors") == []

    async def test_show_one_that_is_restricted_since_its_child_names_it(self, directory):
        await born(directory, A, visibility="RESTRICTED")
        await born(directory, B, A)
        assert await relatives(directory, B, "ancestors") == [(A.vacant_id.hex(), 1)]


class TestDescendants:
    async def test_come_generation_by_generation(self, family):
        assert await relatives(family, A, "descendants") == [
            *zip(hexes(B, C, D, E), (1, 2, 2, 3), strict=True)
        ]
        assert await relatives(family, E, "descendants") == []

    async def test_end_at_the_depth_asked_for(self, family):
        assert await relatives(family, A, "descendants", depth=1) == [(B.vacant_id.hex(), 1)]

    @pytest.mark.parametrize("quiet", [{"visibility": "NONE"}, {"visibility": "RESTRICTED"}])
    async def test_neither_show_nor_pass_through_what_is_not_public(self, directory, quiet):
        await born(directory, A)
        await born(directory, B, A, **quiet)
        await born(directory, C, B)
        await born(directory, D, A)
        assert await relatives(directory, A, "descendants") == [(D.vacant_id.hex(), 1)]

    async def test_are_no_more_than_one_answer_holds(self, directory):
        await born(directory, A)
        for n in range(NODES + 1):
            await born(directory, agent(n), A)
        shown = await directory.ask("lineage", A, direction="descendants")
        assert (len(shown["nodes"]), shown["truncated"]) == (NODES, True)

    async def test_are_not_called_cut_when_they_all_fit(self, family):
        assert (await family.ask("lineage", A, direction="descendants"))["truncated"] is False


class TestACircle:
    """Nobody is its own parent, but two may call each other so."""

    @pytest.fixture
    async def circle(self, directory):
        for key, parent in ((A, C), (B, A), (C, B), (D, C)):
            await born(directory, key, parent)
        return directory

    async def test_is_walked_once_upwards(self, circle):
        assert await relatives(circle, A, "ancestors") == [*zip(hexes(C, B), (1, 2), strict=True)]
        assert await relatives(circle, D, "ancestors") == [*zip(hexes(C, B, A), (1, 2, 3), strict=True)]

    async def test_is_walked_once_downwards(self, circle):
        found = await relatives(circle, A, "descendants")
        assert found == [*zip(hexes(B, C, D), (1, 2, 3), strict=True)]


async def test_thirty_two_generations_are_the_most(directory):
    line = [agent(n) for n in range(40)]
    for parent, child in zip([None, *line], line, strict=False):
        await born(directory, child, parent)
    assert len(await relatives(directory, line[-1], "ancestors")) == 32
    assert len(await relatives(directory, line[0], "descendants")) == 32


@pytest.mark.parametrize(
    "wrong", [{"depth": 0}, {"depth": 33}, {"depth": "x"}, {"direction": "sideways"}, {"direction": ""}]
)
async def test_what_is_outside_its_range_is_refused(family, wrong):
    with pytest.raises(InvalidError):
        await family.ask("lineage", A, **wrong)
