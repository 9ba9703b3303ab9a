"""`comity vote` as a person types it, with a real node as host."""

import json
import re

import pytest

from comity.identity.key_files import create_identity, load_identity
from comity.runtime.settings import AgentSettings
from comity.votes.protocol import log
from comity.votes.protocol.provenance import write_record
from tests.ports import unused_port

NO_AGENT = AgentSettings()
CLAUSE = "Every call is answered within a day."


@pytest.fixture
def vote(comity):
    def call(who, *arguments):
        return comity("vote", *arguments, "--data", who)

    return call


@pytest.fixture
def people(tmp_path):
    """Folders with an identity each, and their ids."""
    names = ("alice", "bob", "carol")
    return {name: (tmp_path / name, create_identity(tmp_path / name).vacant_id.hex()) for name in names}


@pytest.fixture
def scene(people, neighbourhood, vote):
    return Scene(people, neighbourhood, vote)


class Scene:
    def __init__(self, people, neighbourhood, vote):
        self.alice, self.bob, self.carol = (folder for folder, _ in people.values())
        self.ids = [identity for _, identity in people.values()]
        self.node = neighbourhood.node(self.alice, agent=NO_AGENT, port=unused_port())
        self.vote = vote

    def done(self, who, *arguments):
        outcome = self.vote(who, *arguments)
        assert outcome.code == 0, outcome.err
        return outcome.out

    def refused(self, who, *arguments):
        outcome = self.vote(who, *arguments)
        assert outcome.code != 0
        assert outcome.out == ""
        return outcome.err

    def opened(self, *more, clauses=(CLAUSE,)):
        parties = [word for identity in self.ids[1:] for word in ("--party", identity)]
        given = [word for clause in clauses for word in ("--clause", clause)]
        answer = json.loads(self.done(self.alice, "open", "Rules", *given, *parties, *more, "--json"))
        for who in (self.bob, self.carol):
            self.done(who, "join", answer["url"], answer["delib_id"])
        return answer["delib_id"]

    def ratified(self):
        one = self.opened()
        self.done(self.alice, "advance", one, "deliberation")
        self.done(self.bob, "act", one, "amend", "--text", "Every call is answered within an hour.")
        self.done(self.carol, "act", one, "amend", "--text", "Every call is answered within a week.")
        self.done(self.alice, "act", one, "endorse")
        self.done(self.alice, "advance", one, "convergence")
        for who in (self.alice, self.bob, self.carol):
            self.done(who, "ballot", one, "v1", "v0=v2")
        self.done(self.bob, "advance", one, "ratification")
        self.done(self.alice, "cast", one, "accept")
        self.done(self.bob, "cast", one, "accept")
        self.done(self.carol, "cast", one, "reject", "--reason", "A week is what I can promise.")
        return one


def test_the_commands_that_come_next_lead_to_the_same_folder(scene):
    answer = scene.done(scene.alice, "open", "Rules", "--clause", CLAUSE)
    assert re.search(rf"comity vote advance dlb_\w+ deliberation --data {scene.alice}\n", answer)


def test_opening_shows_the_line_that_others_join_with(scene):
    shown = scene.done(scene.alice, "open", "Rules", "--clause", CLAUSE, "--party", scene.ids[1])
    (line,) = re.findall(r"comity vote join (\S+) (\S+)", shown)
    joined = scene.done(scene.bob, "join", *line)
    assert joined.startswith("Rules\n")
    assert re.search(rf"{scene.ids[1][:12]} \(you\) +participant", joined)


def test_opening_without_a_running_node_says_so(people, vote):
    alice, _ = people["alice"]
    outcome = vote(alice, "open", "Rules", "--clause", CLAUSE)
    assert outcome.code == 0
    assert "no node runs on this data folder" in outcome.err


def test_a_whole_vote_from_the_terminal(scene):
    one = scene.ratified()
    shown = scene.done(scene.carol, "result", one)
    assert re.search(r"phase +active", shown)
    assert re.search(rf"v1 +{scene.ids[1][:12]} +Every call is answered within an hour\.", shown)
    assert re.search(rf"{scene.ids[2][:12]} \(you\) +amends +v2", shown)
    assert re.search(rf"{scene.ids[0][:12]} +v1 > v0 = v2 +cast", shown)
    assert "v1 beats every other; 1. v1, 2. v0, 2. v2" in shown
    pairwise = shown.partition("Pairwise")[2].partition("Strongest")[0]
    assert re.search(r"v1 +· +30 +30\n", pairwise)
    assert re.search(r"v0 +0 +· +0\n", pairwise)
    assert re.search(r"reject +A week is what I can promise\.", shown)
    answer = json.loads(scene.done(scene.bob, "result", one, "--json"))
    assert answer["result"]["winner"] == "v1"
    assert answer["result"]["pairwise_matrix"][1] == [30, 0, 30]
    assert (answer["phase"], answer["waiting"], answer["fraud"]) == ("active", [], None)


