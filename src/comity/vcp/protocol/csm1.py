"""CSM-1, the code of a constitution: `persona adherence (+scope)* [:NAMESPACE] [@version]` (vcp 3.1).

| tier | written |
|---|---|
| NANO | `N5+E+F` |
| MICRO | `N5+E+F:ELEM@1.2.0`, with a namespace or a version or both |
| COMPACT | `CS1|nanny|5|family.safe.guide|E,F`, with a value token and at least one scope |

- Reading is strict, from left to right, and stops at the first fault: nothing is trimmed, folded or reordered. The
  namespace comes after the scopes.
- The rules hold for every `Csm1Code`, however it was made, so its text reads back as the same code.
- The canonical form is MICRO with its scopes in alphabetical order. It includes namespace and version of the token of a
  COMPACT code if MICRO can write them; a custom persona needs the namespace.
- NANO drops namespace and version. Of a custom persona it is not a code.
- Two personas of an older set, R and H, are retired and refused; as scopes the same letters are valid.
- The usual adherence and scopes of a persona, and unsuitable ones, are advice, not grammar.
- Adult is not combined with family, vulnerable or health: such a code does not exist.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from comity.identity.protocol.uvc import UvcToken, canonicalise, parse_uvc
from comity.wire.errors import MalformedError


class Csm1Label(StrEnum):
    """Why a text is no CSM-1 code. The labels are the protocol's; programs may compare them."""

    EMPTY_CODE = "empty_code"
    INVALID_PERSONA = "invalid_persona"
    MISSING_ADHERENCE = "missing_adherence"
    ADHERENCE_OUT_OF_RANGE = "adherence_out_of_range"
    INVALID_SCOPE = "invalid_scope"
    INVALID_SCOPE_FORMAT = "invalid_scope_format"
    DUPLICATE_SCOPE = "duplicate_scope"
    CONFLICTING_SCOPES = "conflicting_scopes"
    INVALID_NAMESPACE = "invalid_namespace"
    NAMESPACE_TOO_LONG = "namespace_too_long"
    NAMESPACE_REQUIRED = "namespace_required"
    INVALID_VERSION = "invalid_version"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - a label
    INVALID_COMPACT = "invalid_compact"


class Csm1Error(MalformedError):
    """A text that is no CSM-1 code; `label` says which rule it breaks."""

    code = "csm1"

    def __init__(self, label: Csm1Label, message: str) -> None:
        super().__init__(message)
        self.label = label


class Persona(Struct, frozen=True):
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
        Persona("N", "nanny", "Child safety and family-appropriate content", 5, "FE", "A"),
        Persona("Z", "sentinel", "Security, privacy, and operational safety", 4, "PW"),
        Persona("G", "godparent", "Ethical guidance and moral reasoning", 4, "RE"),
        Persona("A", "ambassador", "Professional conduct and diplomatic communication", 3, "WO", "A"),
        Persona("M", "muse", "Creativity and artistic expression", 2, "A", "O"),
        Persona("D", "mediator", "Fair resolution and balanced mediation", 3, "SW"),
        Persona("C", "custom", "User-defined constitution", 3, requires_namespace=True),
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
    """Return the scopes in the order given. Raises Csm1Error if they cannot be combined."""
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


COMPACT_MARK: Final = "CS1"
MAX_COMPACT_LENGTH: Final = 294
MAX_NAMESPACE_LENGTH: Final = 8

_DIGITS: Final = re.compile(r"[0-9]+")
_LISTED: Final = re.compile(r"[^:@]*")
_UPPER: Final = re.compile(r"[A-Z]+")
_NUMBER: Final = r"(?:0|[1-9][0-9]{0,2})"
_VERSION: Final = re.compile(rf"latest|canary|{_NUMBER}\.{_NUMBER}\.{_NUMBER}")


class CsmTier(StrEnum):
    NANO = "NANO"
    MICRO = "MICRO"
    COMPACT = "COMPACT"


