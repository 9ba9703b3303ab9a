"""The weights are those of the sentences in the repository, and sentences of authors that were held back are told apart."""

import json
from collections import Counter
from importlib.resources import files

from comity_skills.editing import TONE
from comity_skills.editing.tone import ADVICE, kind_of
from evals.tables.tone import FIGURES, tables
from evals.tone import FALSE, FINE, fingerprint, fitted, seen, texts


def test_the_weights_are_those_of_the_sentences():
    file = json.loads(files("comity_skills").joinpath(TONE).read_bytes())
    assert file["fingerprint"] == fingerprint()
    assert set(file["names"]) == set(ADVICE)


def test_many_authors_wrote_them_and_half_do_no_harm():
    labels = Counter(label for one in texts() if one.author[0] in "abce" for _, label in one.sentences)
    assert set(labels) == {*ADVICE, FINE}
    assert min(labels.values()) >= 300
    assert 0.45 <= labels[FINE] / labels.total() <= 0.6
    assert len({one.author for one in texts()}) >= 20


def test_sentences_of_authors_that_were_held_back_are_told_apart():
    figures = json.loads(FIGURES.read_bytes())
    wrong, _, n = figures["all"][FINE]
    assert wrong / n <= FALSE + 0.001
    flagged, right, n = figures["all"]["hurtful"]
    assert n >= 8000
    assert flagged / n >= 0.5
    assert right / flagged >= 0.75
    assert min(flagged / n for name, (flagged, _, n) in figures["all"].items() if name != FINE) >= 0.3


def test_the_tables_count_every_sentence():
    whole, *groups = tables()
    counted = [{row[0]: row[1] for row in table.rows} for table in (whole, *groups)]
    assert counted[0]["hurtful"] == sum(one["hurtful"] for one in counted[1:])


def test_fitting_tells_two_kinds_apart():
    some = [one for one in seen() if {"cure", "fed_up"}.intersection(one.labels)][:150]
    file = fitted(some)
    told = [
        kind_of(file, features) == label
        for one in some
        for features, label in zip(one.features, one.labels, strict=True)
        if label in {"cure", "fed_up"}
    ]
    assert sum(told) / len(told) >= 0.9
