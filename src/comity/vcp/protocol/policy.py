"""The settings of a server for negotiation. Settings that break the protocol are refused here.

The hello timer has two to five seconds (vcp 1.9). The timeout of the identity check is shorter, so that the client always
gets an answer within five seconds of its hello.
"""

from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from comity.vcp.protocol import features
from comity.vcp.protocol.injection import Severity
from comity.vcp.protocol.messages import HANDSHAKE_LIMIT, LONGEST_ID
from comity.vcp.protocol.registry import ExtensionRegistry
from comity.vcp.protocol.versions import DEFAULT_VERSIONS, MOST_OFFERED, Version
from comity.wire.errors import ConfigError

IdentityPolicy = Literal["optional", "required", "verified"]

SHORTEST_HELLO_SECONDS = 2.0
ANSWER_SECONDS = 5.0


class ServerPolicy(Struct, frozen=True, kw_only=True):
    """`core_features` are those that run right now, as `features.configured` gives them.

    `identity`: `optional` lets strangers have extensions with a state, for the time of the session;
    `required` does not; `verified` also refuses tokens that nobody vouches for.
    `strict` refuses a hello that names an extension twice.
    """

    core_features: dict[str, bool]
    registry: ExtensionRegistry
    versions: tuple[Version, ...] = DEFAULT_VERSIONS
    identity: IdentityPolicy = "optional"
    environment: str = "development"
    server_id: str | None = None
    strict: bool = False
    scan_threshold: Severity = "medium"
    hello_seconds: float = ANSWER_SECONDS
    identity_seconds: float = 4.5
    idle_seconds: float = 300.0
    message_limit: int = 1_048_576

    def __post_init__(self) -> None:
        force_setattr(self, "core_features", features.configured(self.core_features))
        _within(
            1 <= len(set(self.versions)) <= MOST_OFFERED,
            "versions",
            f"a list of 1 to {MOST_OFFERED} versions",
        )
        _within(self.identity in get_args(IdentityPolicy), "identity", "optional, required or verified")
        _within(self.scan_threshold in get_args(Severity), "scan_threshold", "medium, high or critical")
        _within(
            SHORTEST_HELLO_SECONDS <= self.hello_seconds <= ANSWER_SECONDS,
            "hello_seconds",
            f"from {SHORTEST_HELLO_SECONDS:g} to {ANSWER_SECONDS:g}",
        )
        _within(
            0 < self.identity_seconds < ANSWER_SECONDS,
            "identity_seconds",
            f"above 0 and below {ANSWER_SECONDS:g}",
        )
        _within(0 < self.idle_seconds < float("inf"), "idle_seconds", "above 0")
        _within(self.message_limit >= HANDSHAKE_LIMIT, "message_limit", f"{HANDSHAKE_LIMIT:,} or more")
        if self.server_id is not None:
            _within(0 < len(self.server_id) <= LONGEST_ID, "server_id", f"1 to {LONGEST_ID} characters")

    @property
    def production(self) -> bool:
        return features.is_production(self.environment)

    @property
    def lacks_encryption(self) -> bool:
        """Whether every hello must be refused (vcp 1.5, step 4)."""
        return not self.core_features["encryption"] and self.production


def _within(holds: Any, setting: str, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{setting} must be {allowed}")
