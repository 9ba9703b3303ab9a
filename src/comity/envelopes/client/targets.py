"""Which agent to call, and whether its card may be used (envelope 4).

A card is not trusted before its signature is verified. The order of the checks is the contract's, and
nothing is sent before the last of them.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from comity.envelopes.protocol.card import CapabilityCard, refuse_control_characters
from comity.envelopes.protocol.envelope import Dialect
from comity.envelopes.protocol.errors import EnvelopeFormatError, EnvelopeSignatureError, TargetNotFoundError

AggregationSearch = Callable[..., Awaitable[Iterable[Any]]]
"""Called as `search(query=…, include_local=False, limit=20)`. A match is a card, or holds one as
`capability_card`."""

SEARCH_LIMIT: Final = 20
DIMENSIONS: Final = ("factual", "logical", "relevance", "honesty", "adoption")


class ReputationOracle(Protocol):
    async def score(self, vacant_id: str, dimensions: Sequence[str], /) -> float: ...


def callable_endpoint(card: CapabilityCard) -> str:
    """Where the owner of the card takes calls."""
    if not card.endpoint:
        raise TargetNotFoundError(f"target {card.vacant_id.short()} has no endpoint URL")
    if not card.verify():
        raise EnvelopeSignatureError(f"target capability card for {card.vacant_id.short()} does not verify")
    refuse_control_characters(card)
    return card.endpoint


def binds_replies(card: CapabilityCard) -> bool:
    """Whether the owner promised that each reply names its request (ruling 6)."""
    return card.substrate_spec.policy.get("bind_replies") is True


def dialect_of(card: CapabilityCard) -> Dialect | None:
    """The dialect that the owner asks to be called in; None when the card does not say."""
    match card.substrate_spec.policy.get("dialect"):
        case "seed":
            return "seed"
        case "selfeval":
            return "selfeval"
        case _:
            return None


async def rank_targets(
    query: str, search: AggregationSearch | None, oracle: ReputationOracle | None
) -> list[CapabilityCard]:
    """Those who offer it, best first: in the order in which they were found, or by their score."""
    if search is None:
        raise TargetNotFoundError("call_capability: aggregation_search is required for discovery")
    matches = await search(query=query, include_local=False, limit=SEARCH_LIMIT)
    cards = [card for card in map(_card_of, matches) if card.endpoint]
    if not cards:
        raise TargetNotFoundError(f"no public vacant offers capability {query!r}")
    if oracle is None:
        return cards
    scores = [await oracle.score(card.vacant_id.hex(), DIMENSIONS) for card in cards]
    order = sorted(range(len(cards)), key=scores.__getitem__, reverse=True)  # stable: ties stay in place
    return [cards[place] for place in order]


def _card_of(match: Any) -> CapabilityCard:
    card = match if isinstance(match, CapabilityCard) else getattr(match, "capability_card", None)
    if not isinstance(card, CapabilityCard):
        raise EnvelopeFormatError(
            f"a search match must be a CapabilityCard or hold one as capability_card, "
            f"not {type(match).__name__}"
        )
    return card
