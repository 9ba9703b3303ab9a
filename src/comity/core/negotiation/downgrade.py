"""What a server promised last time and does not promise now (vcp 1.9).

- A lower version, a core feature that was true, an extension that was there and is asked for again, and a
  capability that has shrunk: true became false, a number fell, a list lost a member, a key is gone.
- There is no alert for an extension that the client no longer requests. Flags that depend on another extension give no
  alert of their own.
- The alerts are for people, who decide whether to go on.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from comity.core.negotiation import features, versions
from comity.core.negotiation.messages import Ack
from comity.core.negotiation.registry import DEPENDENCIES

_DEPENDENT: Final = frozenset(
    dependency.flag for dependencies in DEPENDENCIES.values() for dependency in dependencies
)


class Notice(Struct, frozen=True):
    """`about` is one word for programs, `name` what it is about, `message` a sentence for people."""

    about: Literal["version", "feature", "extension", "capability"]
    name: str
    message: str


def alerts(before: Ack, now: Ack) -> tuple[Notice, ...]:
    return tuple(_alerts(before, now))


def _alerts(before: Ack, now: Ack) -> Iterator[Notice]:
    if versions.parse(now.version) < versions.parse(before.version):
        yield Notice(
            "version", now.version, f"the server spoke VCP {before.version} and now only {now.version}"
        )
    for name in features.lost(before.core_features, now.core_features):
        yield Notice("feature", name, f"the server no longer has the core feature {name}")
    for extension in before.supported:
        if extension in now.unsupported:
            yield Notice("extension", extension, f"the server no longer supports {extension}")
        elif extension in now.supported:
            had, has = before.capabilities.get(extension, {}), now.capabilities.get(extension, {})
            for key in _shrunk(had, has):
                yield Notice(
                    "capability", f"{extension}.{key}", f"{extension} now offers less than before: {key}"
                )


def _shrunk(had: Mapping[str, Any], has: Mapping[str, Any]) -> Iterator[str]:
    for key, before in had.items():
        if key not in _DEPENDENT and (key not in has or _is_less(has[key], before)):
            yield key


def _is_less(now: Any, before: Any) -> bool:
    if isinstance(before, bool):
        return before and now is not True
    if isinstance(before, int | float):
        return isinstance(now, bool) or not isinstance(now, int | float) or now < before
    if isinstance(before, list):
        return not isinstance(now, list) or any(member not in now for member in before)
    return False
