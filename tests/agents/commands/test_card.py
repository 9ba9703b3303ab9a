"""`comity card` and `comity search`: what an agent offers, shown, published, found and verified."""

import io
import json

import pytest
from msgspec.structs import replace

from comity.envelopes.protocol.card import CapabilityCard, serialize
from comity.identity.key_files import create_identity, load_identity
from comity.runtime.settings import AgentSettings, DirectorySettings
from tests.directory.reference_registry import ReferenceRegistry
from tests.node.commands.neighbourhood import SEND, card_of, save

TRANSLATOR = AgentSettings(behaviour="echo", capability="translates\nGerman poems", name="Erika")


@pytest.fixture
def node(neighbourhood, data):
    return neighbourhood.node(data, TRANSLATOR)


def json_of(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def failure(outcome, code=1):
    assert outcome.code == code
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    return outcome.err


def test_the_own_card_is_the_one_that_the_running_node_shows(comity, node):
    result = json_of(comity("card", "show", "--json"))
    assert result["vacant_id"] == node.vacant_id.hex()
    assert result["capability_text"] == "translates\nGerman poems"
    assert result["endpoint"] == node.url + SEND
    assert (result["verified"], result["state"], result["node"]) == (True, "LOCAL", node.url)
    shown = comity("card", "show").out
    assert "offers     translates German poems\n" in shown
    assert "signature  valid\n" in shown
    assert f"running at {node.url}" in shown


def test_without_a_node_the_settings_say_what_the_card_will_be(comity, data, identity):
    assert "no agent is served here; start one" in failure(comity("card", "show"))
    (data / "config.toml").write_text('port = 8431\n[agent]\nbehaviour = "echo"\n')
    result = json_of(comity("card", "show", "--json"))
    assert (result["endpoint"], result["capability_text"], result["node"]) == (
        f"http://127.0.0.1:8431{SEND}",
        "answers with echo",
        None,
    )
    assert result["verified"]
    assert "not running; this is made from the settings" in comity("card", "show").out
    (data / "config.toml").write_text('port = 0\n[agent]\nbehaviour = "echo"\n')
    assert "known only while the node runs" in failure(comity("card", "show"))


def test_a_node_without_an_agent_has_no_card(comity, neighbourhood, data):
    node = neighbourhood.node(data, AgentSettings())
    for command in ("show", "publish"):
        assert f"the node at {node.url} serves no agent" in failure(comity("card", command))


def test_what_is_shown_as_json_is_a_card_file(comity, node, tmp_path):
    file = tmp_path / "card.json"
    file.write_text(comity("card", "show", "--json").out)
    result = json_of(comity("card", "verify", file, "--json"))
    assert (result["ok"], result["vacant_id"]) == (True, node.vacant_id.hex())
    assert json_of(comity("card", "show", file, "--json"))["endpoint"] == node.url + SEND


def test_a_card_is_published_once_however_often_it_is_asked_for(comity, node):
    first = json_of(comity("card", "publish", "--json"))
    assert first == {
        "changed": True,
        "directory": node.url,
        "vacant_id": node.vacant_id.hex(),
        "event_seq": 1,
        "visibility": "PUBLIC",
        "capability_card_hash_hex": json_of(comity("card", "show", "--json"))["card_hash_hex"],
        "state": "ACTIVE",
        "former_state": "LOCAL",
    }
    again = json_of(comity("card", "publish", "--json"))
    assert again == {**first, "changed": False, "former_state": "ACTIVE"}
    assert json_of(comity("card", "show", "--json"))["state"] == "ACTIVE"
    hidden = comity("card", "publish", "--visibility", "none")
    assert hidden.out.startswith(
        f"Published as event 2 in {node.url}: only its owner and its parent can read it"
    )
    assert "Already published as event 2" in comity("card", "publish", "--visibility", "NONE").out
    assert json_of(comity("card", "publish", "--json"))["event_seq"] == 3


def test_a_new_card_of_the_same_identity_is_published_over_the_old(comity, neighbourhood, tmp_path, data):
    directory = neighbourhood.node(tmp_path / "directory", AgentSettings())
    create_identity(data)
    for number, offers in enumerate(("sings", "sings", "dances"), start=0):
        (data / "config.toml").write_text(
            f'port = 8431\n[agent]\nbehaviour = "echo"\ncapability = "{offers}"\n'
        )
        published = json_of(comity("card", "publish", "--directory", directory.url, "--json"))
        assert published["event_seq"] == max(1, number)
    (match,) = json_of(comity("search", "", "--directory", directory.url, "--json"))["matches"]
    assert match["capability_text"] == "dances"


def test_the_directory_of_the_settings_comes_before_the_own(comity, neighbourhood, node, tmp_path, data):
    other = neighbourhood.node(tmp_path / "directory", AgentSettings())
    (data / "config.toml").write_text(f'[directory]\nurl = "{other.url}/"\n')
    assert json_of(comity("card", "publish", "--json"))["directory"] == other.url
    assert json_of(comity("search", "poems", "--json"))["directory"] == other.url
    assert json_of(comity("card", "publish", "--directory", node.url, "--json"))["changed"]


def test_who_is_archived_is_not_published(comity, node):
    comity("state", "set", "archived", "--yes")
    assert "ARCHIVED, and that state is final" in failure(comity("card", "publish"))
    assert json_of(comity("search", "", "--json"))["matches"] == []


def test_who_is_gone_is_not_found_whatever_was_published(comity, node, data):
    comity("card", "publish")
    for state, found in (("SUNK", 0), ("ACTIVE", 1), ("HIBERNATING", 1), ("LOCAL", 0), ("ARCHIVED", 0)):
        comity("state", "set", state, "--yes")
        assert len(json_of(comity("search", "", "--json"))["matches"]) == found
    refusal = failure(
        comity(
            "call", "--capability", "poems", "hello", "--data", data.parent / "guest", "--directory", node.url
        )
    )
    assert "no public vacant offers capability 'poems'" in refusal


def test_a_state_that_was_set_while_no_node_ran_counts_in_its_directory(comity, neighbourhood, data):
    neighbourhood.node(data, TRANSLATOR)
    comity("card", "publish")
    neighbourhood.leave()
    comity("state", "set", "sunk")
    neighbourhood.node(data, TRANSLATOR)
    assert json_of(comity("search", "", "--json"))["matches"] == []


def test_a_card_is_published_again_when_the_state_has_changed_and_once(comity, neighbourhood, node, tmp_path):
    """The directory is another node's, which does not know of the change."""
    there = neighbourhood.node(tmp_path / "directory", AgentSettings()).url
    publish = ("card", "publish", "--directory", there, "--json")
    assert json_of(comity(*publish))["changed"]
    comity("state", "set", "sunk")
    assert len(json_of(comity("search", "", "--directory", there, "--json"))["matches"]) == 1
    assert json_of(comity(*publish))["changed"]
    assert json_of(comity("search", "", "--directory", there, "--json"))["matches"] == []
    assert not json_of(comity(*publish))["changed"]


@pytest.mark.parametrize("state", ["HIBERNATING", "STALE", "SUNK", "ARCHIVED"])
def test_hiding_a_card_leaves_the_state_as_it_is_in_every_state(comity, node, state):
    assert json_of(comity("card", "publish", "--json"))["state"] == "ACTIVE"
    comity("state", "set", state, "--yes")
    hidden = json_of(comity("card", "publish", "--visibility", "none", "--json"))
    assert (hidden["state"], hidden["former_state"]) == (state, state)
    assert json_of(comity("state", "show", "--json"))["state"] == state
    assert json_of(comity("search", "", "--json"))["matches"] == []


def test_publishing_wakes_nobody_who_sleeps_and_hiding_makes_nobody_active(comity, node):
    assert json_of(comity("card", "publish", "--visibility", "none", "--json"))["state"] == "LOCAL"
    comity("state", "set", "HIBERNATING")
    assert json_of(comity("card", "publish", "--json"))["state"] == "HIBERNATING"


def test_a_directory_that_is_not_served_is_told(comity, neighbourhood, data):
    neighbourhood.node(data, TRANSLATOR, directory=DirectorySettings(serve=False))
    assert "directory refused with status" in failure(comity("card", "publish"))
    assert json_of(comity("state", "show", "--json"))["state"] == "LOCAL"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["card", "publish", "--visibility", "all"],
            "--visibility must be PUBLIC, RESTRICTED or NONE, not 'all'",
        ),
        (["card", "publish", "--directory", "x"], "--directory must be an address"),
        (["card", "publish"], "no directory is known"),
        (["search", "x"], "no directory is known"),
        (["search", "x", "--limit", "101"], "--limit must be a whole number from 1 to 100, not '101'"),
        (["search", "x", "--limit", "0"], "not '0'"),
        (["search"], "missing argument 'QUERY'"),
        (["card", "verify", "nowhere.json"], "'nowhere.json' is not a contact, a URL, an id or a file"),
        (["card", "show", "31e30ef4ca92"], "short form of an id"),
    ],
)
def test_a_wrong_call_is_one_sentence(comity, identity, arguments, words):
    assert words in failure(comity(*arguments), 2)


