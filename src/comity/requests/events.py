"""What happens on this node, one event per act, for the page, `comity watch` and the log.

An event says who and what by short ids, names and hashes. It contains no content. The last `KEPT` events are kept. A
reader asks for the events after a number, and learns if some of them are no longer there. Readers wake together, a moment
after the first event, so that many acts cost them little more than one. Numbers start again when the node starts; `run`
is different for each start.

`act_in_words` is what each kind of act is called in plain words.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from comity.bus.in_process import Bus
from comity.store.audit_chain import timestamp

KEPT: Final = 4096
SUBJECT: Final = "events"

_MOMENT: Final = 0.05


class NodeEvent(Struct, frozen=True, omit_defaults=True, gc=False, rename={"feature": "room"}):
    """`kind` is what the audit entry calls the act; `count` is more than 1 for a group of acts."""

    number: int
    time: float
    feature: str
    kind: str
    who: str = ""
    what: str = ""
    request: str = ""
    trace: str = ""
    failed: str = ""
    count: int = 1


def encode(event: NodeEvent) -> bytes:
    """Encode as one line of JSON: the time is RFC 3339, and defaults are left out."""
    return _encode(msgspec.to_builtins(event) | {"time": timestamp(event.time)})


_encode = msgspec.json.Encoder().encode


def merged(events: Sequence[NodeEvent]) -> list[NodeEvent]:
    """Return one event for all of a kind, with their count, as the last of them; `who` only if it is the same in all."""
    alike: dict[tuple[str, str, str], list[NodeEvent]] = {}
    for event in events:
        alike.setdefault((event.feature, event.kind, event.failed), []).append(event)
    return sorted((_as_one(group) for group in alike.values()), key=lambda event: event.number)


def _as_one(alike: list[NodeEvent]) -> NodeEvent:
    last = alike[-1]
    if len(alike) == 1:
        return last
    who = last.who if all(event.who == last.who for event in alike) else ""
    count = sum(event.count for event in alike)
    return NodeEvent(last.number, last.time, last.feature, last.kind, who, failed=last.failed, count=count)


class EventPage(NamedTuple):
    """`reset`: some of the requested events are no longer in the ring."""

    events: Sequence[NodeEvent]
    reset: bool


class Events:
    def __init__(self, bus: Bus) -> None:
        self.run = secrets.token_hex(4)
        self._bus = bus
        self._kept: deque[NodeEvent] = deque(maxlen=KEPT)
        self.last = 0
        self._due: asyncio.Handle | None = None
        self._publishing: set[asyncio.Task[None]] = set()

    def add(
        self,
        time: float,
        feature: str,
        kind: str,
        *,
        who: str = "",
        what: str = "",
        request: str = "",
        trace: str = "",
        failed: str = "",
        count: int = 1,
    ) -> None:
        self.last = number = self.last + 1
        self._kept.append(NodeEvent(number, time, feature, kind, who, what, request, trace, failed, count))
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_MOMENT, self._wake)

    def since(self, number: int, most: int = KEPT) -> EventPage:
        """Return the first `most` events after that number. A number that is too high is from an earlier run and ignored."""
        reset = number > self.last
        wanted = len(self._kept) if reset else self.last - number
        newest_first = [
            *islice(reversed(self._kept), wanted)
        ]  # from the end: most readers have seen nearly all
        return EventPage(newest_first[::-1][:most], reset=reset or wanted > len(self._kept))

    def hints(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield a hint each time that there may be more to read, until the bus closes."""
        return self._bus.listen(SUBJECT)

    async def close(self) -> None:
        """Wake the readers a last time. The bus must be open."""
        if self._due is not None:
            self._due.cancel()
            self._wake()
        await asyncio.gather(*self._publishing)

    def _wake(self) -> None:
        self._due = None
        waking = asyncio.ensure_future(self._bus.publish(SUBJECT, b"%d" % self.last))
        self._publishing.add(waking)
        waking.add_done_callback(self._publishing.discard)


