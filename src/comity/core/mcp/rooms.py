"""The names of the rooms that a client may choose among. The core tools are always there."""

from collections.abc import Iterable
from typing import Final

from comity.core.errors import ConfigError

ROOMS: Final = ("vcp", "vacant", "actions", "vdo")


def check_rooms(names: Iterable[str]) -> tuple[str, ...]:
    chosen = tuple(names)
    for name in chosen:
        if name not in ROOMS:
            raise ConfigError(f"--rooms takes {', '.join(ROOMS)}; {name[:60]!r} is none of them")
    return chosen
