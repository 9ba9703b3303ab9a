"""The states of a session (peers 6). How its signalling comes back is the signalling's own affair; it says when.

idle          start                 -> connecting
connecting    the room is joined    -> connected
no way to it          -> reconnecting
connected     signalling lost       -> reconnecting; links between peers live on
reconnecting  the room is joined    -> connected
any           stop                  -> stopped
"""

from collections.abc import Callable
from typing import Any

from comity.rooms.protocol.events import moment_or_none
from comity.rooms.protocol.files import Report
from comity.wire.machine import Effect


class OpenSignalling(Effect, frozen=True):
    """Join the room, announce the stream id, view the target, and come back whenever the connection is lost."""


class CloseSignalling(Effect, frozen=True):
    pass


class Lifecycle:
    def __init__(self, *, reconnect_ms: int, wall: Callable[[], float]) -> None:
        self._first_ms = reconnect_ms
        self._wall = wall
        self.state = "idle"
        self.delay_ms = reconnect_ms
        self.reconnect_count = 0
        self.last_error: str | None = None
        self.last_ready_at: float | None = None
        self.last_connected_at: float | None = None
        self.last_disconnected_at: float | None = None

    def start(self) -> list[Effect]:
        if self.state != "idle":
            return []
        self.state = "connecting"
        return [OpenSignalling()]

    def ready(self, members: dict[str, Any]) -> list[Effect]:
        if self.state not in {"connecting", "reconnecting"}:
            return []
        self.state = "connected"
        self.last_ready_at = self.last_connected_at = self._wall()
        self.delay_ms = self._first_ms
        return [Report("connected", {}), Report("ready", members)]

    def lost(self, reason: str, retry_in: float) -> list[Effect]:
        """`retry_in` is in seconds."""
        if self.state in {"idle", "stopped"}:
            return []
        if self.state == "connected":
            self.last_disconnected_at = self._wall()
            told, why = Report("disconnected", {}), "disconnected"
        else:
            told, why = Report("connect_error", {"message": reason}), "connect_error"
        self.state = "reconnecting"
        self.last_error = reason
        self.reconnect_count += 1
        self.delay_ms = round(retry_in * 1000)
        return [told, Report("reconnect_scheduled", {"reason": why, "inMs": self.delay_ms})]

    def stop(self) -> list[Effect]:
        if self.state == "stopped":
            return []
        self.state = "stopped"
        return [CloseSignalling(), Report("stopped", {})]

    def members(self) -> dict[str, Any]:
        """Its part of the status (peers 1.5)."""
        return {
            "reconnect_count": self.reconnect_count,
            "reconnect_delay_ms": self.delay_ms,
            "last_ready_at": moment_or_none(self.last_ready_at),
            "last_connected_at": moment_or_none(self.last_connected_at),
            "last_disconnected_at": moment_or_none(self.last_disconnected_at),
        }
