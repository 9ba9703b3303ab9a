"""What a vacant was told to be: prompt, policy and tools, under one hash (envelope 1.6)."""

from msgspec import Struct
from msgspec.structs import force_setattr

from comity.core.envelope.envelope import digest
from comity.core.envelope.errors import EnvelopeFormatError, TypeIntegrityError
from comity.core.errors import MalformedError
from comity.core.wire.canonical import envelope_form


class BehaviorBundle(Struct, frozen=True, kw_only=True):
    """The hash is filled in when it is left empty, and checked when it is given."""

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
            return digest(
                envelope_form(
                    {
                        "policy_dsl": self.policy_dsl,
                        "system_prompt": self.system_prompt,
                        "tool_whitelist": sorted(self.tool_whitelist),
                    }
                )
            )
        except (MalformedError, TypeError) as reason:
            raise EnvelopeFormatError(f"the behaviour bundle cannot be hashed: {reason}") from None
