import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.signals import ABSENT, Categorical, ContextError, domain, formality, parse
from tests.vcp.protocol.samples import WIRE

parts = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=":"), min_size=1, max_size=8
)


class TestTheWire:
    def test_of_the_document_has_nine_sides(self):
        told = parse(WIRE)
        assert told == Categorical(
            domain="\U0001f9d1\u2695\ufe0f",
            mode="💬",
            safety="🔒",
            time="🌙",
            setting="🏠",
            audience="👤",
            device="📱",
            activity="🧘",
            region="🇬🇧",
        )
        assert told.wire == WIRE

    @given(st.lists(parts, min_size=9, max_size=9))
    def test_comes_out_as_it_went_in(self, sides):
        wire = ":".join(sides)
        read = parse(wire)
        assert parse(read.wire) == read
        if ABSENT not in wire:
            assert read.wire == wire

    def test_may_say_that_nothing_is_known(self):
        assert parse(":".join([ABSENT] * 9)) == Categorical()
        assert parse(":".join([ABSENT + "\ufe0f"] * 9)) == Categorical()
        assert Categorical(mode="💬").wire == ":".join([ABSENT, "💬", *[ABSENT] * 7])

    @pytest.mark.parametrize(
        "wire",
        [
            "",
            ":",
            "a:b:c:d:e:f:g:h",
            "a:b:c:d:e:f:g:h:i:j",
            "a:b:c:d:e:f:g:h:",
            ":b:c:d:e:f:g:h:i",
            "a:b::d:e:f:g:h:i",
            "a:b:c:d:e:f:g:h:\n",
            "a:b:c:d:e:f:g:h:\x7f",
            "a:b:c:d:e:f:g:h:" + "i" * 65,
            "a" * 100_000,
            ":" * 100_000,
            "⏰🌅|📍🏡",
        ],
    )
    def test_of_another_form_is_refused_by_the_name_of_its_field(self, wire):
        with pytest.raises(ContextError) as refusal:
            parse(wire, "place")
        assert (refusal.value.wire_code, refusal.value.field) == ("INVALID", "place")
        assert len(refusal.value.message) < 300


def about(**sides):
    return Categorical(**sides)


class TestWhatAModelMayKnow:
    @pytest.mark.parametrize(
        "symbol", ["\U0001f9d1\u2695\ufe0f", "\U0001f9d1\u200d\u2695\ufe0f", "\U0001f9d1\u2695", "🏥", "🩺"]
    )
    def test_health_is_medical_with_and_without_joiner_and_selector(self, symbol):
        assert domain(parse(f"{symbol}:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧")) == "medical"

    @pytest.mark.parametrize(
        ("symbol", "told"),
        [
            ("⚖️", "legal"),
            ("💰", "financial"),
            ("🏫", "educational"),
            ("🧑‍💻", "technical"),
            ("🌐", "general"),
            ("🦄", None),
            ("medical", None),
            (None, None),
        ],
    )
    def test_a_domain_is_told_by_its_symbol_alone(self, symbol, told):
        assert domain(about(domain=symbol)) == told

    @pytest.mark.parametrize(
        ("mode", "setting", "told"),
        [
            ("😎", "🏢", "casual"),
            ("💼", None, "professional"),
            ("🎓", "🏠", "formal"),
            ("🏛️", None, "formal"),
            ("💬", "🏢", "professional"),
            (None, "🏛️", "formal"),
            ("💬", "🏠", None),
            (None, None, None),
            ("formal", "formal", None),
        ],
    )
    def test_formality_is_told_by_the_mode_or_else_by_the_setting(self, mode, setting, told):
        assert formality(about(mode=mode, setting=setting)) == told

    @given(parts)
    def test_no_text_of_a_clients_passes_through(self, text):
        told = about(domain=text, mode=text, setting=text)
        assert domain(told) in {"medical", "legal", "financial", "educational", "technical", "general", None}
        assert formality(told) in {"casual", "professional", "formal", None}
