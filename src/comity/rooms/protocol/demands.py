"""What a node or a connection demands of peers that join its sessions. Two sets of demands add up."""

from msgspec import Struct

from comity.wire.errors import ConfigError, ForbiddenError


class Demands(Struct, frozen=True, kw_only=True):
    """No stream ids named: every peer may join. The secret is what join tokens are made and checked with; an
    empty one is none.
    """

    join_token_secret: str | None = None
    enforce_join_token: bool = False
    require_session_mac: bool = False
    allow_peer_stream_ids: tuple[str, ...] = ()

    @property
    def hello_first(self) -> bool:
        """Whether a peer is heard only after its hello has passed."""
        return self.enforce_join_token or self.require_session_mac or bool(self.allow_peer_stream_ids)

    def check(self) -> None:
        if self.enforce_join_token and not self.join_token_secret:
            raise ConfigError("--enforce-join-token needs a --join-token-secret to check tokens with")

    def tightened(self, more: "Demands") -> "Demands":
        """Both sets at once: what either demands is demanded (ruling 29)."""
        allowed = self.allow_peer_stream_ids or more.allow_peer_stream_ids
        if self.allow_peer_stream_ids and more.allow_peer_stream_ids:
            allowed = tuple(name for name in allowed if name in more.allow_peer_stream_ids)
            if not allowed:
                raise ForbiddenError("no peer is allowed by both the node and this connection")
        mine, theirs = self.join_token_secret, more.join_token_secret
        if mine and theirs and mine != theirs:
            raise ForbiddenError(
                "the node checks join tokens with another secret; leave --join-token-secret out"
            )
        return Demands(
            join_token_secret=mine or theirs or None,
            enforce_join_token=self.enforce_join_token or more.enforce_join_token,
            require_session_mac=self.require_session_mac or more.require_session_mac,
            allow_peer_stream_ids=allowed,
        )
