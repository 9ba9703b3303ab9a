import hashlib
import json

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.identity.protocol.keys import SigningKey, signature_bytes, signature_of
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol import log
from comity.votes.protocol.provenance import FORMAT, iso_duration, provenance_of, verify_record, write_record
from tests.votes.protocol.parties import ALICE, BETA, BOB, GAMMA, HOST, ID, Table, ratified

THREE_NODES = ratified()
RECORD = write_record(THREE_NODES.entries, THREE_NODES.head)


def code(call, *args, **more):
    with pytest.raises(ExtensionError) as refused:
        call(*args, **more)
    return refused.value.wire_code


class TestAnEntry:
    def test_is_signed_and_hashed_as_it_is_written_down(self):
        entry = THREE_NODES.entries[1]
        members = log.write_entry(entry)
        signed = {
            name: members[name]
            for name in ("delib_id", "number", "prev", "actor", "on_behalf", "action", "time")
        }
        message = b"comity-delib-v1\n" + rfc8785.dumps(signed)
        assert entry.signed_bytes() == message
        assert signature_bytes(members["signature"]) == HOST.sign(message)
        hashed = hashlib.sha256(message + HOST.sign(message)).hexdigest()
        assert entry.hash() == hashed == THREE_NODES.entries[2].prev
        stored = b"comity-keep-v1\n" + rfc8785.dumps({"delib_id": ID, "number": 2, "hash": hashed})
        assert signature_bytes(members["keeper_signature"]) == HOST.sign(stored)

    def test_is_followed_by_everybody_to_the_same_state(self):
        head = None
        for entry in THREE_NODES.entries:
            head = log.follow(head, log.read_entry(json.loads(json.dumps(log.write_entry(entry)))))
        assert head == THREE_NODES.head

    def test_with_a_right_signature_and_a_wrong_previous_hash_is_refused(self):
        table = Table()
        before = table.frozen()
        entry = replace(
            log.propose(
                table.head, ID, "consensus.advance", {"delib_id": ID, "to": "deliberation"}, HOST, table.now
            ),
            prev="0" * 64,
        )
        entry = replace(entry, signature=signature_of(entry.signed_bytes(), HOST))
        assert code(log.admit, table.head, entry, HOST, table.now) == "CONFLICT"
        assert code(log.follow, table.head, entry) == "CONFLICT"
        assert table.frozen() == before

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"number": 1}, "CONFLICT"),
            ({"number": 3}, "CONFLICT"),
            ({"prev": None}, "CONFLICT"),
            ({"delib_id": "dlb_other"}, "INVALID_ARGUMENT"),
            ({"actor": BOB}, "BAD_SIGNATURE"),
            ({"actor": ALICE.upper()}, "INVALID_ARGUMENT"),
            ({"on_behalf": "dave"}, "BAD_SIGNATURE"),
            ({"on_behalf": ALICE}, "INVALID_ARGUMENT"),
            ({"time": "2026-02-28T21:31:00Z"}, "BAD_SIGNATURE"),
            ({"time": "yesterday"}, "INVALID_ARGUMENT"),
            ({"time": "0001-01-01T00:00:00+14:00"}, "INVALID_ARGUMENT"),
            ({"signature": ""}, "BAD_SIGNATURE"),
            ({"signature": "A" * 86}, "BAD_SIGNATURE"),
            ({"signature": "é" * 86}, "BAD_SIGNATURE"),
            ({"keeper_signature": ""}, "BAD_SIGNATURE"),
            ({"keeper_signature": "A" * 86}, "BAD_SIGNATURE"),
            (
                {"action": log.LoggedAct(op="consensus.advance", args={"delib_id": ID, "to": "active"})},
                "BAD_SIGNATURE",
            ),
        ],
    )
    def test_that_was_altered_is_refused(self, change, expected):
        first, second = THREE_NODES.entries[:2]
        head = log.follow(None, first)
        assert code(log.follow, head, replace(second, **change)) == expected

    def test_is_taken_by_the_host_alone(self):
        table = Table()
        entry = log.propose(
            table.head, ID, "consensus.advance", {"delib_id": ID, "to": "deliberation"}, HOST, table.now
        )
        assert code(log.admit, table.head, entry, BETA, table.now) == "FORBIDDEN"

    def test_from_the_future_is_refused_by_the_host(self):
        table = Table()
        args = {"delib_id": ID, "to": "deliberation"}
        late = log.propose(table.head, ID, "consensus.advance", args, HOST, table.now + 301)
        with pytest.raises(ExtensionError, match=r"more than five minutes ahead .*; set your clock"):
            log.admit(table.head, late, HOST, table.now)
        soon = log.propose(table.head, ID, "consensus.advance", args, HOST, table.now + 300)
        assert log.admit(table.head, soon, HOST, table.now)[0].vote.phase == "deliberation"

    def test_that_comes_first_opens(self):
        entry = log.propose(None, ID, "consensus.advance", {"delib_id": ID, "to": "deliberation"}, HOST, 1.0)
        assert code(log.follow, None, entry) == "INVALID_ARGUMENT"

    def test_of_two_that_race_loses_with_a_conflict_and_may_try_again(self):
        table = Table()
        table.advance("deliberation")
        args = {"delib_id": ID, "clause_id": "c1", "action": "endorse"}
        mine, theirs = (
            log.propose(table.head, ID, "consensus.act", args, key, table.now) for key in (BETA, GAMMA)
        )
        head, _ = log.admit(table.head, mine, HOST, table.now)
        assert code(log.admit, head, theirs, HOST, table.now) == "CONFLICT"
        again = log.propose(head, ID, "consensus.act", args, GAMMA, table.now)
        assert log.admit(head, again, HOST, table.now)[0].tip.number == 4

    @pytest.mark.parametrize("value", [None, [], {}, {"delib_id": 1}, "x"])
    def test_that_is_none_is_refused(self, value):
        assert code(log.read_entry, value) == "INVALID_ARGUMENT"


