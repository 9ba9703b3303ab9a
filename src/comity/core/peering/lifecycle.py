"""How a session stays connected to its signalling (peers 6). What is said in it is somebody else's affair.

    idle          start                      -> connecting
    connecting    joined                     -> connected
                  refused, lost              -> reconnecting
    connected     signalling lost            -> reconnecting; links between peers live on
    reconnecting  after the delay            -> connecting
    any           stop                       -> stopped

The delay doubles with each failure up to its maximum, and starts anew after a success.
"""

from collections.abc import Callable
from typing import Any, Final

from comity.core.machine import CancelTimer, Effect, SetTimer
from comity.core.peering.events import iso_moment
from comity.core.peering.file_work import Report

RECONNECT_TIMER: Final = "reconnect"


class OpenSignalling(Effect, frozen=True):
    """Connect, join the room, announce the stream id, view the target; answered by the signalling events."""


class CloseSignalling(Effect, frozen=True):
    pass


class Lifecycle:
    def __init__(self, *, reconnect_ms: int, max_reconnect_ms: int, wall: Callable[[], float]) -> None:
        self._first = reconnect_ms
        self._last = max(reconnect_ms, max_reconnect_ms)
        self._wall = wall
        self._waits = False
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

    def opened(self) -> list[Effect]:
        if self.state != "connecting":
            return []
        self.last_connected_at = self._wall()
        return [Report("connected", {})]

    def ready(self, members: dict[str, Any]) -> list[Effect]:
        if self.state != "connecting":
            return []
        self.state = "connected"
        self.last_ready_at = self.last_connected_at = self._wall()
        self.delay_ms = self._first
        return [Report("ready", members)]

    def lost(self, now: float) -> list[Effect]:
        if self.state not in {"connecting", "connected"}:
            return []
        self.last_disconnected_at = self._wall()
        return [Report("disconnected", {}), *self._schedule("disconnected", now)]

    def failed(self, message: str, now: float) -> list[Effect]:
        if self.state not in {"connecting", "connected"}:
            return []
        self.last_error = message
        return [Report("connect_error", {"message": message}), *self._schedule("connect_error", now)]

    def time_is_up(self) -> list[Effect]:
        if self.state != "reconnecting":
            return []
        self._waits = False
        self.state = "connecting"
        self.reconnect_count += 1
        return [OpenSignalling()]

    def stop(self) -> list[Effect]:
        if self.state == "stopped":
            return []
        self.state = "stopped"
        return [CancelTimer(RECONNECT_TIMER), CloseSignalling(), Report("stopped", {})]

    def _schedule(self, reason: str, now: float) -> list[Effect]:
        self.state = "reconnecting"
        if self._waits:
            return []
        self._waits = True
        delay = self.delay_ms
        self.delay_ms = min(2 * delay, self._last)
        told = Report("reconnect_scheduled", {"reason": reason, "inMs": delay})
        return [told, SetTimer(RECONNECT_TIMER, now + delay / 1000)]

    def members(self) -> dict[str, Any]:
        """Its part of the status (peers 1.5)."""
        return {
            "reconnect_count": self.reconnect_count,
            "reconnect_delay_ms": self.delay_ms,
            "last_ready_at": _shown(self.last_ready_at),
            "last_connected_at": _shown(self.last_connected_at),
            "last_disconnected_at": _shown(self.last_disconnected_at),
        }


def _shown(moment: float | None) -> str | None:
    return None if moment is None else iso_moment(moment)
