"""A vacant as its own node holds it: identity, logbook, behaviour, substrate, state and card."""

from msgspec import Struct

from comity.core.card.behavior import BehaviorBundle
from comity.core.card.card import CapabilityCard, SubstrateSpec
from comity.core.card.lifecycle import RuntimeState
from comity.core.card.logbook import Logbook
from comity.core.envelope.errors import SignatureVerificationError, TypeIntegrityError
from comity.core.identity.keys import VacantId


class ResidentForm(Struct, kw_only=True):
    """Not frozen: a resident lives. Its state and its card change while it is served."""

    identity: VacantId
    logbook: Logbook
    behavior_bundle: BehaviorBundle
    substrate_spec: SubstrateSpec
    runtime_state: RuntimeState = RuntimeState.LOCAL
    capability_card: CapabilityCard | None = None
    parent_id: VacantId | None = None

    def check(self) -> None:
        """Refuse a form that contradicts itself, and say where."""
        self.logbook.verify_or_raise(self.identity)
        card = self.capability_card
        if card is None:
            return
        if card.vacant_id != self.identity:
            raise TypeIntegrityError(
                f"the card is of {card.vacant_id.short()}, the resident is {self.identity.short()}"
            )
        if not card.verify():
            raise SignatureVerificationError(
                f"the card of {card.vacant_id.short()} is not signed by it; sign it again"
            )