class Csm1Code(Struct, frozen=True, kw_only=True):
    """`scopes` are letters in the order in which they were written. With a `token` it is a COMPACT code, and
    namespace and version are taken from it.
    """

    persona: str
    adherence: int
    scopes: tuple[str, ...] = ()
    namespace: str | None = None
    version: str | None = None
    token: UvcToken | None = None

    def __post_init__(self) -> None:
        persona = persona_of(self.persona)
        if type(self.adherence) is not int or not 0 <= self.adherence < len(ADHERENCE):
            raise _adherence()
        scopes_of(self.scopes)
        if self.token is not None:
            self._carry(self.token)
        if self.namespace is not None:
            _check_namespace(self.namespace)
        if self.version is not None:
            _check_version(self.version)
        if persona.requires_namespace and self.namespace is None:
            raise Csm1Error(
                Csm1Label.NAMESPACE_REQUIRED, "a custom persona needs a namespace, like C3:ACME; add it"
            )

    def _carry(self, token: UvcToken) -> None:
        """Take namespace and version from the token of a COMPACT code."""
        if not self.scopes:
            raise _no_scope()
        if canonicalise(str(token)) != str(token):
            raise _not_canonical()
        namespace, version = token.namespace, None if token.version is None else str(token.version)
        if namespace is not None and not (
            len(namespace) <= MAX_NAMESPACE_LENGTH and _UPPER.fullmatch(namespace)
        ):
            namespace = None
        if version is not None and not _VERSION.fullmatch(version):
            version = None
        force_setattr(self, "namespace", namespace)
        force_setattr(self, "version", version)

    @property
    def tier(self) -> CsmTier:
        if self.token is not None:
            return CsmTier.COMPACT
        return CsmTier.NANO if self.namespace is None and self.version is None else CsmTier.MICRO

    @property
    def character(self) -> Persona:
        return PERSONAS[self.persona]

    @property
    def adherence_name(self) -> str:
        return ADHERENCE[self.adherence]

    @property
    def places(self) -> tuple[Scope, ...]:
        return scopes_of(self.scopes)

    @property
    def unsuitable(self) -> tuple[Scope, ...]:
        """Scopes that the persona is not meant for. The code is still valid."""
        return tuple(scope for scope in self.places if scope.code in self.character.unsuitable_scopes)

    def nano(self) -> str:
        return "+".join((f"{self.persona}{self.adherence}", *sorted(self.scopes)))

    def micro(self) -> str:
        return f"{self.nano()}{self._suffix()}"

    canonical = micro

    def __str__(self) -> str:
        """Return the code in its own tier, scopes as they were written."""
        if self.token is not None:
            scopes = ",".join(self.scopes)
            return f"{COMPACT_MARK}|{self.character.name}|{self.adherence}|{self.token}|{scopes}"
        return "+".join((f"{self.persona}{self.adherence}", *self.scopes)) + self._suffix()

    def _suffix(self) -> str:
        namespace = "" if self.namespace is None else f":{self.namespace}"
        return namespace if self.version is None else f"{namespace}@{self.version}"


def parse_csm1(text: str) -> Csm1Code:
    """Read a code. Raises Csm1Error."""
    if not isinstance(text, str) or not text.strip():
        raise Csm1Error(Csm1Label.EMPTY_CODE, "the code is empty; write a persona and an adherence, like N5")
    if text.startswith(f"{COMPACT_MARK}|"):
        return _parse_compact(text)
    persona_of(text[0])
    digits = _DIGITS.match(text, 1)
    if digits is None:
        raise Csm1Error(
            Csm1Label.MISSING_ADHERENCE, f"behind {text[0]} comes the adherence, one digit from 0 to 5"
        )
    adherence = _read_adherence(digits[0])
    listed = _LISTED.match(text, digits.end())
    assert listed is not None
    scopes = _read_scopes(listed[0])
    named, at, version = text[listed.end() :].partition("@")
    return Csm1Code(
        persona=text[0],
        adherence=adherence,
        scopes=scopes,
        namespace=named[1:] if named else None,
        version=version if at else None,
    )


