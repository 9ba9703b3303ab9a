"""The card of this folder's own agent: what the running node shows, or what the settings would make it."""

from comity.cli.own_node import OwnNode
from comity.cli.own_store import own_key
from comity.clients.finding import CARD_PATH, read_card
from comity.config import Settings
from comity.core.card.card import CapabilityCard
from comity.core.envelope.errors import EnvelopeSignatureError
from comity.core.errors import NotFoundError
from comity.core.wire import strict_json
from comity.doors.a2a.message_send import MESSAGE_SEND_PATH
from comity.pipeline.residence import make_card

_HOW_TO_SERVE = "start one with `comity up --agent echo`, or set agent.behaviour"


async def own_card(settings: Settings, own: OwnNode | None, passphrase_file: str | None) -> CapabilityCard:
    if own is None:
        return _card_to_be(settings, passphrase_file)
    try:
        told = await own.ask("GET", CARD_PATH)
    except NotFoundError:
        raise NotFoundError(f"the node at {own.url} serves no agent; {_HOW_TO_SERVE}") from None
    card = read_card(strict_json.dumps(told), own.url)
    if card.vacant_id.hex() != own.vacant_id or not card.verify():
        raise EnvelopeSignatureError(f"what the node at {own.url} shows is not a card of its own; restart it")
    return card


def _card_to_be(settings: Settings, passphrase_file: str | None) -> CapabilityCard:
    agent = settings.agent
    if not agent.behaviour:
        raise NotFoundError(f"no agent is served here; {_HOW_TO_SERVE}")
    if not settings.port:
        raise NotFoundError(
            "with port 0 the address is known only while the node runs; start it: `comity up`"
        )
    scheme = "https" if settings.tls.cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    endpoint = agent.endpoint or f"{scheme}://{host}:{settings.port}{MESSAGE_SEND_PATH}"
    return make_card(own_key(settings, passphrase_file), agent.offer, endpoint)