def test_a_record_is_good_for_everybody_who_has_the_file(scene, tmp_path, program):
    one = scene.ratified()
    files = []
    for who in (scene.alice, scene.bob, scene.carol):
        files.append(tmp_path / f"{who.name}.json")
        assert "entries" in scene.done(who, "record", one, "--out", files[-1])
    assert len({file.read_bytes() for file in files}) == 1
    assert files[0].read_text() == scene.done(scene.bob, "record", one)
    # a stranger: another process, another home, no data folder
    stranger = program("vote", "verify", files[0], env={"COMITY_DATA": str(tmp_path / "nothing")})
    assert stranger.code == 0
    assert re.fullmatch(
        r".*alice\.json: good: 13 entries, phase active, hosted by \w{12}; .*\n", stranger.out
    )
    assert not (tmp_path / "nothing").exists()


def test_an_altered_record_is_refused_and_the_entry_is_named(scene, tmp_path, comity):
    one = scene.ratified()
    record = json.loads(scene.done(scene.alice, "record", one))
    file = tmp_path / "altered.json"

    def verified(change):
        altered = json.loads(json.dumps(record))
        change(altered)
        file.write_text(json.dumps(altered))
        outcome = comity("vote", "verify", file, "--json")
        answer = json.loads(outcome.out)
        assert (outcome.code, answer["ok"]) == (1, False)
        return answer["files"][0]["bad_entry"]

    assert verified(lambda r: r["entries"][3]["action"]["args"].update(text="Never.")) == 4
    assert verified(lambda r: r["entries"].pop(4)) == 5
    assert verified(lambda r: r["entries"][10]["action"]["args"].update(vote="reject")) == 11
    assert verified(lambda r: r["entries"][12].update(keeper_signature="A" * 86)) == 13
    assert verified(lambda r: r["provenance"].update(title="Other")) is None
    file.write_text(json.dumps(record | {"entries": record["entries"][::-1]}))
    assert ": bad: entry 1 of 13: " in comity("vote", "verify", file).out
    file.write_text("{}")
    assert "this is no record" in comity("vote", "verify", file).out
    assert comity("vote", "verify", tmp_path / "nowhere").code == 1


def test_acts_wait_while_the_host_is_away_and_are_sent_with_the_next_look(scene, neighbourhood):
    one = scene.opened()
    scene.done(scene.alice, "advance", one, "deliberation")
    scene.done(scene.bob, "result", one)
    port = int(scene.node.url.rpartition(":")[2])
    neighbourhood.run(scene.node.stop())
    answer = json.loads(scene.done(scene.bob, "act", one, "endorse", "--json"))
    assert (answer["waiting"], answer["number"]) == (True, None)
    shown = scene.done(scene.bob, "act", one, "amend", "--text", "Within a minute.")
    assert shown.startswith("Waiting: ")
    assert scene.done(scene.bob, "list").count("waiting: act in") == 2
    outcome = scene.vote(scene.bob, "result", one)
    assert (outcome.code, "nothing new from the host" in outcome.err) == (0, True)
    neighbourhood.node(scene.alice, agent=NO_AGENT, port=port)
    shown = scene.done(scene.bob, "result", one)
    assert "waiting" not in shown
    assert "Within a minute." in scene.done(scene.alice, "result", one)


