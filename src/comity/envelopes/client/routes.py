"""The ways to a target: the endpoint of its card, and the outside doors that the card names with the pin of their key.

- Only a card that its owner signed is believed. Its pin replaces the authority that would vouch for a name.
- A card that was read at an address with a pin is called there and nowhere else: that is the machine that was meant.
- An endpoint of this machine or a private network is tried last, because on another machine it is somebody else's. Of a target
  that the owner did not name, only doors at public addresses are tried.
- A way that cannot be reached, or shows another key, is left for the next one. As nothing was sent there, nothing is sent twice.
"""

from collections.abc import Sequence
from typing import Any, Final

from comity.envelopes.client.calls import callable_endpoint
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.envelope import MESSAGE_SEND_PATH
from comity.http.addresses import kind_of, literal, read_url, with_pin
from comity.http.client import HttpCarrier, HttpResponse
from comity.identity.protocol.pins import PIN
from comity.system import is_loopback
from comity.wire.errors import PinRefusedError, TargetRefusedError, UnreachableError

OUTSIDE_POLICY: Final = "outside"
"""The member of a card's policy that names the outside door: `{"addresses": [URL, …], "pin": HEX}`."""
MAX_DOORS: Final = 8


class PinnedCard(CapabilityCard, frozen=True, kw_only=True):
    """A card whose owner is known to be at some addresses. `via` are its endpoints there, with the pins of their keys."""

    via: tuple[str, ...] = ()


def pinned(card: CapabilityCard, nodes: Sequence[str]) -> CapabilityCard:
    """Return the card with the URLs at which its node was found; those without a pin do not count."""
    via = tuple(node + MESSAGE_SEND_PATH for node in nodes if read_url(node).pin)
    if not via:
        return card
    return PinnedCard(
        vacant_id=card.vacant_id,
        capability_text=card.capability_text,
        substrate_spec=card.substrate_spec,
        halo_version=card.halo_version,
        endpoint=card.endpoint,
        signature=card.signature,
        via=via,
    )


def endpoints_of(card: CapabilityCard, *, named: bool) -> tuple[str, ...]:
    """Return where to call the owner of the card, the best first. `named`: the owner of this node meant this one."""
    endpoint = callable_endpoint(card)
    if isinstance(card, PinnedCard):
        return card.via
    doors = tuple(
        door + MESSAGE_SEND_PATH for door in doors_of(card) if named or _is_public(read_url(door).host)
    )
    if not doors:
        return (endpoint,)
    host = read_url(endpoint).host
    return (*doors, endpoint) if is_loopback(host) or not _is_public(host) else (endpoint, *doors)


def doors_of(card: CapabilityCard) -> tuple[str, ...]:
    """Return the outside doors that a card names, as URLs with a pin. Its signature is checked by the caller."""
    said: Any = card.substrate_spec.policy.get(OUTSIDE_POLICY)
    if not isinstance(said, dict):
        return ()
    pin, addresses = said.get("pin"), said.get("addresses")
    if not isinstance(pin, str) or not PIN.fullmatch(pin) or not isinstance(addresses, list):
        return ()
    return tuple(
        with_pin(each.rstrip("/"), pin)
        for each in addresses[:MAX_DOORS]
        if isinstance(each, str) and _is_door(each)
    )


class AnyOf:
    """Carries requests for a target that has several URLs to the first one that can be reached, and stays there."""

    def __init__(self, http: HttpCarrier, urls: Sequence[str]) -> None:
        self._http = http
        self._urls = list(urls)

    async def request(
        self, method: str, url: str, json: Any = None, headers: Any = None, *, body: bytes | None = None
    ) -> HttpResponse:
        """`url` is the name of the target; it is sent to one of its own."""
        failures: list[UnreachableError | TargetRefusedError] = []
        for way in self._urls:
            try:
                answer = await self._http.request(method, way, json, headers, body=body)
            except (UnreachableError, TargetRefusedError) as failure:
                failures.append(failure)
            else:
                self._urls = [way]
                return answer
        raise next((each for each in failures if isinstance(each, PinRefusedError)), failures[0])


def _is_door(url: str) -> bool:
    try:
        where = read_url(url)
    except TargetRefusedError:
        return False
    return where.scheme == "https" and not where.pin and where.target == "/" and not is_loopback(where.host)


def _is_public(host: str) -> bool:
    address = literal(host)
    return address is not None and kind_of(address) is None
