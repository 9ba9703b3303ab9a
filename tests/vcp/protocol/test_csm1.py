"""CSM-1 codes: grammar, personas, and the recorded codes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.uvc import UvcToken, parse_uvc
from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.csm1 import (
    ADHERENCE,
    PERSONAS,
    RETIRED,
    SCOPES,
    Csm1Code,
    Csm1Error,
    CsmTier,
    parse_csm1,
    persona_named,
    persona_of,
    scopes_of,
)
from tests.identity.protocol.uvc_tokens import tokens

numbers = st.integers(0, 999)
versions = st.sampled_from(["latest", "canary"]) | st.builds("{}.{}.{}".format, numbers, numbers, numbers)
namespaces = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=1, max_size=8)
scopes = (
    st.lists(st.sampled_from(sorted(SCOPES)), unique=True)
    .filter(lambda found: "A" not in found or not set("FVH") & set(found))
    .map(tuple)
)


@st.composite
def codes(draw):
    persona = draw(st.sampled_from(sorted(PERSONAS)))
    return Csm1Code(
        persona=persona,
        adherence=draw(st.integers(0, 5)),
        scopes=draw(scopes),
        namespace=draw(namespaces if persona == "C" else st.none() | namespaces),
        version=draw(st.none() | versions),
    )


@st.composite
def compact_codes(draw):
    return Csm1Code(
        persona=draw(st.sampled_from("NZGAMD")),
        adherence=draw(st.integers(0, 5)),
        scopes=draw(scopes.filter(bool)),
        token=draw(
            st.sampled_from(["", "@1.2.0:ELEM", "@^1.2.0", "@latest", ":TOOLONGFORMICRO", ":A1"]).map(_token)
        ),
    )


def _token(suffix):
    return parse_uvc(f"family.safe.guide{suffix}")


def label_of(text):
    with pytest.raises(Csm1Error) as refusal:
        parse_csm1(text)
    assert len(refusal.value.message) < 300
    return refusal.value.label


class TestACode:
    @given(codes() | compact_codes())
    def test_reads_back_as_the_same_code(self, code):
        assert parse_csm1(str(code)) == code

    @given(codes() | compact_codes())
    def test_has_one_canonical_form_however_often_it_is_written(self, code):
        canonical = parse_csm1(code.canonical())
        assert canonical.canonical() == str(canonical) == code.canonical()
        assert canonical.nano() == code.nano()
        assert list(canonical.scopes) == sorted(code.scopes)

    @given(codes())
    def test_is_never_longer_than_45_characters(self, code):
        assert 2 <= len(str(code)) <= 45

    @given(st.text("NZGAMDCRHX0156+:@.|,latesFWEVS \n", max_size=50) | st.text(max_size=20))
    def test_is_read_or_refused_and_what_is_read_was_written_so(self, text):
        try:
            code = parse_csm1(text)
        except Csm1Error:
            return
        assert str(code) == text

    def test_says_its_tier(self):
        assert parse_csm1("N5+F").tier is CsmTier.NANO
        assert parse_csm1("N5+F@canary").tier is parse_csm1("N5:ELEM").tier is CsmTier.MICRO
        assert parse_csm1("CS1|nanny|5|family.safe.guide|F").tier is CsmTier.COMPACT

    def test_may_name_a_scope_that_does_not_suit_its_persona(self):
        code = parse_csm1("N5+A")
        assert [scope.name for scope in code.unsuitable] == ["ADULT"]
        assert parse_csm1("N5+F").unsuitable == ()

    def test_cannot_be_made_wrong(self):
        for wrong in (
            {"persona": "R"},
            {"adherence": 6},
            {"adherence": True},
            {"adherence": -1},
            {"scopes": ("F", "F")},
            {"scopes": ("A", "H")},
            {"namespace": "elem"},
            {"version": "1.2"},
            {"persona": "C"},
            {"token": _token("")},
            {"scopes": ("F",), "token": parse_uvc("family.safe.guide@1.0.0-RC1")},
        ):
            with pytest.raises(Csm1Error):
                Csm1Code(**({"persona": "N", "adherence": 5} | wrong))


class TestARefusal:
    @pytest.mark.parametrize(
        ("label", "texts"),
        [
            ("empty_code", ["", " ", "\n\t"]),
            ("invalid_persona", ["X5", "R4+E", "H2", "n5", " N5", "5", "+F", "csm1:a:b"]),
            ("missing_adherence", ["N", "N+F", "NF", "N:ELEM", "N-1", "N\uff15", "CS1", "N 5"]),
            ("adherence_out_of_range", ["N6", "N9+F", "N10", "N05", "N" + "5" * 10_000]),
            ("invalid_scope", ["N5+X", "N5+f", "N5+1", "N5+ ", "N5+X+FE", "N5+F+\u0415"]),
            (
                "invalid_scope_format",
                ["N5F", "N5+", "N5+FE", "N5++F", "N5+F+", "N5 ", "N5+F\n", "N5-F", "N5+F,E"],
            ),
            ("duplicate_scope", ["N5+F+F", "N5+F+E+F:ELEM", "N5" + "+F" * 10_000]),
            ("conflicting_scopes", ["N5+F+A", "N5+A+V", "M2+H+S+A:ELEM"]),
            ("invalid_namespace", ["N5:", "N5:elem", "N5:EL3M", "N5:ELEM+F", "N5:ELEM+F+E@1.2.0", "N5:A B"]),
            ("namespace_too_long", ["N5:TOOLONGNAMESPACE", "N5:ABCDEFGHI", "C3:" + "A" * 10_000]),
            ("namespace_required", ["C3", "C0+F", "C3@1.0.0", "CS1|custom|3|work.own.rules|W"]),
            (
                "invalid_version",
                [
                    "N5@",
                    "N5@1",
                    "N5@1.2",
                    "N5@1.2.3.4",
                    "N5@01.2.3",
                    "N5@1000.0.0",
                    "N5@^1.2.0",
                    "N5@LATEST",
                    "N5@1.2.0-rc",
                    "N5@1.2.0:ELEM",
                    "N5@1.2.0 ",
                    "N5@1.2.0\n",
                    "N5@\u0661.0.0",
                ],
            ),
        ],
    )
    def test_carries_the_label_of_the_first_rule_that_is_broken(self, label, texts):
        assert {text[:40]: label_of(text) for text in texts} == dict.fromkeys((t[:40] for t in texts), label)

    @pytest.mark.parametrize("value", [None, 5, b"N5", ["N5"]])
    def test_meets_what_is_no_text(self, value):
        assert label_of(value) == "empty_code"


class TestACompactCode:
    def test_takes_namespace_and_version_from_its_token(self):
        code = parse_csm1("CS1|nanny|5|family.safe.guide@1.2.0:ELEM|F,E")
        assert (code.persona, code.adherence, code.scopes) == ("N", 5, ("F", "E"))
        assert code.token == UvcToken(("family", "safe", "guide"), code.token.version, "ELEM")
        assert code.canonical() == "N5+E+F:ELEM@1.2.0"
        assert parse_csm1("CS1|custom|3|work.own.rules:ACME|W").canonical() == "C3+W:ACME"

    def test_leaves_out_of_its_canonical_form_what_that_cannot_write(self):
        code = parse_csm1("CS1|muse|2|creative.free.artist@~1.2.0:A1|A")
        assert (code.namespace, code.version, code.canonical()) == (None, None, "M2+A")

    @given(tokens)
    def test_has_any_canonical_token(self, token):
        text = f"CS1|muse|2|{token}|A"
        if token.version is not None and str(token.version) != str(token.version).lower():
            assert label_of(text) == "invalid_token"
        else:
            assert parse_csm1(text).token == token

    @pytest.mark.parametrize(
        ("label", "text"),
        [
            ("invalid_compact", "CS1|nanny|5|family.safe.guide"),
            ("invalid_compact", "CS1|nanny|5|family.safe.guide|F|"),
            ("invalid_compact", "CS1|" + "a" * 300),
            ("invalid_persona", "CS1|Nanny|5|family.safe.guide|F"),
            ("invalid_persona", "CS1|anchor|5|family.safe.guide|F"),
            ("missing_adherence", "CS1|nanny||family.safe.guide|F"),
            ("adherence_out_of_range", "CS1|nanny|6|family.safe.guide|F"),
            ("adherence_out_of_range", "CS1|nanny|maximum|family.safe.guide|F"),
            ("invalid_token", "CS1|nanny|5|family.safe|F"),
            ("invalid_token", "CS1|nanny|5|Family.safe.guide|F"),
            ("invalid_token", "CS1|nanny|5|family.safe.guide@01.2.0|F"),
            ("invalid_token", "CS1|nanny|5|family.safe.guide@1.2.0-RC1|F"),
            ("invalid_scope_format", "CS1|nanny|5|family.safe.guide|"),
            ("invalid_scope_format", "CS1|nanny|5|family.safe.guide|F,"),
            ("invalid_scope_format", "CS1|nanny|5|family.safe.guide|F+E"),
            ("invalid_scope", "CS1|nanny|5|family.safe.guide|f"),
            ("duplicate_scope", "CS1|nanny|5|family.safe.guide|F,F"),
            ("conflicting_scopes", "CS1|nanny|5|family.safe.guide|F,A"),
        ],
    )
    def test_is_refused_by_the_same_labels(self, label, text):
        assert label_of(text) == label


def label_of_part(call, *arguments):
    with pytest.raises(Csm1Error) as refusal:
        call(*arguments)
    return refusal.value.label


def test_there_are_seven_personas_and_each_is_found_by_letter_and_by_name():
    assert "".join(PERSONAS) == "NZGAMDC"
    for letter, persona in PERSONAS.items():
        assert persona_of(letter) is persona_named(persona.name) is persona


def test_their_usual_company_is_that_of_the_specification():
    usual = {p.code: (p.default_adherence, p.typical_scopes, p.unsuitable_scopes) for p in PERSONAS.values()}
    assert usual == {
        "N": (5, "FE", "A"),
        "Z": (4, "PW", ""),
        "G": (4, "RE", ""),
        "A": (3, "WO", "A"),
        "M": (2, "A", "O"),
        "D": (3, "SW", ""),
        "C": (3, "", ""),
    }


@pytest.mark.parametrize("letter", ["R", "H", "X", "n", "", " ", "NZ", "5", "\uff2e"])
def test_no_other_letter_is_a_persona(letter):
    assert label_of_part(persona_of, letter) == "invalid_persona"


@pytest.mark.parametrize("name", ["NANNY", "Nanny", "anchor", "hot-rod", "", "N"])
def test_no_other_name_is_a_persona(name):
    assert label_of_part(persona_named, name) == "invalid_persona"


def test_a_retired_persona_is_refused_by_its_old_name():
    for letter, name in RETIRED.items():
        with pytest.raises(Csm1Error, match=f"{letter} .{name}. is retired"):
            persona_of(letter)


def test_levels_and_scopes_have_the_names_of_the_specification():
    assert ADHERENCE == ("minimal", "relaxed", "moderate", "standard", "strict", "maximum")
    assert "".join(SCOPES) == "FWPETOVAHSR"
    assert SCOPES["H"].name == "HEALTHCARE"


def test_adult_stands_beside_all_but_three():
    for letter in SCOPES:
        if letter in "FVH":
            assert (
                label_of_part(scopes_of, "A" + letter)
                == label_of_part(scopes_of, letter + "A")
                == "conflicting_scopes"
            )
        elif letter != "A":
            assert [scope.code for scope in scopes_of("A" + letter)] == ["A", letter]


def compared(answer, expected):
    known_keys(expected, *answer)
    for key in expected.keys() & answer.keys():
        assert answer[key] == expected[key], key


def fields_of(text):
    try:
        code = parse_csm1(text)
    except Csm1Error as refusal:
        return {"valid": False, "error": refusal.label}
    return {
        "valid": True,
        "persona": code.persona,
        "persona_name": code.character.name,
        "adherence": code.adherence,
        "scopes": list(code.scopes),
        "namespace": code.namespace,
        "version": code.version,
    }


@format_runner("vcp", "csm1_parsing")
def test_vector_vcp_csm1_code_is_read_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    compared(fields_of(case["input"]), case["expected"])


@format_runner("vcp", "csm1_encoding")
def test_vector_vcp_csm1_code_is_written_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    code = parse_csm1(case["input"])
    written = {
        "parse_succeeds": True,
        "to_nano": code.nano(),
        "to_micro": code.micro(),
        "reparse_to_nano": parse_csm1(code.nano()).nano(),
    }
    compared(written, case["expected"])


@format_runner("vcp", "csm1_personas")
def test_vector_vcp_csm1_persona_is_resolved_as_recorded(case):
    known_keys(case, "id", "description", "input", "input_name", "expected")
    try:
        persona = persona_named(case["input_name"]) if "input_name" in case else persona_of(case["input"])
    except Csm1Error:
        answer = {"valid": False}
    else:
        answer = {
            "valid": True,
            "persona_code": persona.code,
            "persona_name": persona.name,
            "focus": persona.focus,
            "default_adherence": persona.default_adherence,
            "requires_namespace": persona.requires_namespace,
        }
    compared(answer, case["expected"])
