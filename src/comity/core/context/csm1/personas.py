"""Who speaks in a constitution, how closely the rules are kept, and where they hold (vcp 3.1).

- Seven personas, by letter and by lower-case name. Two letters of an older set, R and H, are retired and
  refused; as scopes the same letters live on.
- What a persona usually comes with (adherence, scopes) and what does not suit it are advice, not grammar.
- Adult stands beside neither family nor vulnerable nor health: such a code does not exist.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from comity.core.context.csm1.errors import Csm1Error, Csm1Label


class Persona(Struct, frozen=True, kw_only=True):
    code: str
    name: str
    focus: str
    default_adherence: int
    typical_scopes: str = ""
    unsuitable_scopes: str = ""
    requires_namespace: bool = False


class Scope(Struct, frozen=True):
    code: str
    name: str
    description: str


PERSONAS: Final[Mapping[str, Persona]] = {
    persona.code: persona
    for persona in (
        Persona(
            code="N",
            name="nanny",
            focus="Child safety and family-appropriate content",
            default_adherence=5,
            typical_scopes="FE",
            unsuitable_scopes="A",
        ),
        Persona(
            code="Z",
            name="sentinel",
            focus="Security, privacy, and operational safety",
            default_adherence=4,
            typical_scopes="PW",
        ),
        Persona(
            code="G",
            name="godparent",
            focus="Ethical guidance and moral reasoning",
            default_adherence=4,
            typical_scopes="RE",
        ),
        Persona(
            code="A",
            name="ambassador",
            focus="Professional conduct and diplomatic communication",
            default_adherence=3,
            typical_scopes="WO",
            unsuitable_scopes="A",
        ),
        Persona(
            code="M",
            name="muse",
            focus="Creativity and artistic expression",
            default_adherence=2,
            typical_scopes="A",
            unsuitable_scopes="O",
        ),
        Persona(
            code="D",
            name="mediator",
            focus="Fair resolution and balanced mediation",
            default_adherence=3,
            typical_scopes="SW",
        ),
        Persona(
            code="C",
            name="custom",
            focus="User-defined constitution",
            default_adherence=3,
            requires_namespace=True,
        ),
    )
}
RETIRED: Final[Mapping[str, str]] = {"R": "anchor", "H": "hot-rod"}
ADHERENCE: Final = ("minimal", "relaxed", "moderate", "standard", "strict", "maximum")
SCOPES: Final[Mapping[str, Scope]] = {
    scope.code: scope
    for scope in (
        Scope("F", "FAMILY", "At home, with children about"),
        Scope("W", "WORK", "At work, among colleagues"),
        Scope("P", "PRIVACY", "Personal data needs protection"),
        Scope("E", "EDUCATION", "Teaching and learning"),
        Scope("T", "TECHNICAL", "Engineering and technical matters"),
        Scope("O", "OFFICIAL", "Government and other official matters"),
        Scope("V", "VULNERABLE", "People who need particular care"),
        Scope("A", "ADULT", "Adults only"),
        Scope("H", "HEALTHCARE", "Health and medical care"),
        Scope("S", "SOCIAL", "Company and community"),
        Scope("R", "RELIGIOUS", "Faith and religious practice"),
    )
}

_BY_NAME: Final = {persona.name: persona for persona in PERSONAS.values()}
_NOT_BESIDE_ADULT: Final = "FVH"
_LETTERS: Final = ", ".join(f"{persona.code} ({persona.name})" for persona in PERSONAS.values())


def persona_of(letter: str) -> Persona:
    persona = PERSONAS.get(letter)
    if persona is None:
        was = f"{letter} ({RETIRED[letter]}) is retired; " if letter in RETIRED else ""
        raise Csm1Error(Csm1Label.INVALID_PERSONA, f"{was}the persona is one of {_LETTERS}")
    return persona


def persona_named(name: str) -> Persona:
    persona = _BY_NAME.get(name)
    if persona is None:
        raise Csm1Error(
            Csm1Label.INVALID_PERSONA,
            f"the name of the persona is one of {', '.join(_BY_NAME)}, in lower case",
        )
    return persona


def scopes_of(letters: Iterable[str]) -> tuple[Scope, ...]:
    """The scopes in the order given; they have to get on with each other."""
    found: dict[str, Scope] = {}
    for letter in letters:
        scope = SCOPES.get(letter)
        if scope is None:
            raise Csm1Error(Csm1Label.INVALID_SCOPE, f"a scope is one of {', '.join(SCOPES)}, in upper case")
        if letter in found:
            raise Csm1Error(Csm1Label.DUPLICATE_SCOPE, f"scope {letter} is there twice; name it once")
        found[letter] = scope
    if "A" in found:
        for letter in _NOT_BESIDE_ADULT:
            if letter in found:
                raise Csm1Error(
                    Csm1Label.CONFLICTING_SCOPES,
                    f"scope A (adult) does not stand beside {letter} ({SCOPES[letter].name.lower()}); drop one",
                )
    return tuple(found.values())