def test_a_search_is_a_table_of_those_whom_anybody_may_find(comity, neighbourhood, node, tmp_path):
    comity("card", "publish")
    other = neighbourhood.node(tmp_path / "other", AgentSettings(behaviour="echo", capability="German wine"))
    comity("card", "publish", "--data", tmp_path / "other", "--directory", node.url)
    assert comity("search", "poem").out.splitlines() == [
        "   agent         offers                   endpoint",
        f"1  {node.vacant_id.short()}  translates German poems  {node.url}{SEND}",
    ]
    both = json_of(comity("search", "german", "--json"))["matches"]
    assert [each["rank"] for each in both] == [1, 2]
    assert {each["vacant_id"] for each in both} == {node.vacant_id.hex(), other.vacant_id.hex()}
    assert len(json_of(comity("search", "german", "--limit", "1", "--json"))["matches"]) == 1
    assert json_of(comity("search", "german", "--family", "none", "--json"))["matches"] == []
    assert comity("search", "cheese").out.startswith(f"Nobody in {node.url} offers that.")
    comity("card", "publish", "--visibility", "RESTRICTED")
    (left,) = json_of(comity("search", "german", "--json"))["matches"]
    assert left["vacant_id"] == other.vacant_id.hex()
    found = tmp_path / "found.json"
    found.write_text(json.dumps(left))
    assert json_of(comity("card", "verify", found, "--json"))["vacant_id"] == other.vacant_id.hex()


