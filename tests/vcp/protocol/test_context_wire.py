"""The VCP/A wire and its dimensions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol import signals
from comity.vcp.protocol.context_wire import (
    BANDS,
    EXTENDED,
    MAX_WIRE_LENGTH,
    PERSONAL_SYMBOLS,
    SELECTOR,
    SITUATIONAL,
    WireContext,
    decode,
    encode,
    is_known_relationship,
    read_context,
    split_symbols,
    symbol_of,
)
from comity.vcp.protocol.signals import CATEGORIES, ContextError, Signal

EVERYTHING = {name: next(iter(dimension.values), "friend:social") for name, dimension in SITUATIONAL.items()}
words = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], exclude_characters="|:\u2016\ufe0f"),
    min_size=1,
    max_size=8,
)


def values_of(name):
    if name == "relationship":
        return st.builds("{}:{}".format, words, words)
    known = SITUATIONAL[name].values
    return st.lists(st.sampled_from([*known, *known.values(), "🦄", "🇬🇧", "👩🏽‍🚀"]), max_size=4)


situations = st.fixed_dictionaries({}, optional={name: values_of(name) for name in SITUATIONAL})
persons = st.fixed_dictionaries(
    {},
    optional={
        name: st.fixed_dictionaries(
            {"value": st.sampled_from(CATEGORIES[name])}, optional={"intensity": st.integers(1, 5)}
        )
        for name in PERSONAL_SYMBOLS
    },
)


def refusal_of(call, *arguments):
    with pytest.raises(ContextError) as refusal:
        call(*arguments)
    assert len(refusal.value.message) < 300
    return refusal.value


@format_runner("vcp", "context_encoding")
def test_vector_vcp_context_is_encoded_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    context = read_context(case["input"]["situational"], case["input"]["personal"])
    wire, back = encode(context), decode(encode(context))
    expected = dict(case["expected"])
    for part in [expected.pop("wire_contains")] if "wire_contains" in expected else []:
        assert part in wire
    metadata = expected.pop("metadata", {})
    assert metadata.items() <= context.metadata.items()
    answer = {
        "wire": wire,
        "conformance_level": context.conformance_level,
        "has_situational": bool(context.situational),
        "has_personal": bool(context.personal),
        "has_vep_0004": context.has_extended,
        "wire_contains_separator_u2016": "\u2016" in wire,
        "dimension_order": list(context.dimensions),
        "roundtrip_preserves_relationship_compound": list(back.situational.get("relationship", ()))
        == case["input"]["situational"].get("relationship"),
        "classification_precedence": "extended_over_standard"
        if context.personal and context.conformance_level == "VCP-Extended"
        else None,
    }
    known_keys(expected, *answer)
    for key in expected.keys() & answer.keys():
        assert answer[key] == expected[key], key


class TestTheWire:
    @given(situations, persons)
    def test_reads_back_as_the_same_context(self, situation, person):
        context = read_context(situation, person)
        wire = encode(context)
        assert decode(wire) == context
        assert encode(decode(wire)) == wire
        again = context.json_format
        assert read_context(again["situational"], again["personal"]) == context

    @given(situations, persons, st.randoms(use_true_random=False))
    def test_does_not_depend_on_the_order_in_which_things_are_told(self, situation, person, random):
        def shuffled(result):
            return dict(random.sample(sorted(result.items(), key=lambda item: item[0]), len(result)))

        wire = encode(read_context(situation, person))
        assert encode(read_context(shuffled(situation), shuffled(person))) == wire
        bands = [band.split("|") for band in wire.split(BANDS)]
        mixed = BANDS.join("|".join(random.sample(band, len(band))) for band in bands)
        assert encode(decode(mixed)) == wire

    def test_of_everything_has_the_order_of_the_specification(self):
        person = {name: categories[0] for name, categories in CATEGORIES.items()}
        assert encode(read_context(EVERYTHING, person)) == (
            "⏰🌅|📍🏡|👥👤|🌍🔇|🎭\u2796|🌡️☀️|🔷👑|🔶○|📡🟢|🧍🪑|↔️🌐|🪢friend:social|🎩😎"
            "‖🧠focused:3|💭calm:3|🔋rested:3|⚡unhurried:3|🩺neutral:3"
        )

    def test_is_read_with_and_without_selectors(self):
        wire = encode(
            read_context({"proximity": "close", "environment": "comfortable", "constraints": "legal"}, {})
        )
        assert decode(wire.replace("\ufe0f", "")) == decode(wire)
        assert encode(decode("↔🤏")) == "↔️🤏"

    def test_without_an_intensity_means_3(self):
        assert decode("‖🧠focused") == decode("‖🧠focused:3")

    def test_of_nothing_is_empty(self):
        assert decode("") == WireContext()
        assert (
            encode(read_context({"time": None, "space": [], "company": ""}, {"cognitive_state": None})) == ""
        )

    @pytest.mark.parametrize(
        "wire",
        [
            *(
                "⏰",
                "|",
                "⏰🌅|",
                "|⏰🌅",
                "⏰🌅||📍🏡",
                "⏰🌅|⏰🌙",
                "⏰ 🌅",
                "⏰🌅\n",
                "⏰🌅\x00",
                "⏰🌅\u2028",
            ),
            *("🧠focused:4", "‖", "⏰🌅‖", "‖⏰🌅", "‖🧠", "‖🧠focused:4‖🩺pain:3", "‖🧠focused:4|🧠foggy:2"),
            *(
                "‖🧠focused:0",
                "‖🧠focused:6",
                "‖🧠focused:",
                "‖🧠focused:33",
                "‖🧠focused:٣",
                "‖🧠focused:4:x",
            ),
            *(
                "‖🧠pain:3",
                "‖🧠FOCUSED :3",
                "⏰morning",
                "⏰🌅:3",
                "x",
                "🪢a",
                "🪢:b",
                "🪢a:",
                "🪢a:b:c",
                "🪢\ufe0f",
            ),
            *("🕐🌅", "⏰" * 9000, "🦄🌅", "a:b:c:d:e:f:g:h:i", "\ud800"),
        ],
    )
    def test_of_another_form_is_refused(self, wire):
        refusal_of(decode, wire)

    @given(st.text(st.sampled_from("⏰🌅📍🏡|‖🧠🪢:focused34\ufe0f\u200d 🇬"), max_size=12))
    def test_is_read_or_refused(self, wire):
        try:
            context = decode(wire)
        except ContextError:
            return
        assert decode(encode(context)) == context

    def test_has_at_most_8192_characters(self):
        longest = "a:" + "b" * (MAX_WIRE_LENGTH - 3)
        assert len(encode(read_context({"relationship": longest}, {}))) == MAX_WIRE_LENGTH
        assert refusal_of(read_context, {"relationship": longest + "b"}, {}).wire_code == "TOO_LARGE"
        assert decode("🪢" + longest).situational["relationship"] == (longest,)
        assert refusal_of(decode, "🪢" + longest + "b").wire_code == "TOO_LARGE"
        assert refusal_of(decode, "⏰🌅" + "\ufe0f" * MAX_WIRE_LENGTH).wire_code == "TOO_LARGE"


class TestAContext:
    def test_is_told_in_words_symbols_or_both_and_holds_nothing_twice(self):
        context = read_context({"space": ["home", "🏡", "office"], "environment": "☀", "time": "🌅🌙"}, {})
        assert context.situational == {"time": ("🌅", "🌙"), "space": ("🏡", "🏢"), "environment": ("☀️",)}

    @pytest.mark.parametrize(
        "signal",
        [
            "focused:4",
            "FOCUSED:4",
            {"value": "focused", "intensity": 4},
            {"category": "focused", "intensity": 4},
            {"category": "cognitive_state", "value": "focused", "intensity": 4, "source": "inferred"},
        ],
    )
    def test_takes_a_signal_in_every_shape(self, signal):
        context = read_context({}, {"cognitive_state": signal})
        assert context.personal == {"cognitive_state": Signal(category="focused", intensity=4)}

    @pytest.mark.parametrize(
        ("situation", "person", "field"),
        [
            ({"time": "afternoon"}, {}, "dimensions.time"),
            ({"time": 3}, {}, "dimensions.time"),
            ({"time": {"x": 1}}, {}, "dimensions.time"),
            ({"time": ["morning", 3]}, {}, "dimensions.time"),
            ({"time": ["🇬", "🇧"]}, {}, "dimensions.time"),
            ({"time": "🌅|📍🏡"}, {}, "dimensions.time"),
            ({"time": "🌅‖🧠focused:5"}, {}, "dimensions.time"),
            ({"space": "🦄\u200d:"}, {}, "dimensions.space"),
            ({"space": "|\ufe0f"}, {}, "dimensions.space"),
            ({"space": "🦄\u200d\n"}, {}, "dimensions.space"),
            ({"space": ["🦄"] * 65}, {}, "dimensions.space"),
            ({"relationship": "friend"}, {}, "dimensions.relationship"),
            ({"relationship": "a b:c"}, {}, "dimensions.relationship"),
            ({"relationship": "a|b:c"}, {}, "dimensions.relationship"),
            ({"relationship": "\ufe0fa:c"}, {}, "dimensions.relationship"),
            ({"relationship": ["a:b", "c:d"]}, {}, "dimensions.relationship"),
            ({"mood": "good"}, {}, "dimensions.mood"),
            ({"cognitive_state": "focused"}, {}, "dimensions.cognitive_state"),
            ({}, {"time": "morning"}, "personal.time"),
            ({}, {"cognitive_state": "pain"}, "personal.cognitive_state.category"),
            ({}, {"cognitive_state": "focused:x"}, "personal.cognitive_state"),
            ({}, {"cognitive_state": "focused:9"}, "personal.cognitive_state.intensity"),
            (
                {},
                {"cognitive_state": {"value": "focused", "intensity": 4.0}},
                "personal.cognitive_state.intensity",
            ),
            ({}, {"cognitive_state": 3}, "personal.cognitive_state"),
        ],
    )
    def test_that_cannot_be_written_is_refused_by_the_name_of_its_field(self, situation, person, field):
        assert refusal_of(read_context, situation, person).field == field

    @pytest.mark.parametrize(
        ("situation", "person", "level"),
        [
            ({}, {}, "VCP-Minimal"),
            ({"system_context": "online"}, {}, "VCP-Minimal"),
            ({"time": "night"}, {"energy_level": "rested"}, "VCP-Standard"),
            ({}, {"energy_level": "rested"}, "VCP-Standard"),
            *(({name: EVERYTHING[name]}, {}, "VCP-Extended") for name in list(SITUATIONAL)[9:]),
            ({"formality": "casual"}, {"energy_level": "rested"}, "VCP-Extended"),
        ],
    )
    def test_has_a_conformance_level(self, situation, person, level):
        assert read_context(situation, person).conformance_level == level

    @pytest.mark.parametrize(
        ("situation", "result"),
        [
            ({}, set()),
            ({"occasion": "emergency"}, {"has_emergency"}),
            ({"constraints": "🚨"}, {"has_emergency"}),
            ({"embodiment": ["carrying", "emergency_stop"]}, {"has_emergency"}),
            ({"space": "🚨"}, set()),
            ({"company": "children"}, {"has_children"}),
            ({"company": "colleagues"}, {"is_professional"}),
            ({"formality": "professional"}, {"is_professional"}),
            ({"relationship": "friend:social"}, set()),
            ({"relationship": "parent:caregiving"}, {"unknown_relationship"}),
        ],
    )
    def test_has_metadata(self, situation, result):
        assert {name for name, holds in read_context(situation, {}).metadata.items() if holds} == result

    @given(situations, persons)
    def test_fits_into_the_nine_part_wire_as_far_as_that_goes(self, situation, person):
        context = read_context(situation, person)
        nine = signals.parse(context.categorical().wire)
        assert signals.parse(nine.wire) == nine
        assert nine.time == (context.situational.get("time") or (None,))[0]

    def test_tells_the_nine_part_wire_its_formality(self):
        nine = read_context(
            {"formality": "professional", "space": "home", "company": "alone"}, {}
        ).categorical()
        assert nine.wire == "\u2796:💼:\u2796:\u2796:🏠:👤:\u2796:\u2796:\u2796"
        assert signals.formality(nine) == "professional"


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