def _parse_compact(text: str) -> Csm1Code:
    parts = text.split("|", 5) if len(text) <= MAX_COMPACT_LENGTH else []
    if len(parts) != 5:
        raise Csm1Error(
            Csm1Label.INVALID_COMPACT,
            f"a COMPACT code is CS1|persona|adherence|token|scopes, at most {MAX_COMPACT_LENGTH} characters, "
            "like CS1|nanny|5|family.safe.guide|E,F",
        )
    _, name, level, written, listed = parts
    persona = persona_named(name)
    if not level:
        raise Csm1Error(Csm1Label.MISSING_ADHERENCE, "behind the persona comes the adherence, from 0 to 5")
    if not _DIGITS.fullmatch(level):
        raise _adherence()
    adherence = _read_adherence(level)
    token = _read_token(written)
    if not listed:
        raise _no_scope()
    scopes = listed.split(",")
    if any(len(scope) != 1 for scope in scopes):
        raise Csm1Error(
            Csm1Label.INVALID_SCOPE_FORMAT,
            "the scopes of a COMPACT code are letters with commas between, like E,F",
        )
    return Csm1Code(persona=persona.code, adherence=adherence, scopes=tuple(scopes), token=token)


def _read_token(written: str) -> UvcToken:
    try:
        token = parse_uvc(written)
    except MalformedError as fault:
        raise Csm1Error(Csm1Label.INVALID_TOKEN, f"the token of the code is none: {fault.message}") from None
    # a token forgets leading zeros of its version, so the text is compared as well
    if str(token) != written:
        raise _not_canonical()
    return token


def _read_scopes(listed: str) -> tuple[str, ...]:
    if not listed:
        return ()
    before, *scopes = listed.split("+")
    if before:
        raise _scope_format()
    for position, scope in enumerate(scopes):
        if len(scope) != 1:
            scopes_of(scopes[:position])
            raise _scope_format()
    return tuple(scopes)


def _read_adherence(digits: str) -> int:
    if len(digits) != 1 or int(digits) >= len(ADHERENCE):
        raise _adherence()
    return int(digits)


def _check_namespace(namespace: str) -> None:
    if not _UPPER.fullmatch(namespace):
        raise Csm1Error(
            Csm1Label.INVALID_NAMESPACE,
            f"a namespace is 1 to {MAX_NAMESPACE_LENGTH} upper-case letters behind the scopes, like N5+F:ELEM",
        )
    if len(namespace) > MAX_NAMESPACE_LENGTH:
        raise Csm1Error(
            Csm1Label.NAMESPACE_TOO_LONG,
            f"a namespace has at most {MAX_NAMESPACE_LENGTH} letters; shorten it",
        )


def _check_version(version: str) -> None:
    if not _VERSION.fullmatch(version):
        raise Csm1Error(
            Csm1Label.INVALID_VERSION,
            "a version is three numbers from 0 to 999 without leading zeros, like 1.2.0, or latest or canary",
        )


def _adherence() -> Csm1Error:
    return Csm1Error(Csm1Label.ADHERENCE_OUT_OF_RANGE, "the adherence is one digit from 0 to 5")


def _scope_format() -> Csm1Error:
    return Csm1Error(
        Csm1Label.INVALID_SCOPE_FORMAT, "each scope is one letter behind a plus sign of its own, like N5+F+E"
    )


def _not_canonical() -> Csm1Error:
    return Csm1Error(
        Csm1Label.INVALID_TOKEN, "the token of a COMPACT code is written in its canonical form; correct it"
    )


def _no_scope() -> Csm1Error:
    return Csm1Error(Csm1Label.INVALID_SCOPE_FORMAT, "a COMPACT code names at least one scope, like E,F")
