"""Who may read which card, and how the handlers answer."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.directory.protocol.signed_requests import WINDOW_SECONDS, prove_reader, proven_reader
from comity.envelopes.protocol.errors import NotFoundError, VisibilityViolation
from comity.store.audit_chain import privacy_hash
from comity.store.audit_log import tail
from comity.wire.errors import ComityError, InvalidError, MalformedError, UnauthenticatedError, http_status
from tests.directory.publications import Directory, agent, hexes, publication

OWNER, PARENT, STRANGER = agent("owner"), agent("parent"), agent("stranger")


@pytest.fixture
async def hidden(directory):
    """A card that is for its owner and its parent only."""
    await directory.publish(
        publication(OWNER, "secret craft", visibility="NONE", parent_id=PARENT.vacant_id.hex())
    )
    return directory


class TestAHiddenCard:
    @pytest.mark.parametrize("handler", ["card", "lineage"])
    async def test_is_shown_to_its_owner_and_its_parent(self, hidden, handler):
        for reader in (OWNER, PARENT):
            shown = await hidden.ask(handler, OWNER, reader=reader)
            assert shown["vacant_id"] == OWNER.vacant_id.hex()

    async def test_has_a_log_of_hashes_for_those_who_know_its_id(self, hidden):
        """A client of the contract learns its next number there, and cannot prove who it is."""
        (event,) = await hidden.ask("event_log", OWNER)
        assert event["actor_seq"] == 1
        assert "secret craft" not in str(event)
        for reader in (OWNER, PARENT):
            assert await hidden.ask("event", 1, reader=reader) == event

    async def test_has_no_events_for_those_who_count_through_their_numbers(self, hidden):
        for reader in (None, STRANGER):
            with pytest.raises(NotFoundError):
                await hidden.ask("event", 1, reader=reader)

    @pytest.mark.parametrize("handler", ["card", "lineage"])
    async def test_is_shown_to_nobody_else(self, hidden, handler):
        for reader in (None, STRANGER):
            with pytest.raises(VisibilityViolation) as refusal:
                await hidden.ask(handler, OWNER, reader=reader)
            assert http_status(refusal.value) == 403

    async def test_is_not_shown_to_who_only_says_that_it_is_the_owner(self, hidden):
        with pytest.raises(VisibilityViolation):
            await hidden.ask("card", OWNER, caller=OWNER.vacant_id.hex())

    async def test_is_not_shown_for_a_proof_under_another_name(self, hidden):
        with pytest.raises(UnauthenticatedError):
            await hidden.ask("card", OWNER, reader=PARENT, caller=OWNER.vacant_id.hex())

    async def test_is_not_shown_for_an_old_proof(self, hidden, clock):
        class Yesterday:
            now = staticmethod(lambda: clock.now() - 86_400)

        late = Directory(hidden.store, clock)
        late.clock = Yesterday
        with pytest.raises(UnauthenticatedError, match="behind this node's clock"):
            await late.ask("card", OWNER, reader=OWNER)

    async def test_is_not_found(self, hidden):
        for reader in (None, OWNER):
            assert (await hidden.ask("query", capability="secret", reader=reader))["matches"] == []

    async def test_of_a_local_agent_is_hidden_whatever_it_asked_for(self, directory):
        await directory.publish(publication(OWNER, runtime_state="LOCAL", visibility="PUBLIC"))
        with pytest.raises(VisibilityViolation):
            await directory.ask("card", OWNER)
        assert (await directory.ask("card", OWNER, reader=OWNER))["visibility"] == "NONE"


class TestARestrictedCard:
    async def test_is_read_by_who_knows_its_id_and_found_by_nobody(self, directory):
        await directory.publish(publication(OWNER, "quiet craft", visibility="RESTRICTED"))
        assert (await directory.ask("card", OWNER))["visibility"] == "RESTRICTED"
        assert await directory.found("quiet") == []
        assert await directory.found() == []
        assert len(await directory.ask("event_log", OWNER)) == 1
        with pytest.raises(NotFoundError):  # its id would be found by counting
            await directory.ask("event", 1)


@pytest.mark.parametrize("handler", ["card", "lineage"])
async def test_an_id_that_is_not_there_is_not_found(directory, handler):
    with pytest.raises(NotFoundError) as refusal:
        await directory.ask(handler, STRANGER)
    assert http_status(refusal.value) == 404


async def test_an_id_that_is_not_there_has_an_empty_log(directory):
    assert await directory.ask("event_log", STRANGER) == []


@pytest.mark.parametrize("handler", ["card", "event_log", "lineage"])
class TestAnId:
    @pytest.mark.parametrize("wrong", ["", "xyz", "00" * 31, "00" * 33, "\u0660" * 64])
    async def test_that_is_none_is_malformed(self, directory, handler, wrong):
        with pytest.raises(MalformedError):
            await directory.ask(handler, wrong)

    async def test_may_be_written_in_capitals(self, directory, handler):
        await directory.publish(publication(OWNER))
        shown = await directory.ask(handler, OWNER.vacant_id.hex().upper())
        named = shown[0]["actor_vacant_id"] if handler == "event_log" else shown["vacant_id"]
        assert named == OWNER.vacant_id.hex()


async def test_the_parent_never_signed_for_is_shown_as_the_owner_said_it(hidden):
    shown = await hidden.ask("card", OWNER, reader=OWNER)
    assert [shown["parent_id"]] == hexes(PARENT)


async def test_a_read_is_noted_under_the_name_that_was_proven(hidden):
    await hidden.ask("card", OWNER, reader=OWNER)
    await hidden.ask("query")
    hidden.pipeline.record.flush()
    await hidden.store.commit()  # what was noted without waiting is before it
    *_, card, query = [entry async for entry in tail(hidden.store, "main", 10)]
    assert (card.verification_result, query.verification_result) == (
        "DIRECTORY_CARD_OK",
        "DIRECTORY_QUERY_OK",
    )
    assert card.issuer_hash == privacy_hash(f"vacant:{OWNER.vacant_id.hex()}")
    assert query.issuer_hash == privacy_hash("unknown")


async def test_the_query_is_answered_in_the_shape_of_the_contract(directory):
    await directory.publish(publication(OWNER, "translate", base_model_family="claude"))
    shown = await directory.ask("query", capability="translate")
    assert shown["not_implemented_in_p4"] == []
    (match,) = shown["matches"]
    assert match.keys() == {
        "vacant_id",
        "capability_card_hash_hex",
        "capability_card_sig_hex",
        "declared_capabilities_json",
        "base_model_family",
        "visibility",
        "score",
        "capability_card_blob_hex",
        "reviews",  # ours, beyond the contract's
    }
    assert match["declared_capabilities_json"] == '["translate"]'
    assert match["score"] == 0.0


# How a reader proves who it is.

ALICE, MALLORY = agent("alice"), agent("mallory")
HERE = {"host": "directory.example:8443", "path": "/v1/capability_card/00"}
NOW = 1_767_225_600.25


def test_a_proof_names_its_maker():
    proof = prove_reader(ALICE, **HERE, now=NOW)
    assert proven_reader(proof, **HERE, now=NOW) == ALICE.vacant_id


def test_a_name_alone_proves_nothing():
    assert proven_reader({"caller": ALICE.vacant_id.hex()}, **HERE, now=NOW) is None
    assert proven_reader({}, **HERE, now=NOW) is None


@pytest.mark.parametrize("elsewhere", [{"host": "other.example"}, {"path": "/v1/capability_card/01"}])
def test_a_proof_for_one_place_is_none_for_another(elsewhere):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    with pytest.raises(UnauthenticatedError, match="host, path and moment"):
        proven_reader(proof, **{**HERE, **elsewhere}, now=NOW)


def test_the_case_of_a_host_does_not_matter():
    proof = prove_reader(ALICE, host="Directory.Example", path="/", now=NOW)
    assert proven_reader(proof, host="directory.EXAMPLE", path="/", now=NOW) == ALICE.vacant_id


@pytest.mark.parametrize("skew", [-WINDOW_SECONDS, WINDOW_SECONDS])
def test_a_proof_holds_for_five_minutes_to_either_side_and_a_refusal_names_both_clocks(skew):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    assert proven_reader(proof, **HERE, now=NOW + skew)
    with pytest.raises(UnauthenticatedError, match=r"it says \d{4}-.*Z, this node \d{4}-.*Z"):
        proven_reader(proof, **HERE, now=NOW + skew * 1.01)


def test_a_proof_cannot_be_dated_later_or_given_another_name():
    proof = prove_reader(ALICE, **HERE, now=NOW)
    for forged in ({"caller_ts_ms": str(int(NOW * 1000) + 1)}, {"caller": MALLORY.vacant_id.hex()}):
        with pytest.raises(UnauthenticatedError):
            proven_reader({**proof, **forged}, **HERE, now=NOW)


@pytest.mark.parametrize("missing", ["caller", "caller_ts_ms", "caller_signature_hex"])
def test_a_proof_that_is_not_whole_is_refused_unless_only_the_name_is_left(missing):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    del proof[missing]
    with pytest.raises(InvalidError, match="all three"):
        proven_reader(proof, **HERE, now=NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"caller": "zz"},
        {"caller_ts_ms": "1e9"},
        {"caller_ts_ms": "-5"},
        {"caller_ts_ms": "\u0661\u0662"},
        {"caller_ts_ms": "9" * 17},
        {"caller_signature_hex": "00" * 63},
        {"caller_signature_hex": "zz" * 64},
        {"caller_signature_hex": " 0" * 64},
    ],
)
def test_what_is_not_written_as_it_should_be_is_malformed(wrong):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    with pytest.raises(MalformedError):
        proven_reader({**proof, **wrong}, **HERE, now=NOW)


@given(st.dictionaries(st.sampled_from(["caller", "caller_ts_ms", "caller_signature_hex", "x"]), st.text()))
def test_whatever_is_offered_proves_nobody_or_is_refused_in_words(query):
    with contextlib.suppress(ComityError):
        assert proven_reader(query, **HERE, now=NOW) is None
