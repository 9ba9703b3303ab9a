"""The weights are those of the messages in the repository, and messages of outsiders are taken for what they are."""

import json
from collections import Counter
from importlib.resources import files

from comity_skills.supportive_reply.data import ALARM, MATTERS
from comity_skills.supportive_reply.matter import danger_in, likeliest
from comity_skills.supportive_reply.message import DANGERS
from evals.matters import PLAIN, alarmed, fingerprint, fitted, messages, seen
from evals.tables.messages import FIGURES, danger_messages, outside_messages, tables, taken_for


def test_the_weights_are_those_of_the_messages():
    matters, alarm = (
        json.loads(files("comity_skills").joinpath(name).read_bytes()) for name in (MATTERS, ALARM)
    )
    assert matters["fingerprint"] == alarm["fingerprint"] == fingerprint()
    assert set(matters["matters"]) == {one.label for one in messages()} - {PLAIN}
    assert set(alarm["names"]) == set(DANGERS)


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
    taken = taken_for(outside_messages())
    assert len(outside_messages()) == 270
    assert taken["nothing"]["nothing"] + taken["nothing"]["unclear"] >= 34  # of 62
    assert taken["violence"]["danger to the writer"] >= 18  # of 30
    assert taken["other"]["danger to another"] >= 14  # of 32
    assert taken["trouble"]["nothing"] + taken["violence"]["nothing"] + taken["other"]["nothing"] <= 2
    assert taken["crisis"]["nothing"] == 0


def test_the_danger_of_somebody_is_answered_and_scenes_without_any_are_not():
    taken = taken_for(danger_messages())
    assert len(danger_messages()) == 880
    assert taken["other_emergency"]["danger to another"] >= 116  # of 154
    assert taken["other_violence"]["danger to another"] >= 66  # of 88
    assert (
        taken["other_suicide"]["danger to another"] >= 56
    )  # of 88; 12 more are taken for the writer's own crisis
    assert taken["self_violence"]["danger to the writer"] >= 30  # of 55
    assert taken["self_emergency"]["danger to the writer"] >= 28  # of 44
    for kind, most in (("told", 20), ("nothing", 1), ("ill_relative", 1), ("sick_child", 1)):
        assert taken[kind]["danger to another"] + taken[kind]["danger to the writer"] <= most, kind
    assert sum(taken[kind]["nothing"] for kind in DANGERS) <= 2


def test_danger_is_told_in_messages_that_were_held_back_in_every_language():
    figures = json.loads(FIGURES.read_bytes())["danger"]
    for kind in ("other_emergency", "other_suicide", "other_violence"):
        likely, _, n = figures[kind]
        assert n >= 1200
        assert likely / n >= 0.65, kind
    shares = {
        name: likely / n for name, (likely, _, n) in figures.items() if name.startswith("other_emergency ")
    }
    assert len(shares) == 11
    assert min(shares.values()) >= 0.5, shares
    likely, _, n = figures["told"]
    assert likely / n <= 0.08
    likely, _, n = figures["nothing"]
    assert likely / n <= 0.01


def test_the_tables_count_every_message():
    outside, danger, *held_back = tables()
    assert sum(row[1] for row in outside.rows) == 270
    assert sum(row[1] for row in danger.rows) == 880
    assert [table.name for table in held_back] == [
        *(f"matters_m{number}" for number in (1, 2, 3, 4)),
        "danger",
    ]


def test_fitting_tells_two_matters_apart():
    some = [one for one in seen() if one.message.label in {"pet_loss", "exam"}][:120]
    file = fitted(some)
    right = sum(likeliest(file, one.features)[0].name == one.message.label for one in some)
    assert right / len(some) >= 0.9


def test_fitting_tells_danger_from_what_is_none():
    dangers = [one for label in DANGERS for one in seen() if one.message.label == label][::60]
    others = [one for one in seen() if not one.is_danger][::120]
    assert {one.message.label for one in dangers} == set(DANGERS)
    file = alarmed([*dangers, *others])
    right = sum(
        (danger_in(file, one.features | one.signs) > 0) is one.is_danger for one in (*dangers, *others)
    )
    assert right / (len(dangers) + len(others)) >= 0.9
