"""How a session passes messages with receipts between our own nodes, also to those who are absent (ruling 57)."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from comity.identity.protocol.keys import VacantId
from comity.rooms.protocol.admission import RoomPeer
from comity.rooms.protocol.channel import MESSAGE_LIMIT, write_data
from comity.rooms.protocol.files import Report, ToPeer
from comity.rooms.protocol.messages import (
    MAX_READ_TOLD,
    Mail,
    MarkRead,
    MessageInbox,
    MessageKept,
    MessageNotKept,
    MessageOutbox,
)
from comity.rooms.protocol.session_peers import RoomPeers
from comity.wire.errors import InvalidError
from comity.wire.machine import Effect

MAX_KNOWN: Final = 256
MAX_SENDERS: Final = 1024


class MessageExchange:
    """`overhead` is what a sealed envelope takes beside its payload."""

    def __init__(
        self, peers: RoomPeers, own_id: VacantId | None, wall: Callable[[], float], overhead: int
    ) -> None:
        self._peers = peers
        self._overhead = overhead + 256
        self._outbox = MessageOutbox(wall)
        self._inbox = MessageInbox(own_id)
        self._nodes: OrderedDict[str, str] = OrderedDict()
        self._senders: OrderedDict[str, tuple[str, str | None]] = OrderedDict()

    @property
    def nodes(self) -> dict[str, str]:
        """Which node was last seen under which stream id."""
        return dict(self._nodes)

    @property
    def unread(self) -> int:
        return self._inbox.unread

    def status(self, message_id: str, now: float) -> tuple[str, str | None] | None:
        """Return what became of a message that was sent or received, and why; None for an id that is not known."""
        sent = self._outbox.status(message_id, lambda uuid: self._peers.answers(uuid, now))
        received = None if sent is not None else self._inbox.status(message_id)
        return sent if received is None else (received, None)

    def recent(self, most: int, now: float) -> list[tuple[str, str, str | None]]:
        """Return the last messages that were sent: the node, the state and the reason of each."""
        found = []
        for message_id, node in self._outbox.recent()[:most]:
            status = self.status(message_id, now)
            if status is not None:
                found.append((self._names_of(node), *status))
        return found

    def _names_of(self, node: str) -> str:
        names = [name for name, known in self._nodes.items() if known == node]
        return ", ".join(names) or node[:16]

    def absent_node(self, target: Any) -> str | None:
        """Return the node that had this stream id when it was last here."""
        name = self.absent_stream(target)
        return None if name is None else self._nodes.get(name)

    def absent_stream(self, target: Any) -> str | None:
        name = target.get("streamID") if isinstance(target, dict) else target
        return name if isinstance(name, str) else None

    def sender_of(self, message_id: str) -> tuple[str, str | None]:
        """Return the node that a message came from, and its stream id."""
        sender = self._senders.get(message_id)
        if sender is None:
            raise InvalidError(
                f"unknown request_id: {message_id[:128]}; it must be the id of a message that was received"
            )
        return sender

    def check(self, nodes: list[str], body: dict[str, Any]) -> None:
        """Raise InvalidError for what no message can carry, OverloadedError when too much waits already."""
        size = len(write_data(body)) + self._overhead
        for node in nodes:
            peer = self._peers.of_node(node)
            check_fits(size, MESSAGE_LIMIT if peer is None else peer.max_message)
        self._outbox.check_room(len(nodes), size)

    def post(
        self,
        node: str,
        message_id: str,
        body: dict[str, Any],
        re: str | None,
        now: float,
        stream: str | None = None,
    ) -> list[Effect]:
        """Raise as `check` does, before anything has changed. `stream`: where a node has several stream ids."""
        self.check([node], body)
        effects = self._outbox.queue(node, message_id, body, re, stream)
        peer = self._peers.of_node(node, stream)
        if peer is None:
            return [*effects, *self._outbox.watch(now)]
        return [*effects, *self._outbox.send_one(message_id, peer.uuid, now)]

    def receive(
        self, peer: RoomPeer, kind: str, payload: dict[str, Any], size: int, now: float
    ) -> list[Effect]:
        """Handle `msg.data` or `msg.receipt` of a proven node."""
        assert peer.layer is not None
        node = peer.layer.vacant_id.hex()
        if kind == "msg.receipt":
            return self._outbox.receipt(node, payload)
        try:
            mail, effects = self._inbox.receive(node, peer.uuid, payload, size, peer.stream_id)
        except InvalidError as why:
            return self._peers.fault(peer, now, "message_rejected", message_id=None, reason=why.message)
        return self._shown(mail, effects)

    def greeted(self, peer: RoomPeer, now: float) -> list[Effect]:
        """Send what waited for a node that is there now."""
        if peer.layer is None or peer.stream_id is None:
            return []
        node = peer.layer.vacant_id.hex()
        self._nodes[peer.stream_id] = node
        self._nodes.move_to_end(peer.stream_id)
        if len(self._nodes) > MAX_KNOWN:
            self._nodes.popitem(last=False)
        flushed = self._outbox.flush(node, peer.uuid, now, peer.stream_id)
        return [*flushed, *self._tell_read(peer, self._inbox.read_of(node))]

    def kept(self, event: MessageKept) -> list[Effect]:
        mail, effects = self._inbox.kept(event)
        return self._shown(mail, self._with_receipts(effects))

    def not_kept(self, event: MessageNotKept) -> list[Effect]:
        peer = self._peers.of_node(event.node)
        members = {
            "message_id": event.message_id,
            "uuid": None if peer is None else peer.uuid,
            "stream_id": None if peer is None else peer.stream_id,
            "reason": event.reason,
        }
        refused = self._inbox.not_kept(event)
        return [*refused, Report("message_rejected", members)] if refused else []

    def timer_fired(self, now: float) -> list[Effect]:
        return self._outbox.timer_fired(self._uuid_of, now)

    def mark_read(self, events: Iterable[dict[str, Any]]) -> list[Effect]:
        """Note that a model got these events, or a person saw them, and tell the senders of the messages among them."""
        effects: list[Effect] = []
        for event in events:
            if event["type"] == "data_received" and "message_id" in event:
                effects += self._inbox.mark_read(event["vacant_id"], event["message_id"])
        return self._with_receipts(effects)

    def _with_receipts(self, effects: list[Effect]) -> list[Effect]:
        """Add the receipts for what was read and is durable."""
        read: dict[str, list[str]] = {}
        for effect in effects:
            if isinstance(effect, MarkRead):
                read.setdefault(effect.node, []).append(effect.message_id)
        for node, ids in read.items():
            peer = self._peers.of_node(node)
            if peer is not None:
                effects = [*effects, *self._tell_read(peer, ids)]
        return effects

    def _tell_read(self, peer: RoomPeer, ids: list[str]) -> list[Effect]:
        if peer.layer is None or "read" not in peer.layer.receipts:
            return []
        parts = (ids[at : at + MAX_READ_TOLD] for at in range(0, len(ids), MAX_READ_TOLD))
        return [ToPeer(peer.uuid, "msg.receipt", {"ids": part, "status": "read"}) for part in parts]

    def restore(
        self,
        outbox: Iterable[dict[str, Any]],
        inbox: Iterable[dict[str, Any]],
        read_ids: Iterable[tuple[str, str]],
        nodes: Mapping[str, str],
        statuses: Iterable[dict[str, Any]],
        now: float,
    ) -> list[Effect]:
        self._nodes.update(nodes)
        self._outbox.restore(outbox, statuses)
        reports = [self._delivered(mail) for mail in self._inbox.restore(inbox, read_ids)]
        return [*reports, *self._outbox.watch(now)]

    def _uuid_of(self, node: str, stream: str | None) -> str | None:
        peer = self._peers.of_node(node, stream)
        return None if peer is None else peer.uuid

    def _shown(self, mail: Mail | None, effects: list[Effect]) -> list[Effect]:
        return effects if mail is None else [self._delivered(mail), *effects]

    def _delivered(self, mail: Mail) -> Effect:
        self._senders[mail.message_id] = (mail.node, mail.stream)
        if len(self._senders) > MAX_SENDERS:
            self._senders.popitem(last=False)
        peer = self._peers.of_node(mail.node, mail.stream)
        last = next((name for name, node in self._nodes.items() if node == mail.node), None)
        members = {
            "uuid": None if peer is None else peer.uuid,
            "streamID": mail.stream or last,
            "fallback": False,
            "data": mail.data,
            "binaryBase64": None,
            "message_id": mail.message_id,
            "vacant_id": mail.node,
            "signed": mail.signed is not None,
        }
        if mail.re is not None:
            members["re"] = mail.re
        return Report("data_received", members, mail.size, promised=True)


def check_fits(size: int, limit: int) -> None:
    if size > limit:
        raise InvalidError(f"data of {size} bytes exceeds the {limit} bytes of a message: send it as a file")
