"""A contact, the names that contacts may have, and what unknown callers may do.

- A name is the owner's own word for somebody, and is sent to nobody. Two names that look alike are one name: it is compared in
  its folded form.
- A right is answered with accept, hold (the owner is asked) or refuse. What is not said of a contact is said of unknown
  callers, by the door through which they come.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta, Struct

from comity.wire.errors import InvalidError

Consent = Literal["accept", "hold", "refuse"]
ContactRight = Literal["call", "room", "file", "see", "wake"]
UnknownRule = Literal["by_door", "accept", "hold", "refuse"]

CONSENTS: Final[tuple[Consent, ...]] = get_args(Consent)
CONTACT_RIGHTS: Final[tuple[ContactRight, ...]] = get_args(ContactRight)
RIGHT_MEANINGS: Final[dict[ContactRight, str]] = {
    "call": "call the agent of this node",
    "room": "join rooms of this node",
    "file": "send files",
    "see": "see the card of the agent",
    "wake": "wake a model of this node",
}
COLLECTION: Final = "contacts"
"""Of the documents in the store, which are found by their `NAME_KEY` too."""
NAME_KEY: Final = "name"
MAX_NAME: Final = 64
MAX_ADDRESSES: Final = 16
MAX_ADDRESS_LENGTH: Final = 512
MAX_HOW: Final = 64

_PUNCTUATION: Final = frozenset(" ._-'")
_ID_LIKE: Final = re.compile("[0-9a-f]{12,}")
_PIN: Final = re.compile("[0-9a-f]{64}")
_ADDRESS: Final = re.compile(r"[!-~]+")
_SPACES: Final = re.compile(r"\s+")
_LIKE_LATIN: Final = frozenset(("LATIN", "CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE"))
"""Scripts with letters of the same shape. A name has letters of one of them at most."""
_SHAPES: Final = str.maketrans(
    "аеорсухіјѕһԁԛԝкмтвнпгзбαορνικυτχεηβμγωјʼ’",  # noqa: RUF001 - letters that look like Latin ones
    "aeopcyxijshdqwkmtbhnr36aopvikutxenbuywj''",
)
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Printable characters, says Unicode, that nobody can see. Those of the ranges below are checked by number."""


class ContactRights(Struct, frozen=True, kw_only=True):
    call: Consent = "accept"
    room: Consent = "accept"
    file: Consent = "accept"
    see: Consent = "accept"
    wake: Consent = "refuse"


BLOCKED: Final = ContactRights(call="refuse", room="refuse", file="refuse", see="refuse", wake="refuse")


class Contact(Struct, frozen=True, kw_only=True):
    """`id` is the VacantId in 64 hexadecimal digits, `addresses` are URLs of the node of the contact, `pins` the SHA-256
    fingerprints of the keys of its certificates. `how` says how it became a contact, `since` and `last` are seconds: when it
    became one, and when it was last seen (0: never).
    """

    id: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    name: str
    addresses: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    rights: ContactRights = ContactRights()
    how: str = "added"
    since: float = 0.0
    last: float = 0.0

    def urls(self) -> list[str]:
        """Return the addresses as they are called: with a pin before the host where pins are known (`https://PIN@host`), so that
        nobody else is reached there.
        """
        urls = []
        for address in self.addresses:
            takes_pin = address.startswith("https://") and "@" not in address.split("/")[2]
            pins = self.pins if takes_pin and self.pins else ("",)
            urls += [address.replace("//", f"//{pin}@", 1) if pin else address for pin in pins]
        return urls

    def __str__(self) -> str:
        """Return it as it is shown: the name, and the short id."""
        return f"{self.name} (vacant:{self.id[:12]})"


def checked_name(name: str) -> str:
    """Return the name, or refuse it with the reason."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        raise InvalidError(f"a name must have 1 to {MAX_NAME} characters")
    if wrong := next((each for each in name if not _fits(each)), None):
        raise InvalidError(
            f"a name has letters, digits, spaces and . _ - ' only, and U+{ord(wrong):04X} is none of these"
        )
    if not name[0].isalnum() or name[-1] == " ":
        raise InvalidError("a name must begin with a letter or a digit, and must not end in a space")
    if _ID_LIKE.fullmatch(name.lower()):
        raise InvalidError("that name looks like an id; choose another one")
    if len(scripts := sorted({_script(each) for each in name} & _LIKE_LATIN)) > 1:
        raise InvalidError(f"a name must not mix letters of {' and '.join(each.title() for each in scripts)}")
    return name


def folded(name: str) -> str:
    """Return the form in which names are compared: equal for names that look alike."""
    compared = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return _SPACES.sub(" ", compared.translate(_SHAPES)).strip()


def checked_addresses(addresses: Iterable[str]) -> tuple[str, ...]:
    kept = tuple(dict.fromkeys(addresses))
    if len(kept) > MAX_ADDRESSES:
        raise InvalidError(f"a contact has at most {MAX_ADDRESSES} addresses")
    for each in kept:
        if not isinstance(each, str) or not _ADDRESS.fullmatch(each) or len(each) > MAX_ADDRESS_LENGTH:
            raise InvalidError(
                f"an address must have 1 to {MAX_ADDRESS_LENGTH} visible ASCII characters without spaces"
            )
    return kept


def checked_pins(pins: Iterable[str]) -> tuple[str, ...]:
    kept = tuple(dict.fromkeys(pins))
    if len(kept) > MAX_ADDRESSES:
        raise InvalidError(f"a contact has at most {MAX_ADDRESSES} pins")
    if not all(isinstance(each, str) and _PIN.fullmatch(each) for each in kept):
        raise InvalidError("a pin must be the 64 lower-case hexadecimal digits of a SHA-256")
    return kept


def raises(before: ContactRights, after: ContactRights) -> bool:
    """Return whether a right becomes larger: from refuse to hold, from hold to accept."""
    order = CONSENTS.index
    return any(order(getattr(after, each)) < order(getattr(before, each)) for each in CONTACT_RIGHTS)


def rights_in_words(rights: ContactRights) -> str:
    """Return them for people, those that are equal together."""
    if rights == BLOCKED:
        return "blocked"
    said = []
    for consent in CONSENTS:
        having = [each for each in CONTACT_RIGHTS if getattr(rights, each) == consent]
        if having:
            said.append(f"{consent} {', '.join(having)}")
    return "; ".join(said)


def _fits(character: str) -> bool:
    if character in _PUNCTUATION:
        return True
    if not character.isprintable() or character in _BLANK:
        return False
    number = ord(character)
    if 0xFE00 <= number <= 0xFE0F or 0xE0100 <= number <= 0xE01EF:  # variation selectors
        return False
    return unicodedata.category(character)[0] in "LMN"


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
