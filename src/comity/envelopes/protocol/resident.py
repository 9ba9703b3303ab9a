"""A vacant as its own node holds it: identity, logbook, behaviour, substrate, state and card."""

from msgspec import Struct
from msgspec.structs import force_setattr

from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from comity.envelopes.protocol.envelope import digest
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    SignatureVerificationError,
    TypeIntegrityError,
)
from comity.envelopes.protocol.lifecycle import RuntimeState
from comity.envelopes.protocol.logbook import Logbook
from comity.identity.protocol.keys import VacantId
from comity.wire.canonical import envelope_form
from comity.wire.errors import MalformedError


class BehaviorBundle(Struct, frozen=True, kw_only=True):
    """What a vacant was told to be: prompt, policy and tools, under one hash (envelope 1.6). The hash is filled in when it
    is left empty, and checked when it is given.
    """

    system_prompt: str = ""
    policy_dsl: str = ""
    tool_whitelist: tuple[str, ...] = ()
    bundle_hash: bytes = b""

    def __post_init__(self) -> None:
        force_setattr(self, "tool_whitelist", tuple(self.tool_whitelist))
        found = self.compute_hash()
        if not self.bundle_hash:
            force_setattr(self, "bundle_hash", found)
        elif self.bundle_hash != found:
            raise TypeIntegrityError(
                "bundle_hash does not fit prompt, policy and tools; leave it out or take the bundle it came with"
            )

    def compute_hash(self) -> bytes:
        """The order of the tools does not matter."""
        try:
            members = {
                "policy_dsl": self.policy_dsl,
                "system_prompt": self.system_prompt,
                "tool_whitelist": sorted(self.tool_whitelist),
            }
            return digest(envelope_form(members))
        except (MalformedError, TypeError) as reason:
            raise EnvelopeFormatError(f"the behaviour bundle cannot be hashed: {reason}") from None


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
