"""Protocol versions, and the one that is agreed on (vcp 1.5, steps 2 and 3).

- A version is written N.N or N.N.P. The patch is read and counts for nothing.
- Each number has one to nine digits and no leading zero; signs, spaces and other digits are malformed.
- Versions compare as numbers: 3.10 is above 3.9. The order and repeats of a server's list mean nothing.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from comity.wire.errors import ConfigError, MalformedError

MOST_OFFERED: Final = 64

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
    """A server's list as it is configured, in ascending order and each version once."""
    try:
        versions = tuple(sorted({parse(text) for text in texts}))
    except (MalformedError, TypeError):
        raise ConfigError(
            "the server's versions must be a list of texts such as '3.1', without leading zeros"
        ) from None
    if not 1 <= len(versions) <= MOST_OFFERED:
        raise ConfigError(f"a server offers 1 to {MOST_OFFERED} versions, not {len(versions)}")
    return versions


def negotiated(lowest: Version, highest: Version, server: Iterable[Version]) -> Version | None:
    """The highest version that both sides speak, or None."""
    return max((version for version in server if lowest <= version <= highest), default=None)
