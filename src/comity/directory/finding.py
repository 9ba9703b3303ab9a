"""Finding the card that a person names: by a contact, the URL of a node or an endpoint, host:port, an id, or a file.

A URL leads to the card that the node there shows, an id to the card in the directory, a contact to its node or else to the
directory. A card is not trusted: check its
signature before you use it.
"""

import re
import stat
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from comity.contacts.lookup import find_contact
from comity.contacts.protocol.contact import Contact
from comity.directory.client import DirectoryClient
from comity.envelopes.client.routes import pinned
from comity.envelopes.protocol.card import CapabilityCard, deserialize
from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.http.addresses import read_url
from comity.http.client import GuardedHttp, HttpCarrier, HttpResponse
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.system import is_loopback
from comity.terminal.open_target import own_node
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    ConfigError,
    MalformedError,
    NotFoundError,
    PinRefusedError,
    RetryLaterError,
    TargetRefusedError,
    UnusableAnswerError,
)

CARD_PATH: Final = "/card"
CARD_LIMIT: Final = 256 * 1024
STDIN: Final = "-"

_SEND_PATH: Final = "/a2a/message/send"
_URL: Final = re.compile("https?://", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(localhost|[A-Za-z0-9.-]+:\d{1,5}|\[[0-9a-fA-F:.]+\]:\d{1,5})(/\S*)?")
_SHORT_ID: Final = re.compile("(vacant:)?[0-9a-fA-F]{12}")


class CardSource(Protocol):
    """How a card is fetched: the HTTP client, and the directory to ask."""

    @property
    def http(self) -> HttpCarrier: ...

    @property
    def directory_url(self) -> str: ...

    def directory(self) -> DirectoryClient: ...

    async def contact(self, who: str) -> Contact | None: ...


async def find_card(target: str, access: CardSource, *, stdin: bool = False) -> CapabilityCard:
    """Return the card that `target` names, as it was found. With `stdin`, - reads it from standard input."""
    if stdin and target == STDIN:
        return read_card(sys.stdin.buffer.read(CARD_LIMIT + 1), target)
    if _URL.match(target):
        return await card_at(target, access.http)
    vacant_id = id_of(target)
    contact = await access.contact(target)
    if contact is not None:
        return await card_of_contact(contact, access.http, partial(_card_in_directory, access=access))
    if vacant_id is not None:
        return await _card_in_directory(vacant_id, access)
    if is_address(target) and not _is_there(target):
        return await card_at(target, access.http)
    return read_card(_file(target), target)


def is_address(text: str) -> bool:
    """Return whether it can be the URL of a node, or host:port."""
    return (_URL.match(text) or _ADDRESS.fullmatch(text)) is not None


def with_scheme(address: str) -> str:
    """Return the URL of an address as people type it: a node on this machine speaks plain HTTP, any other one TLS."""
    if _URL.match(address):
        return address
    host = address.partition("/")[0].rpartition(":")[0] if ":" in address else address.partition("/")[0]
    return f"{'http' if is_loopback(host.strip('[]')) else 'https'}://{address}"


def read_card(data: bytes, where: str) -> CapabilityCard:
    """Read a card alone, or inside the response of /card. The other members of that response must agree with the
    card.
    """
    if len(data) > CARD_LIMIT:
        raise EnvelopeFormatError(f"{where} is larger than {CARD_LIMIT:,} bytes; it is not a card")
    try:
        members = strict_json.loads(data, unique_keys=True)
    except MalformedError as reason:
        raise EnvelopeFormatError(f"{where} holds no card: it is not JSON ({reason.message})") from None
    if not isinstance(members, dict):
        raise EnvelopeFormatError(f"{where} holds no card: a card is a JSON object")
    blob = members.get("capability_card_blob_hex")
    try:
        if blob is None:
            return deserialize(data)
        card = deserialize(_from_hex(blob))
    except EnvelopeFormatError as reason:
        raise EnvelopeFormatError(f"{where} holds no card: {reason.message}") from None
    _refuse_contradiction(members, card, where)
    return card


async def card_at(address: str, http: HttpCarrier) -> CapabilityCard:
    """Return the card that the node at this address shows of itself. With a pin in the address it is called there."""
    node = with_scheme(address).partition("#")[0].partition("?")[0].rstrip("/")
    node = node.removesuffix(_SEND_PATH).removesuffix(CARD_PATH)
    answer = await http.request("GET", node + CARD_PATH)
    if answer.status != 200:
        raise _no_card(node, answer)
    return pinned(read_card(answer.body, node), [node])


async def card_of_contact(
    contact: Contact, http: HttpCarrier, in_directory: Callable[[VacantId], Awaitable[CapabilityCard]]
) -> CapabilityCard:
    """Return the card of a contact, from its own node if that can be reached, else from the directory."""
    failure: ComityError | None = None
    for address in contact.urls():
        try:
            card = await card_at(address, http)
        except ComityError as reason:
            failure = failure or reason
            continue
        if card.vacant_id.hex() == contact.id:
            return card
        failure = UnusableAnswerError(
            f"{address} is where {contact} was, and {card.vacant_id} answers there now; it was not called"
        )
    try:
        return await in_directory(VacantId.from_hex(contact.id))
    except ComityError:
        if failure is None:
            raise
        raise failure from None


def _no_card(node: str, answer: HttpResponse) -> Exception:
    match answer.status:
        case 401 | 403 | 404 | 405:
            return NotFoundError(
                f"{node} shows no card (status {answer.status}): no agent is served there, "
                "or it is not the address of a node"
            )
        case 429 | 502 | 503 | 504:
            return RetryLaterError(
                f"{node} cannot show its card now (status {answer.status}); try again later"
            )
        case _:
            return UnusableAnswerError(f"{node} answered with status {answer.status} instead of its card")


async def _card_in_directory(vacant_id: VacantId, access: CardSource) -> CapabilityCard:
    directory = access.directory()
    try:
        return await directory.card(vacant_id)
    except NotFoundError:
        raise NotFoundError(
            f"the directory at {access.directory_url} has no card of {vacant_id}; "
            "use another directory with --directory URL, or give the URL of the agent's node"
        ) from None


def _file(name: str) -> bytes:
    try:
        path = Path(name).expanduser()
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{name} is not a file; name a card file")
        with path.open("rb") as file:
            data = file.read(CARD_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError, RuntimeError):
        raise _not_a_target(name) from None
    return data


def _is_there(name: str) -> bool:
    return Path(name).exists()


def _not_a_target(name: str) -> ConfigError:
    if _SHORT_ID.fullmatch(name):
        return ConfigError(
            f"{name} is the short form of an id, which others may share; give all 64 digits "
            "(`comity search … --json` shows them) or the address of the node"
        )
    return ConfigError(
        f"{name[:80]!r} is not a contact, a URL, an id or a file that exists; give the name of a contact, the URL of a node "
        "(http://…), an id of 64 digits, or a card file"
    )


def _refuse_contradiction(members: dict[str, Any], card: CapabilityCard, where: str) -> None:
    said = {
        "vacant_id": card.vacant_id.hex(),
        "capability_text": card.capability_text,
        "endpoint": card.endpoint,
    }
    for name, value in said.items():
        if members.get(name, value) != value:
            raise EnvelopeFormatError(
                f"{where} says one {name} and its signed card says another; neither is believed"
            )


def _from_hex(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise EnvelopeFormatError("capability_card_blob_hex must be hexadecimal digits") from None


class OutgoingHttp(GuardedHttp):
    """A guarded client that says how to allow an address that it refuses."""

    async def request(self, method: str, url: str, *args: Any, **named: Any) -> HttpResponse:
        host = read_url(url).host
        try:
            return await super().request(method, url, *args, **named)
        except PinRefusedError:
            raise
        except TargetRefusedError as refusal:
            written = f"[{host}]" if ":" in host else host
            raise TargetRefusedError(
                f"{refusal.message}; to allow it, add {written} to dispatch.allowed_hosts, "
                f"or set COMITY_DISPATCH_ALLOWED_HOSTS={written}"
            ) from None


class DirectoryAccess:
    """How a command reaches other nodes. Loopback may be called while the node of this folder listens there only (ruling
    12); `dispatch.allowed_hosts` names other addresses that are not public.

    The event loop of a command closes the connections when it ends, so keep this object until then.
    """

    def __init__(self, settings: Settings, key: SigningKey | None = None) -> None:
        """`key` signs requests to a directory, so that it also shows cards that are not public."""
        own = self.own = own_node(settings)
        self._key = key
        self._settings = settings
        self._named = settings.directory.url.rstrip("/")
        self.http = OutgoingHttp(
            allow=settings.dispatch.hosts,
            allow_loopback=is_loopback(read_url(own.url).host if own else settings.host),
            timeout=settings.dispatch.timeout_seconds,
            pinned_private=True,
        )

    async def contact(self, who: str) -> Contact | None:
        """Return the contact of that name or id in the data folder."""
        return await find_contact(self._settings, who)

    @property
    def directory_url(self) -> str:
        if self._named:
            return self._named
        if self.own is None:
            raise ConfigError(
                "no directory is known: give one with --directory URL, set directory.url, "
                "or start a node, which has a directory of its own: `comity up`"
            )
        return self.own.url

    def directory(self) -> DirectoryClient:
        """Return the client of the directory, in the name of the key if there is one."""
        url = self.directory_url
        if self.own is not None and url == self.own.url:
            return DirectoryClient(self.own.http, self.own.base, clock=SystemClock(), key=self._key)
        return DirectoryClient(self.http, url, clock=SystemClock(), key=self._key)