ACT_WORDS: Final = {
    "NODE_STARTED": "the node started",
    "NODE_STOPPED": "the node stopped",
    "TOKEN_MADE": "token for a program made",
    "TOKEN_REVOKED": "token of a program revoked",
    "AUDIT_TREE_BUILT": "the tree over the audit record was built",
    "AUDIT_HEAD": "the head of another chain was entered",
    "STORE_WRITTEN_AGAIN": "the store can be written again",
    "PING_OK": "ping answered",
    "ENVELOPE_OK": "signed call answered",
    "ENVELOPE_FAILED": "signed call failed",
    "ACTIONS_OK": "action run",
    "ACTIONS_FAILED": "action failed",
    "STATE_OK": "state of the agent set",
    "STATE_FAILED": "state of the agent not set",
    "DIRECTORY_PUBLISH_OK": "card published here",
    "DIRECTORY_PUBLISH_FAILED": "card not published",
    "CARD_PUBLISHED": "own card published",
    "CARD_NOT_PUBLISHED": "own card not published",
    "MCP_SESSION_BEGUN": "MCP session began",
    "MCP_SESSION_ENDED": "MCP session ended",
    "MCP_TASK_BEGUN": "task began",
    "MCP_TASK_COMPLETED": "task done",
    "MCP_TASK_FAILED": "task failed",
    "MCP_TASK_CANCELLED": "task cancelled",
    "MCP_TASK_INPUT_REQUIRED": "task waits for input",
    "MCP_TASK_WORKING": "task goes on",
    "HANDSHAKE_ACK": "VCP handshake accepted",
    "HANDSHAKE_ERROR": "VCP handshake refused",
    "SESSION_IMPLICIT": "VCP 1.0 session began",
    "SESSION_ENDED": "VCP session ended",
    "CONTEXT_EXCHANGED": "context received",
    "CONTEXT_REFUSED": "context refused",
    "DELIBERATION_OK": "party answered",
    "DELIBERATION_FAILED": "party not answered",
    "DELIBERATION_OPENED": "vote opened",
    "DELIBERATION_JOINED": "vote joined",
    "DELIBERATION_READ": "entries read",
    "DELIBERATION_WAITING": "vote not delivered yet",
    "DELIBERATION_ACTED": "act is an entry",
    "DELIBERATION_REFUSED": "act refused",
    "DELIBERATION_MOVED": "host has moved",
    "DELIBERATION_REMOVED": "vote removed",
    "DELIBERATION_FRAUD": "conflicting records",
    "LINK_OK": "link to the page made",
    "AGENTS_OK": "agent found or called",
    "CALL_SENT": "call sent",
    "CALL_ANSWERED": "call answered",
    "EXTENSION_OK": "extension used",
    "EXTENSION_FAILED": "extension refused",
    "ROOM_INVITED": "invite made",
    "ROOM_JOINED": "room joined",
    "ROOM_LEFT": "room left",
    "ROOM_PEER_ADMITTED": "peer joined",
    "ROOM_MESSAGE_SENT": "message sent to a peer",
    "ROOM_MESSAGE_SIGNED": "signed message sent",
    "ROOM_MESSAGE_STORED": "message of a peer stored",
    "ROOM_FILE_OFFERED": "file of this machine offered to a peer",
    "ROOM_FILE_SENT": "file sent to a peer",
    "ROOM_FILE_RECEIVED": "file of a peer received",
    "ROOM_FILE_SAVED": "file of a peer saved",
    "ROOM_STATE_SET": "shared state written",
    "REFUSED": "refused",
}
_ENDINGS: Final = {"_OK": "answered", "_FAILED": "failed", "_ADMITTED": "accepted"}


def act_in_words(kind: str, feature: str) -> str:
    """Return what an act is called in plain words. MCP requests have the names of their tools and methods."""
    if kind in ACT_WORDS:
        return ACT_WORDS[kind]
    ending = next((ending for ending in _ENDINGS if kind.endswith(ending)), "")
    if kind.startswith("MCP_") and ending:
        name = kind.removeprefix("MCP_").removesuffix(ending).lower()
        return f"{name} {'called' if ending == '_OK' else _ENDINGS[ending]}"
    if ending:
        return f"{feature.replace('_', ' ')} {_ENDINGS[ending]}"
    return kind.lower().replace("_", " ")