class TestMistakes:
    def test_are_reported_in_the_words_that_were_typed(self, scene):
        one = scene.opened(clauses=(CLAUSE, "Logs are kept for a year."))
        refused = scene.refused
        assert "this needs the phase deliberation; now it is draft" in refused(
            scene.bob, "act", one, "endorse", "--clause", "c1"
        )
        scene.done(scene.alice, "advance", one, "deliberation")
        assert "--clause is needed" in refused(scene.bob, "act", one, "endorse")
        assert "--text is needed" in refused(scene.bob, "act", one, "amend", "--clause", "c1")
        assert "--level and --concern are needed" in refused(
            scene.bob, "act", one, "object", "--clause", "c1"
        )
        assert "ACTION must be one of" in refused(scene.bob, "act", one, "bless")
        assert "PHASE must be one of" in refused(scene.bob, "advance", one, "soon")
        assert "VOTE must be one of accept, reject, abstain" in refused(scene.bob, "cast", one, "maybe")
        assert "only the author adds" in refused(scene.bob, "add", one, "0" * 64)
        assert "3 of 3 parties have not acted in the phase deliberation: " in refused(
            scene.alice, "advance", one, "convergence"
        )

    def test_in_json_have_the_code_of_the_refusal(self, scene):
        one = scene.opened()
        error = json.loads(scene.refused(scene.bob, "cast", one, "accept", "--json"))["error"]
        assert error["code"] == "precondition_failed"

    def test_of_an_id_say_what_to_do(self, scene):
        one, other = scene.opened(), scene.opened()
        assert f"`comity vote list --data {scene.bob}` shows" in scene.refused(scene.bob, "result", "nope")
        assert "2 ids begin with 'dlb_'" in scene.refused(scene.bob, "result", "dlb_")
        shown = scene.done(scene.bob, "result", one[: len(one) - 2])
        assert one in shown
        assert other not in shown

    @pytest.mark.parametrize(
        ("party", "said"),
        [
            ("bob", "is not a party"),
            ("31e3", "is not a party"),
            ("bob@31e3", "is not a party"),
            ("{id}=author", "the role of a party must be one of"),
            ("{id}=observer:1", "only the role ai_representative"),
            ("{id}=ai_representative", "ai_representative:PRINCIPAL:FIDELITY"),
            ("{id}=ai_representative:bob:much", "FIDELITY must be a number"),
            ("{id}=ai_representative:bob:1.5", "from 0 to 1"),
        ],
    )
    def test_in_a_party_are_reported(self, people, vote, party, said):
        alice, _ = people["alice"]
        given = party.format(id=people["bob"][1])
        outcome = vote(alice, "open", "Rules", "--clause", CLAUSE, "--party", given)
        assert outcome.code != 0
        assert said in outcome.err

    def test_by_somebody_who_takes_no_part_are_refused(self, scene, tmp_path):
        one = scene.opened()
        eve = tmp_path / "eve"
        create_identity(eve)
        assert "only stakeholders read" in scene.refused(eve, "join", scene.node.url, one)

    def test_without_an_identity_say_how_to_get_one(self, vote, tmp_path):
        assert "comity id new" in vote(tmp_path / "nobody", "list").err

    def test_about_who_keeps_it_are_found(self, scene):
        one = scene.opened()
        assert "another node answers" in scene.refused(
            scene.bob, "join", scene.node.url, one, "--keeper", scene.ids[2]
        )


def test_parties_of_every_kind_are_written_as_the_help_says(people, vote):
    (alice, own), (_, bob), (_, carol) = people.values()
    parties = (f"{bob}=observer", f"dave@{carol}", f"{carol}=ai_representative:{bob}:0.55")
    given = [word for party in parties for word in ("--party", party)]
    answer = json.loads(vote(alice, "open", "Rules", "--clause", CLAUSE, *given, "--json").out)
    found = answer["deliberation"]["stakeholders"]
    assert [(one["id"], one["role"], one["node"]) for one in found.values()] == [
        (own, "author", None),
        (bob, "observer", None),
        ("dave", "participant", carol),
        (carol, "ai_representative", None),
    ]
    assert (found[carol]["principal_id"], found[carol]["fidelity"]) == (bob, 0.55)
    one = answer["delib_id"]
    assert vote(alice, "add", one, f"eve@{bob}").out == "Entry 2: eve takes part as participant.\n"


def test_conflicting_records_are_found_by_comparing_two_files(scene, tmp_path, comity):
    key = load_identity(scene.alice)
    opening = {"title": "T", "clauses": ["A."], "stakeholders": [], "keeper": key.vacant_id.hex()}
    first = log.admit(None, log.propose(None, "dlb_1", log.OPEN, opening, key, 1.0), key, 1.0)
    files = []
    for moment in (2.0, 3.0):
        entry = log.propose(
            first[0], "dlb_1", "consensus.advance", {"delib_id": "dlb_1", "to": "deliberation"}, key, moment
        )
        head, taken = log.admit(first[0], entry, key, moment)
        files.append(tmp_path / f"{moment}.json")
        files[-1].write_bytes(write_record([first[1], taken], head))
        assert comity("vote", "verify", files[-1]).code == 0
    outcome = comity("vote", "verify", *files)
    assert outcome.code == 1
    assert f"the host {key.vacant_id.hex()} signed two entries with the number 2" in outcome.err
    answer = json.loads(comity("vote", "verify", *files, "--json").out)
    assert answer["fraud"]["first"]["number"] == 2
    assert comity("vote", "verify", files[0], files[0]).code == 0


def test_the_author_ends_a_vote_and_a_party_lets_go_of_its_copy(scene):
    one = scene.opened()
    assert "use --yes" in scene.refused(scene.carol, "remove", one)
    scene.done(scene.carol, "remove", one, "--yes")
    assert scene.done(scene.carol, "list").startswith("No votes here.")
    scene.done(scene.carol, "join", scene.node.url, one)
    assert json.loads(scene.done(scene.alice, "remove", one, "--yes", "--json")) == {"removed": one}
    assert "there is no such vote here" in scene.refused(scene.bob, "advance", one, "deliberation")
    assert one in scene.done(scene.bob, "record", one)
