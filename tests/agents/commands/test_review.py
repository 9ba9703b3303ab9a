"""`comity review` as somebody types it."""

import json

import pytest

import comity as comity_package
from comity.identity.key_files import create_identity
from tests.agents.commands.test_call import publish
from tests.node.commands.neighbourhood import SEND, card_of


@pytest.fixture
def there(tmp_path):
    return tmp_path / "there"


@pytest.fixture
def node(neighbourhood, there):
    return neighbourhood.node(there)


def test_a_review_is_made_and_nobody_else_sees_it(comity, node, data):
    create_identity(data)
    outcome = comity("review", node.url, "0.7", "--honesty", "0")
    short = node.vacant_id.hex()[:12]
    assert outcome.out == (
        f"You reviewed {short}: factual 0.7, logical 0.7, relevance 0.7, honesty 0, adoption 0.7.\n"
        "It counts for your own calls and searches. Nobody else sees it.\n"
    )
    shown = json.loads(comity("review", node.url, "bad", "--json").out)
    assert (shown["agent"], shown["published"], shown["signals"]["factual"]) == (
        node.vacant_id.hex(),
        None,
        0.0,
    )
    assert comity("review", node.url, "good").code == 0
    fourth = comity("review", node.url, "good")
    assert (fourth.code, fourth.out) == (1, "")
    assert "3 times within 24 hours" in fourth.err


def test_a_published_review_stands_in_the_directory(neighbourhood, comity, node, there, data):
    create_identity(data)
    refused = comity("review", node.url, "good", "--publish", "--directory", node.url)
    assert "the reviewer" in refused.err
    assert "publish its card first" in refused.err
    for folder in (there, data):
        publish(neighbourhood, folder, node.url + SEND, node)
    outcome = comity("review", node.vacant_id.hex(), "good", "--publish", "--directory", node.url)
    assert outcome.err == ""
    assert outcome.out.endswith(f"Everybody can read it in {node.url}.\n")
    matches = json.loads(comity("search", "", "--directory", node.url, "--json").out)["matches"]
    assert {match["vacant_id"]: match["reviews"] for match in matches}[node.vacant_id.hex()] == 1
    assert "reviews" in comity("search", "", "--directory", node.url).out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["1.1"], "RATING must be good, bad or a number from 0 to 1, not '1.1'"),
        (["nan"], "RATING must be good, bad or a number"),
        (["fine"], "not 'fine'"),
        (["good", "--factual", "2"], "--factual must be good, bad or a number from 0 to 1, not '2'"),
    ],
)
def test_what_is_no_rating_is_refused_in_a_sentence(comity, node, data, words, sentence):
    create_identity(data)
    outcome = comity("review", node.url, *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


def test_oneself_and_unknown_agents_cannot_be_reviewed(comity, node, data, tmp_path):
    create_identity(data)
    card = tmp_path / "own.json"
    card.write_bytes(comity_package.serialize(card_of(data, node.url + SEND)))
    assert "cannot review itself" in comity("review", str(card), "good").err
    unknown = comity("review", "1" * 64, "good", "--directory", node.url)
    assert "has no card of" in unknown.err
