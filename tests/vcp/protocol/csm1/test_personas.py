import pytest

from comity.vcp.protocol.csm1 import (
    ADHERENCE,
    PERSONAS,
    RETIRED,
    SCOPES,
    Csm1Error,
    persona_named,
    persona_of,
    scopes_of,
)


def label_of(call, *arguments):
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
    assert label_of(persona_of, letter) == "invalid_persona"


@pytest.mark.parametrize("name", ["NANNY", "Nanny", "anchor", "hot-rod", "", "N"])
def test_no_other_name_is_a_persona(name):
    assert label_of(persona_named, name) == "invalid_persona"


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
                label_of(scopes_of, "A" + letter) == label_of(scopes_of, letter + "A") == "conflicting_scopes"
            )
        elif letter != "A":
            assert [scope.code for scope in scopes_of("A" + letter)] == ["A", letter]