def test_a_search_that_finds_nobody_says_whether_anybody_is_there_and_what_to_type(comity, node, tmp_path):
    empty = f"Nobody is in {node.url} yet. To publish your own agent there: comity card publish"
    assert comity("search", "").out == f"{empty}\n"
    there = ("--directory", node.url, "--data", tmp_path / "my data")
    typed = f"--directory {node.url} --data '{tmp_path}/my data'"
    assert comity("search", " ", *there).out == f"{empty} {typed}\n"
    nobody = f'Nobody in {node.url} offers that. To see everybody: comity search ""'
    assert comity("search", "cheese").out == f"{nobody}\n"
    comity("card", "publish")
    for asked in (["cheese"], ["", "--family", "gpt"]):
        assert comity("search", *asked, *there).out == f"{nobody} {typed}\n"


def test_a_hidden_card_is_shown_to_its_owner_only(comity, node, tmp_path):
    comity("card", "publish", "--visibility", "NONE")
    result = json_of(comity("card", "show", node.vacant_id.hex(), "--json"))
    assert result["vacant_id"] == node.vacant_id.hex()
    stranger = comity(
        "card", "show", node.vacant_id.hex(), "--directory", node.url, "--data", tmp_path / "stranger"
    )
    assert "is for its owner and its parent" in failure(stranger)
    assert "has no card of vacant:000000000000" in failure(comity("card", "show", "00" * 32))


