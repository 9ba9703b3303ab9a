import pytest

from comity.vcp.protocol.context_wire import (
    EXTENDED,
    PERSONAL_SYMBOLS,
    SELECTOR,
    SITUATIONAL,
    is_known_relationship,
    split_symbols,
    symbol_of,
)
from comity.vcp.protocol.signals import CATEGORIES


def test_the_dimensions_stand_in_the_order_of_the_wire():
    assert "".join(dimension.symbol for dimension in SITUATIONAL.values()) == "⏰📍👥🌍🎭🌡️🔷🔶📡🧍↔️🪢🎩"
    assert list(SITUATIONAL)[9:] == ["embodiment", "proximity", "relationship", "formality"]
    assert set(SITUATIONAL) >= EXTENDED
    assert "".join(PERSONAL_SYMBOLS.values()) == "🧠💭🔋⚡🩺"
    assert list(PERSONAL_SYMBOLS) == list(CATEGORIES)


def test_a_value_is_known_by_its_word_and_by_its_symbol_with_and_without_selector():
    for dimension in SITUATIONAL.values():
        for word, symbol in dimension.values.items():
            for spelling in (word, symbol, symbol.replace(SELECTOR, "")):
                assert symbol_of(dimension, spelling) == symbol


def test_the_same_symbol_may_mean_another_thing_elsewhere():
    assert symbol_of(SITUATIONAL["time"], "midday") == symbol_of(SITUATIONAL["environment"], "comfortable")
    assert symbol_of(SITUATIONAL["space"], "midday") is None


@pytest.mark.parametrize("symbol", ["🦄", "🇬🇧", "👩🏽‍🚀", "‼️", "🫨", "\U0001fae9"])
def test_another_symbol_is_taken_as_it_is(symbol):
    assert symbol_of(SITUATIONAL["space"], symbol) == symbol


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        "gym",
        "🦄🦄",
        "\u200d🦄",
        "\ufe0f",
        "\u0301",
        "é",
        "中",
        "\u200b",
        "\u202e",
        "\ud800",
        "\U0001f3fb",
        "🦄" + "\u0301" * 32,
    ],
)
def test_what_is_neither_word_nor_symbol_is_not_a_value(value):
    assert symbol_of(SITUATIONAL["space"], value) is None


def test_joined_symbols_are_one():
    whole = ["👨‍👩‍👧", "🇬🇧", "☀️", "👍🏽", "🏡"]
    assert split_symbols("".join(whole)) == whole


def test_relationships_of_the_specification_are_known():
    assert is_known_relationship("colleague:professional")
    assert not is_known_relationship("parent:caregiving")
    assert not is_known_relationship("professional:colleague")