class TestAKeeper:
    def two_with_one_number(self):
        table = Table()
        args = {"delib_id": ID, "to": "deliberation"}
        return [
            log.admit(
                table.head,
                log.propose(table.head, ID, "consensus.advance", args, HOST, table.now + later),
                HOST,
                table.now + 1,
            )[0].tip
            for later in (0, 1)
        ]

    def test_that_signs_two_entries_with_one_number_is_proven_to_cheat(self):
        first, second = self.two_with_one_number()
        conflict = log.conflict_between(ALICE, first, second)
        assert conflict == log.ConflictingRecord(host=ALICE, first=first, second=second)

    def test_is_not_accused_without_both_of_its_signatures(self):
        first, second = self.two_with_one_number()
        assert log.conflict_between(ALICE, first, first) is None
        assert log.conflict_between(BOB, first, second) is None
        assert log.conflict_between(ALICE, first, replace(second, hash="0" * 64)) is None
        assert log.conflict_between(ALICE, first, replace(second, keeper_signature="")) is None
        assert log.conflict_between(ALICE, first, replace(second, number=7)) is None
        assert log.conflict_between(ALICE, first, replace(second, hash="\ud800")) is None


class TestARecord:
    def test_of_a_ratified_text_verifies_with_the_file_alone(self):
        found = verify_record(RECORD)
        assert (found.ok, found.entries, found.bad_entry) == (True, len(THREE_NODES.entries), None)
        assert found.head == THREE_NODES.head

    def test_of_an_unfinished_vote_verifies_too(self):
        table = Table()
        assert verify_record(write_record(table.entries, table.head)).ok

    def test_says_what_came_of_it(self):
        provenance = json.loads(RECORD)["provenance"]
        assert [clause["text"] for clause in provenance["clause_records"]] == [
            "Every call is answered within an hour.",
            "Logs are kept for a year.",
        ]
        assert provenance["consensus_strength"] == pytest.approx(2 / 3)
        assert provenance["participation_rate"] == 1.0
        assert provenance["duration"] == "PT11S"
        assert [(one["stakeholder_id"], one["variant_id"]) for one in provenance["dissent_preserved"]] == [
            (GAMMA.vacant_id.hex(), "v2")
        ]
        assert provenance["ai_standing_exercised"]
        assert provenance["bilateral_attestation_valid"]
        assert provenance["self_referential_clauses"] == {}
        assert [one["phase"] for one in provenance["phase_history"]] == [
            "draft",
            "deliberation",
            "convergence",
            "ratification",
            "active",
        ]

    def test_exists_only_once_the_rules_are_active(self):
        assert code(provenance_of, Table().state) == "PRECONDITION_FAILED"

    @pytest.mark.parametrize("number", range(1, 13))
    def test_names_the_first_entry_that_was_altered(self, number):
        record = json.loads(RECORD)
        record["entries"][number - 1]["time"] = "2026-03-01T00:00:00.000000Z"
        found = verify_record(json.dumps(record).encode())
        assert (found.ok, found.bad_entry) == (False, number)
        assert "signature" in found.reason

    @pytest.mark.parametrize("number", range(1, 12))
    def test_names_the_place_where_an_entry_is_missing(self, number):
        record = json.loads(RECORD)
        del record["entries"][number - 1]
        assert verify_record(json.dumps(record).encode()).bad_entry == number

    def test_that_was_cut_does_not_pass_for_a_ratified_one(self):
        record = json.loads(RECORD)
        record["entries"].pop()
        found = verify_record(json.dumps(record).encode())
        assert (found.ok, found.bad_entry) == (False, None)
        assert "provenance" in found.reason

    @pytest.mark.parametrize(
        "change", [{"consensus_strength": 1.0}, {"title": "Something else"}, {"ai_standing_exercised": 1}]
    )
    def test_with_a_provenance_of_its_own_is_refused(self, change):
        record = json.loads(RECORD)
        record["provenance"] |= change
        found = verify_record(json.dumps(record).encode())
        assert (found.ok, "provenance" in found.reason) == (False, True)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"[]",
            b"{}",
            b"\xff",
            json.dumps({"format": FORMAT, "delib_id": ID, "entries": []}).encode(),
            json.dumps({"format": FORMAT, "delib_id": ID, "entries": {}}).encode(),
            b'{"format":"comity-deliberation-1","format":"x","entries":[]}',
            b"[" * 100_000,
            RECORD.replace(b'"delib_id":', b'"delib_id":"dlb_0001","colour":', 1),
            RECORD.replace(b'"delib_id":"dlb_0001","entries"', b'"delib_id":"dlb_0002","entries"', 1),
        ],
    )
    def test_that_is_none_is_refused(self, data):
        found = verify_record(data)
        assert not found.ok
        assert found.reason

    @settings(max_examples=200)
    @given(st.integers(0, len(RECORD) - 1), st.integers(0, 255))
    def test_does_not_verify_after_any_change_that_can_be_read(self, place, byte):
        altered = RECORD[:place] + bytes([byte]) + RECORD[place + 1 :]
        found = verify_record(altered)
        assert found.ok == (altered == RECORD)

    def test_warns_of_representatives_and_of_attestations_that_do_not_hold(self):
        table = ratified(
            stakeholders=[
                {"id": BOB},
                {
                    "id": GAMMA.vacant_id.hex(),
                    "role": "ai_representative",
                    "principal_id": "p",
                    "fidelity": 0,
                    "attestation": {"bilateral_alignment": True, "self_model_scaffold": "interiora"},
                },
            ],
            ratification=0.5,
        )
        provenance = provenance_of(table.state)
        assert not provenance.bilateral_attestation_valid
        assert [finding.split(": ")[1] for finding in provenance.attestation_findings] == ["R1", "R3", "R6b"]


def test_a_vote_of_somebody_without_a_key_is_signed_for_by_the_node():
    table = Table(stakeholders=[{"id": "dave", "node": BOB}])
    table.advance("deliberation")
    args = {"delib_id": ID, "clause_id": "c1", "action": "endorse"}
    state = table.say(BETA, "consensus.act", args, on_behalf="dave")
    assert state.stakeholders["dave"].participation_count == 1
    assert verify_record(write_record(table.entries, table.head)).ok


def test_nobody_else_opens_in_the_name_of_a_host():
    stranger = SigningKey(b"s" * 32)
    entry = log.propose(
        None,
        ID,
        "consensus.open",
        {"title": "x", "clauses": ["y"], "stakeholders": [], "keeper": ALICE},
        stranger,
        1.0,
    )
    assert code(log.admit, None, entry, stranger, 1.0) == "FORBIDDEN"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "PT0S"), (-5, "PT0S"), (61.9, "PT1M1S"), (3600, "PT1H"), (86400, "P1D"), (90_061, "P1DT1H1M1S")],
)
def test_durations_are_written_as_iso_8601(seconds, written):
    assert iso_duration(seconds) == written
