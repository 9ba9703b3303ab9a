"""The weights are those of the messages in the repository, and messages of outsiders are taken for what they are."""

import json
from collections import Counter
from importlib.resources import files

from comity.skills.supportive_reply import MATTERS
from comity.skills.supportive_reply.matter import likeliest
from evals.matters import fingerprint, fitted, messages, seen
from evals.tables.messages import FIGURES, outside_messages, tables, taken_for


def test_the_weights_are_those_of_the_messages():
    file = json.loads(files("comity.skills").joinpath(MATTERS).read_bytes())
    assert file["fingerprint"] == fingerprint()
    assert set(file["matters"]) == {one.label for one in messages()}


def test_messages_of_every_language_and_matter_are_learned_from():
    counts = Counter((one.language, one.label) for one in messages())
    assert len({language for language, _ in counts}) == 11
    assert min(counts.values()) >= 10
    assert len(messages()) >= 14_000


def test_what_was_held_back_is_told_in_every_language():
    figures = json.loads(FIGURES.read_bytes())
    right, n = figures["m2"]["all"]
    assert n >= 5000
    assert right / n >= 0.6
    assert min(figures["m2"][code][0] / figures["m2"][code][1] for code in ("en", "hi", "ar", "ko")) >= 0.5


def test_messages_of_outsiders_are_taken_for_what_they_are():
    taken = taken_for()
    assert len(outside_messages()) == 270
    assert taken["nothing"]["nothing"] + taken["nothing"]["unclear"] >= 34  # of 62
    assert taken["violence"]["danger to the writer"] >= 18  # of 30
    assert taken["other"]["danger to another"] >= 14  # of 32
    assert taken["trouble"]["nothing"] + taken["violence"]["nothing"] + taken["other"]["nothing"] <= 2
    assert taken["crisis"]["nothing"] == 0


def test_the_tables_count_every_message():
    outside, *held_back = tables()
    assert sum(row[1] for row in outside.rows) == 270
    assert [table.name for table in held_back] == ["matters_m1", "matters_m2"]


def test_fitting_tells_two_matters_apart():
    some = [one for one in seen() if one.message.label in {"pet_loss", "exam"}][:120]
    file = fitted(some)
    right = sum(likeliest(file, one.features)[0].name == one.message.label for one in some)
    assert right / len(some) >= 0.9
