"""A record in the hands of a stranger: a program written from the reference finds what we find, and refuses what we do."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.votes.protocol.provenance import provenance_of, verify_record, write_record
from tests.votes.protocol.parties import BETA, GAMMA, HOST, ID, Table, ratified
from tests.votes.protocol.record_stranger import BadEntryError, recount

PARTIES = (HOST, BETA, GAMMA)
RATIFIED = ratified()
RECORD = write_record(RATIFIED.entries, RATIFIED.head)


def test_the_stranger_finds_what_was_decided():
    assert recount(json.loads(RECORD)) == (
        "active",
        12,
        {"c1": "Every call is answered within an hour.", "c2": "Logs are kept for a year."},
    )


@pytest.mark.parametrize("number", range(1, 13))
@pytest.mark.parametrize("change", ["time", "actor", "prev", "signature", "keeper_signature", "action"])
def test_the_stranger_names_the_same_entry_as_we_do(number, change):
    record = json.loads(RECORD)
    entry = record["entries"][number - 1]
    entry[change] = {
        "time": "2026-03-01T00:00:00.000000Z",
        "actor": "f" * 64,
        "prev": "0" * 64,
        "signature": "A" * 86,
        "keeper_signature": "A" * 86,
        "action": entry["action"] | {"args": entry["action"]["args"] | {"delib_id": "another"}},
    }[change]
    ours = verify_record(json.dumps(record).encode())
    assert (ours.ok, ours.bad_entry) == (False, number)
    with pytest.raises(BadEntryError, match=f"^entry {number}: "):
        recount(record)


def test_the_stranger_refuses_a_summary_that_the_entries_do_not_give():
    record = json.loads(RECORD)
    record["provenance"]["clause_records"][0]["text"] = "Never."
    with pytest.raises(BadEntryError, match="other winners"):
        recount(record)


acts = st.tuples(
    st.sampled_from(PARTIES),
    st.sampled_from(["endorse", "amend", "object", "abstain", "withdraw"]),
    st.sampled_from(["c1", "c2"]),
)


@given(st.lists(acts, min_size=3, max_size=8), st.data())
def test_the_stranger_finds_the_same_winners_whatever_was_said(said, data):
    table = Table(quorum=0)
    table.advance("deliberation")
    for number, (key, action, clause) in enumerate(said):
        more = {"text": f"Text {number}."} if action == "amend" else {}
        more |= {"level": "strong", "concern": "Why?"} if action == "object" else {}
        table.act(key, action, clause, **more)
    table.act(HOST, "endorse", "c1")  # so that every clause has a ballot
    table.act(HOST, "endorse", "c2")
    table.advance("convergence")
    for key in data.draw(st.sets(st.sampled_from(PARTIES))):
        for id_, clause in table.state.clauses.items():
            names = data.draw(st.permutations([variant.id for variant in clause.variants]))
            ranked = names[: data.draw(st.integers(1, len(names)))]
            tied = [ranked[:2]] if len(ranked) > 1 and data.draw(st.booleans()) else []
            table.ballot(key, ranked, id_, tied_groups=tied)
    table.advance("ratification")
    table.vote(HOST, "accept")
    table.advance("active")
    ours = {one.clause_id: one.text for one in provenance_of(table.state).clause_records}
    record = write_record(table.entries, table.head)
    assert verify_record(record).ok
    assert recount(json.loads(record)) == ("active", len(table.entries), ours)


@pytest.mark.parametrize("late", [False, True])
def test_the_stranger_finds_what_was_decided_by_newer_rules(late):
    table = Table(rules=2, clauses=["Within a day."])
    table.advance("deliberation")
    for key in PARTIES[: 2 if late else 3]:
        table.act(key, "amend", text=f"Within {table.now:.0f} hours.")
    closed = {"delib_id": ID, "phase": "deliberation"}
    if late:
        table.now = table.state.deadline
        table.say(HOST, "consensus.close", closed)
    else:
        table.advance("convergence")
    for key in PARTIES:
        table.ballot(key, ["v1", "v0"])
    table.advance("ratification")
    table.advance("deliberation", BETA)
    for phase in ("convergence", "ratification"):
        for key in PARTIES:
            table.act(key, "endorse") if phase == "convergence" else table.ballot(key, ["v2", "v1"])
        table.advance(phase)
    table.vote(HOST, "accept")
    table.vote(BETA, "accept")
    if late:
        table.now = table.state.deadline
        table.say(HOST, "consensus.close", closed | {"phase": "ratification"})
    else:
        table.vote(GAMMA, "abstain")
    assert table.state.phase == "active"
    record = write_record(table.entries, table.head)
    assert verify_record(record, table.now).ok
    (text,) = {one.text for one in provenance_of(table.state).clause_records}
    assert recount(json.loads(record)) == ("active", len(table.entries), {"c1": text})


@pytest.mark.parametrize(
    ("last", "phase"), [("accept", "active"), ("reject", "closed"), ("abstain", "closed")]
)
def test_the_stranger_finds_the_answer_to_a_question(last, phase):
    table = Table(rules=2, form="question", clauses=["Shall we?"], ratification="1/2")
    for key, vote in zip(PARTIES, ("accept", "reject", last), strict=True):
        table.vote(key, vote)
    record = write_record(table.entries, table.head)
    assert verify_record(record, table.now).ok
    assert recount(json.loads(record))[0] == table.state.phase == phase
