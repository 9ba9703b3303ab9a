"""Versions, core features, and the session that two sides have agreed on.

An extension is active in a session or not; nothing is sent, stored or answered for an inactive one.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from comity.wire.errors import ConfigError, MalformedError

# Protocol versions, and the one that is agreed on (vcp 1.5, steps 2 and 3).


MAX_OFFERED: Final = 64

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_WRITTEN = re.compile(rf"({_NUMBER})\.({_NUMBER})(?:\.{_NUMBER})?")


class Version(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V1_0: Final = Version(1, 0)
V2_0: Final = Version(2, 0)
V3_0: Final = Version(3, 0)
V3_1: Final = Version(3, 1)

DEFAULT_VERSIONS: Final = (V1_0, V2_0, V3_0, V3_1)

# Nearly every hello names one of these.
_USUAL: Final = {str(version): version for version in DEFAULT_VERSIONS}


def parse(text: str) -> Version:
    usual = _USUAL.get(text)
    if usual is not None:
        return usual
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise MalformedError("a version is written as two numbers without leading zeros, such as 3.1")
    return Version(int(written[1]), int(written[2]))


def offered(texts: Iterable[str]) -> tuple[Version, ...]:
    """Return the configured versions of a server in ascending order, each once."""
    try:
        versions = tuple(sorted({parse(text) for text in texts}))
    except (MalformedError, TypeError):
        raise ConfigError(
            "the server's versions must be a list of texts such as '3.1', without leading zeros"
        ) from None
    if not 1 <= len(versions) <= MAX_OFFERED:
        raise ConfigError(f"a server offers 1 to {MAX_OFFERED} versions, not {len(versions)}")
    return versions


def negotiated(lowest: Version, highest: Version, server: Iterable[Version]) -> Version | None:
    """Return the highest version that both sides speak, or None."""
    return max((version for version in server if lowest <= version <= highest), default=None)


# The five core features: what is configured, what a version may claim of it, what was lost.


CORE_FEATURES: Final = ("encryption", "injection_scanning", "revocation", "audit_chain", "context_opacity")
PRODUCTION: Final = frozenset(("production", "prod", "staging"))

_NONE: Final = dict.fromkeys(CORE_FEATURES, False)
_SINCE_3_0: Final = dict.fromkeys(("revocation", "audit_chain", "context_opacity"), False)


def configured(flags: Mapping[str, Any]) -> dict[str, bool]:
    for name, flag in flags.items():
        if type(flag) is not bool:
            raise ConfigError(f"the core feature {name} must be true or false, not {type(flag).__name__}")
    return {**_NONE, **flags}


def is_production(environment: str) -> bool:
    return environment.strip().lower() in PRODUCTION


def claimed(features: Mapping[str, bool], version: Version, *, production: bool) -> dict[str, bool]:
    """Return the features of the server that a session at this version may be promised."""
    if version >= V3_0:
        return dict(features)
    if version >= V2_0:
        return dict(features) | _SINCE_3_0
    return dict(features) | _NONE | ({"encryption": features["encryption"]} if production else {})


def lost(before: Mapping[str, bool], now: Mapping[str, bool]) -> list[str]:
    """Return the features that were true and no longer are."""
    return [name for name, was_on in before.items() if was_on and not now.get(name, False)]


Mode = Literal["negotiated", "implicit"]


class Identity(Struct, frozen=True, kw_only=True):
    """The identity behind a session, from an accepted token; never the token itself.

    `owner` is the owner of stored data. It is None for a token that no issuer vouches for: its sender is anonymous for
    storage and ownership (ruling 20). `jtis` are the ids under which the token may be revoked while the session is open.
    """

    issuer: str | None = None
    subject: str | None = None
    owner: str | None = None
    jtis: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        return self.owner is not None


class Session(Struct, frozen=True, kw_only=True):
    """An `implicit` session is VCP 1.0: the client sent no hello and got no ack."""

    id: str
    version: str
    extensions: tuple[str, ...] = ()
    capabilities: dict[str, dict[str, Any]] = {}
    core_features: dict[str, bool] = {}
    identity: Identity | None = None
    mode: Mode = "negotiated"

    def active(self, extension: str) -> bool:
        return extension in self.extensions

    @property
    def speaks(self) -> Version:
        return parse(self.version)