def test_verify_says_who_signed_what(comity, node, tmp_path, monkeypatch):
    result = comity("card", "verify", node.url)
    assert result.code == 0
    assert result.out.startswith(f"{node.vacant_id} signed this card.\n")
    for part in (node.vacant_id.hex(), "translates German poems", node.url + SEND):
        assert part in result.out
    wire = json_of(comity("card", "show", "--json"))
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(bytes.fromhex(wire["capability_card_blob_hex"])))
    )
    assert json_of(comity("card", "verify", "-", "--json"))["vacant_id"] == node.vacant_id.hex()


def test_a_changed_card_does_not_verify(comity, data, identity, tmp_path):
    genuine = card_of(data, "http://127.0.0.1:8420" + SEND)
    for changed in (
        replace(genuine, capability_text="more"),
        replace(genuine, endpoint="http://127.0.0.1:6666"),
        replace(genuine, signature=b""),
    ):
        file = save(changed, tmp_path / "card.json")
        outcome = comity("card", "verify", file)
        assert outcome.code == 1
        assert "signature  NOT VALID" in outcome.out
        assert f"{identity.vacant_id} did not sign this card" in outcome.err
        result = comity("card", "verify", file, "--json")
        assert (result.code, json.loads(result.out)["ok"], result.err) == (1, False, "")
        assert comity("card", "show", file, "--json").code == 0


def test_what_is_said_around_a_card_must_agree_with_it(comity, data, identity, tmp_path):
    blob = serialize(card_of(data, "http://127.0.0.1:8420" + SEND)).hex()
    file = tmp_path / "card.json"
    for around in ({"vacant_id": "00" * 32}, {"capability_text": "more"}, {"endpoint": None}):
        file.write_text(json.dumps({"capability_card_blob_hex": blob, **around}))
        assert "says one" in failure(comity("card", "verify", file))
    file.write_text(json.dumps({"capability_card_blob_hex": blob}))
    assert comity("card", "verify", file).code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"[]", "a card is a JSON object"),
        (b"{}", "missing field: 'vacant_id'"),
        (b'{"capability_card_blob_hex": "zz"}', "capability_card_blob_hex must be hexadecimal digits"),
        (b'{"capability_card_blob_hex": 1}', "capability_card_blob_hex must be hexadecimal digits"),
        (b'{"halo_version": 9}', "halo_version 9 is not supported"),
        (b" " * 300_000, "is larger than 262,144 bytes"),
        (b"\xff" * 10, "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_card_is_told(comity, tmp_path, content, words):
    file = tmp_path / "card.json"
    file.write_bytes(content)
    assert words in failure(comity("card", "verify", file))


def test_a_card_that_can_be_read_as_another_one_comes_with_a_warning(comity, data, identity, tmp_path):
    key = load_identity(data)
    card = CapabilityCard(vacant_id=key.vacant_id, capability_text="a\x1fb").signed(key)
    outcome = comity("card", "verify", save(card, tmp_path / "card.json"))
    assert outcome.code == 0
    assert "\x1f" not in outcome.out
    assert "note: capability_text" in outcome.err


def test_a_card_goes_into_the_registry_of_the_reference_and_out_of_sight_again(comity, neighbourhood, data):
    registry = ReferenceRegistry()
    server = neighbourhood.server(registry.over_http)
    neighbourhood.node(data)
    where = ["--directory", server.url("").rstrip("/")]
    assert "Published as event 1" in comity("card", "publish", *where).out
    assert "Already published as event 1" in comity("card", "publish", *where).out
    assert "echo" in comity("search", "", *where).out
    assert "event 2" in comity("card", "publish", "--visibility", "none", *where).out
    assert "Nobody" in comity("search", "", *where).out
