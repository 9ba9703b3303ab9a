"""One spelling for each value token, for comparing and hashing (vcp 2.1).

The order is the protocol's: NFKC, lower case, no white space around or inside, no dots in a row or at
an end, plain version numbers, prerelease in lower case. The namespace is set aside before the lower
case, because it is written in upper case; it is not repaired either: `:sec` stays wrong.

The text need not be a valid token, before or after: `parse_uvc` tells. Applying it twice changes
nothing. A text that is still not ASCII after NFKC has no canonical form.
"""

import hashlib
import re
import unicodedata
from typing import Final

from comity.core.identity.uvc.errors import UvcLabel, UvcTokenError
from comity.core.identity.uvc.version import read_version

INPUT_LIMIT: Final = 1024

_DOTS: Final = re.compile(r"\.{2,}")


def canonicalise(text: str) -> str:
    if len(text) > INPUT_LIMIT:
        raise UvcTokenError(
            UvcLabel.TOKEN_TOO_LONG, f"only texts of up to {INPUT_LIMIT:,} characters are canonicalised"
        )
    named, colon, namespace = unicodedata.normalize("NFKC", text).partition(":")
    named = "".join(named.lower().split())
    named = _DOTS.sub(".", named).strip(".")
    dotted, at, version = named.partition("@")
    if at:
        named = f"{dotted}@{_plain_version(version)}"
    canonical = f"{named}{colon}{''.join(namespace.split())}"
    if not canonical.isascii():
        raise UvcTokenError(
            UvcLabel.INVALID_SEGMENT, "a token is written in ASCII letters, digits, hyphens and dots"
        )
    return canonical


def same_token(one: str, other: str) -> bool:
    """Whether two spellings name the same token."""
    return canonicalise(one) == canonicalise(other)


def hash_form(text: str) -> str:
    return f"sha256:{hashlib.sha256(canonicalise(text).encode()).hexdigest()}"


def _plain_version(text: str) -> str:
    try:
        return str(read_version(text))
    except UvcTokenError:
        return text
