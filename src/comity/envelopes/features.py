"""What takes part in signed calls beside the envelope: each feature has one member of `metadata["urn:comity:v1"]`.

A feature never makes a call fail. What goes wrong in it is logged, and the call goes on without its member.
"""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.metadata import MEMBER_BYTES, NO_MEMBERS, is_good
from comity.identity.protocol.keys import VacantId
from comity.wire.errors import ComityError

log = logging.getLogger("comity.envelopes")

_T = TypeVar("_T")

Member = Mapping[str, Any]


class Feature(Protocol):
    """`member` names its member. `unasked`: it adds to replies also where the request came without its member. `introduces`:
    its member is taken from a call that is held too, because it may say who calls. The
    signature of the message was verified before any of this is called; the member itself is a hint of anybody.
    """

    member: str
    unasked: bool
    introduces: bool

    async def to_request(self, card: CapabilityCard) -> Member | None:
        """Return what goes with a request of ours to the owner of the card."""
        ...

    async def to_reply(self, peer: VacantId, given: Member | None, *, known: bool) -> Member | None:
        """Return what goes with our reply to a request that came with `given`. `known`: it is not the first one."""
        ...

    async def take_reply(self, card: CapabilityCard, given: Member) -> None:
        """Take what came with a verified reply of the owner of the card."""
        ...


class Features:
    """The features of a node, in the order of their members."""

    def __init__(self, features: Sequence[Feature] = ()) -> None:
        order = tuple(MEMBER_BYTES)
        self._features = sorted(features, key=lambda feature: order.index(feature.member))
        self.any_unasked = any(feature.unasked for feature in features)

    def __bool__(self) -> bool:
        return bool(self._features)

    async def to_request(self, card: CapabilityCard) -> Mapping[str, Any]:
        members: dict[str, Any] = {}
        for feature in self._features:
            _add(members, feature, await _quietly(feature, feature.to_request(card)))
        return members or NO_MEMBERS

    async def to_reply(self, peer: VacantId, given: Mapping[str, Any], *, known: bool) -> Mapping[str, Any]:
        members: dict[str, Any] = {}
        for feature in self._features:
            asked = given.get(feature.member)
            if asked is not None or feature.unasked:
                _add(members, feature, await _quietly(feature, feature.to_reply(peer, asked, known=known)))
        return members or NO_MEMBERS

    async def take_introduction(self, peer: VacantId, given: Mapping[str, Any]) -> None:
        """Take what a call that is held says of its sender."""
        for feature in self._features:
            if feature.introduces and (member := given.get(feature.member)) is not None:
                await _quietly(feature, feature.to_reply(peer, member, known=False))

    async def take_reply(self, card: CapabilityCard, given: Mapping[str, Any]) -> None:
        for feature in self._features:
            if (member := given.get(feature.member)) is not None:
                await _quietly(feature, feature.take_reply(card, member))


def _add(members: dict[str, Any], feature: Feature, member: Member | None) -> None:
    if member is None:
        return
    if is_good(feature.member, member):
        members[feature.member] = member
    else:
        log.error("a call goes on without its %s: it is no object, or too large", feature.member)


async def _quietly(feature: Feature, work: Awaitable[_T]) -> _T | None:
    try:
        return await work
    except ComityError as reason:
        log.warning("a call goes on without its %s: %s", feature.member, reason)
    except Exception:
        log.exception("a call goes on without its %s", feature.member)
    return None


NO_FEATURES = Features()
