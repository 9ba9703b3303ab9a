"""The version of a value token: what stands behind its `@`.

`1.2.0` is that version and no other, `^1.2.0` a compatible one, `~1.2.0` an approximate one; `latest`
and `canary` are names whose version is looked up. Numbers have one to five digits. Leading zeros are
read and never written, so `01.2.0` and `1.2.0` are one version.
"""

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

from comity.core.identity.uvc.errors import UvcLabel, UvcTokenError

ALIASES: Final = ("latest", "canary")

_NUMBER_LIMIT: Final = 99_999
_VERSION: Final = re.compile(r"([\^~]?)([0-9]{1,5})\.([0-9]{1,5})\.([0-9]{1,5})(?:-([0-9A-Za-z.-]+))?")
_PRERELEASE: Final = re.compile(r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*")


class Constraint(StrEnum):
    NONE = "none"
    EXACT = "exact"
    COMPATIBLE = "compatible"
    APPROXIMATE = "approximate"
    ALIAS = "alias"


_SIGNS: Final = {Constraint.EXACT: "", Constraint.COMPATIBLE: "^", Constraint.APPROXIMATE: "~"}
_CONSTRAINTS: Final = {sign: constraint for constraint, sign in _SIGNS.items()}


class NumberedVersion(Struct, frozen=True):
    major: int
    minor: int
    patch: int
    prerelease: str | None = None
    constraint: Constraint = Constraint.EXACT

    def __post_init__(self) -> None:
        if (
            not all(0 <= number <= _NUMBER_LIMIT for number in (self.major, self.minor, self.patch))
            or (self.prerelease is not None and not _PRERELEASE.fullmatch(self.prerelease))
            or self.constraint not in _SIGNS
        ):
            raise _invalid()

    def __str__(self) -> str:
        written = f"{_SIGNS[self.constraint]}{self.major}.{self.minor}.{self.patch}"
        return written if self.prerelease is None else f"{written}-{self.prerelease}"


class AliasVersion(Struct, frozen=True):
    alias: str

    def __post_init__(self) -> None:
        if self.alias not in ALIASES:
            raise _invalid()

    @property
    def constraint(self) -> Constraint:
        return Constraint.ALIAS

    def __str__(self) -> str:
        return self.alias


UvcVersion = NumberedVersion | AliasVersion


def read_version(text: str) -> UvcVersion:
    if text in ALIASES:
        return AliasVersion(text)
    found = _VERSION.fullmatch(text)
    if found is None:
        raise _invalid()
    sign, major, minor, patch, prerelease = found.groups()
    return NumberedVersion(int(major), int(minor), int(patch), prerelease, _CONSTRAINTS[sign])


def _invalid() -> UvcTokenError:
    return UvcTokenError(
        UvcLabel.INVALID_VERSION,
        "a version is written as 1.2.0, ^1.2.0, ~1.2.0, latest or canary, numbers with at most 5 digits",
    )
