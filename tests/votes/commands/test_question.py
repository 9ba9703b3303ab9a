"""`comity vote ask`, `yes`, `no` and `abstain` as a person types them."""

import json
import re
from datetime import datetime

import pytest

from comity.identity.key_files import create_identity
from comity.runtime.settings import AgentSettings
from tests.ports import unused_port

QUESTION = "Shall we ship on Friday?"


@pytest.fixture
def people(tmp_path):
    names = ("alice", "bob", "carol")
    return {name: (tmp_path / name, create_identity(tmp_path / name).vacant_id.hex()) for name in names}


@pytest.fixture
def vote(comity):
    def call(who, *arguments):
        return comity("vote", *arguments, "--data", who)

    return call


@pytest.fixture
def node(people, neighbourhood):
    return neighbourhood.node(people["alice"][0], agent=AgentSettings(), port=unused_port())


def done(outcome):
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_a_question_is_asked_answered_and_decided_by_itself(people, node, vote, comity, tmp_path):
    (alice, _), (bob, bob_id), (carol, carol_id) = people.values()
    shown = done(vote(alice, "ask", QUESTION, "--with", f"{bob_id},{carol_id}", "--by", "3d"))
    assert re.search(r"until +\w{3} \d{4}-\d\d-\d\d \d\d:\d\d \S+ \(in 3 days\)", shown)
    assert "2 of 3 must say yes" in shown
    (line,) = re.findall(r"comity vote (yes dlb_\w+ --at \S+)", shown)
    words = line.split()
    assert words[-1] == node.url
    assert done(vote(bob, *words)) == "Entry 2: you say yes; 2 of 3 must say yes; 1 voted, 1 says yes.\n"
    one = words[1]
    assert done(vote(alice, "abstain", one)).startswith("Entry 3: you abstain; ")
    answer = json.loads(done(vote(carol, "no", one, "--at", node.url, "--json")))
    assert (answer["phase"], answer["outcome"], answer["number"]) == ("closed", "rejected", 4)
    for who in (alice, bob, carol):
        result = done(vote(who, "result", one))
        assert re.search(r"phase +closed: rejected", result)
        assert "the answer is no: 1 says yes of 3, and 2 must" in result
        assert "Pairwise" not in result
    outcome = vote(bob, "yes", one)
    assert (outcome.code, outcome.out) == (1, "")
    assert "this vote is over: it is closed" in outcome.err
    file = tmp_path / "vote.json"
    done(vote(carol, "record", one, "--out", file))
    assert "good: 4 entries, phase closed" in done(comity("vote", "verify", file))


def test_json_says_which_moment_was_understood_who_is_missing_and_what_is_needed(people, node, vote):
    (alice, own), (_, bob_id), (_, carol_id) = people.values()
    given = ("--with", bob_id, "--with", carol_id, "--by", "2099-01-01", "--json")
    refused = vote(alice, "ask", QUESTION, *given)
    assert "must be from a minute to a year" in json.loads(refused.out or refused.err)["error"]["message"]
    asked = json.loads(done(vote(alice, "ask", QUESTION, *given[:-3], "--by", "tomorrow", "--json")))
    until = datetime.fromisoformat(asked["by"])
    assert (until.hour, until.minute, until.tzinfo is not None) == (23, 59, True)
    assert asked["url"] == node.url
    assert asked["deliberation"]["form"] == "question"
    found = json.loads(done(vote(alice, "result", asked["delib_id"], "--json")))
    assert found["progress"]["missing"] == [own, bob_id, carol_id]
    assert (found["progress"]["needed"], found["rules"], found["disputed"], found["left_out"]) == (
        2,
        2,
        None,
        [],
    )
    assert abs(datetime.fromisoformat(found["progress"]["deadline"]).timestamp() - until.timestamp()) < 60
    assert "until" in done(vote(alice, "list"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--with", "{bob}", "--by", "someday"], "--by 'someday' is no time; write today"),
        (["--with", "{bob}", "--by", "2020-01-01"], "which is past; give a later time"),
        (["--with", "{bob}", "--by", "900d"], "--by must be from a minute to a year"),
        (["--with", "{bob},{bob}"], "stakeholders[1].id is there twice"),
        (["--with", "{bob}", "--ratification", "1/3"], "--ratification must be from 1/2 to 1"),
        (["--with", "{bob}", "--ratification", "2"], "--ratification must be a number"),
        (["--with", ""], "--with must name at least one other party"),
        (["--with", "bob"], "'bob' is not a party"),
        (["--with", ",".join(f"p{number}@{{bob}}" for number in range(10_000))], "at most 100 stakeholders"),
        ([], "--with"),
    ],
)
def test_a_question_that_cannot_be_is_refused_in_one_sentence_and_nothing_is_stored(
    people, vote, arguments, said
):
    (alice, _), (_, bob_id), _ = people.values()
    outcome = vote(alice, "ask", QUESTION, *(text.replace("{bob}", bob_id) for text in arguments))
    assert outcome.code in {1, 2}
    assert outcome.out == ""
    assert said in outcome.err
    assert outcome.err.count("\n") <= 3
    assert done(vote(alice, "list")).startswith("No votes here.")


def test_a_text_is_accepted_with_the_same_words_and_needs_a_reason_against(people, node, vote):
    (alice, _), (bob, bob_id), _ = people.values()
    shown = json.loads(
        done(vote(alice, "open", "Rules", "--clause", "A.", "--party", bob_id, "--by", "1h", "--json"))
    )
    one = shown["delib_id"]
    assert shown["deliberation"]["phase_seconds"] == 3600
    done(vote(bob, "join", node.url, one))
    assert "this needs the phase ratification; now it is draft" in vote(bob, "yes", one).err
    done(vote(alice, "advance", one, "deliberation"))
    for who in (alice, bob):
        done(vote(who, "act", one, "endorse"))
    for phase in ("convergence", "ratification"):
        done(vote(bob, "advance", one, phase))
    assert "--reason is needed to reject" in vote(bob, "no", one).err
    assert re.search(r"missing +\w{12}, \w{12} \(you\)", done(vote(bob, "result", one)))
    done(vote(alice, "yes", one))
    assert "the text is accepted: 2 accept of 2, and 2 must" in done(vote(bob, "yes", one))


def test_a_vote_is_replaced_by_a_new_one_that_names_it(people, vote):
    alice, _ = people["alice"]
    one = latest = ""
    for _ in range(2):
        one = latest
        named = ("--supersedes", one) if one else ()
        opened = json.loads(done(vote(alice, "open", "Rules", "--clause", "A.", *named, "--json")))
        latest = opened["delib_id"]
        done(vote(alice, "advance", latest, "deliberation"))
        done(vote(alice, "act", latest, "endorse"))
        for phase in ("convergence", "ratification"):
            done(vote(alice, "advance", latest, phase))
        done(vote(alice, "yes", latest))
    listed = done(vote(alice, "list"))
    assert re.search(rf"{one} +active, replaced", listed)
    assert re.search(rf"{latest} +active  ", listed)
    assert re.search(rf"replaces +{one}", done(vote(alice, "result", latest)))
