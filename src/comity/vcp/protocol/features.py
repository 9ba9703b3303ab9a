"""The five core features: what is configured, what a version may claim of it, what was lost.

- All five are always named; one that nobody configured is false. More flags may stand beside them and are
  passed on as they are. A flag that is not a boolean is a fault of the configuration, told at the start.
- Old versions knew fewer features, so an ack for them claims fewer (vcp 1.8). Only encryption in production
  is claimed at any version, because there no session exists without it.
"""

from collections.abc import Mapping
from typing import Any, Final

from comity.vcp.protocol.versions import V2_0, V3_0, Version
from comity.wire.errors import ConfigError

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
    """What a session at this version may be told of the features that the server has."""
    if version >= V3_0:
        return dict(features)
    if version >= V2_0:
        return dict(features) | _SINCE_3_0
    return dict(features) | _NONE | ({"encryption": features["encryption"]} if production else {})


def lost(before: Mapping[str, bool], now: Mapping[str, bool]) -> list[str]:
    """The features that were true and no longer are."""
    return [name for name, had in before.items() if had and not now.get(name, False)]
