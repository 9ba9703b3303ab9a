"""Messages with receipts between our own nodes (ruling 57): `msg.data` and `msg.receipt`.

- A message is for a node, not for a link. It waits at the sender until the node is there, and is sent again
  until a receipt comes: a limited number, for a limited time.
- The receiver says `stored` only after the message is durable. It remembers their ids, so that a
  message that comes again is receipted again and delivered once.
- A message is shown while it is being made durable. If the process dies before that is done, the sender has no receipt and
  sends it again, under the same id. If it cannot be made durable, it is not refused any more: it may come again, and is
  not shown a second time.
- What is in the inbox and was not read survives a restart.
- A message is `waiting` here, `sent` on a link that is there, then `stored`, and `read` when a model or a person over there
  got it; or it is `refused` or `expired`. What became of it survives a restart on both sides. That it was read is told again
  when the sender is back.
- A signed message is an envelope from the sender's node to ours; its signature is checked before anything is
  kept, its place in the chain when it is stored. So it is shown after that.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct

from comity.envelopes.protocol.chain import (
    PairKey,
    ReplayState,
    check_chain,
    check_stamped_after,
    comes_early,
)
from comity.envelopes.protocol.envelope import (
    VacantEnvelope,
    from_a2a_message,
    recognise,
    signed_envelope,
    to_a2a_message,
)
from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.rooms.protocol.files import Report, ToPeer
from comity.rooms.protocol.loose_values import printable
from comity.wire import strict_json
from comity.wire.canonical import js_stringify
from comity.wire.errors import ComityError, InvalidError, MalformedError, OverloadedError, StoreError
from comity.wire.machine import Effect, Event, SetTimer

# Signed messages as a file that anybody can verify offline: one envelope per line, in the form of the wire.


MAX_LINE_LENGTH: Final = 1024 * 1024


class ExportedMessage(Struct, frozen=True, kw_only=True):
    envelope: VacantEnvelope
    text: str


def export_lines(messages: Iterable[dict[str, Any]]) -> bytes:
    """`messages` are envelopes as they were sent or received."""
    return b"".join(strict_json.dumps(message) + b"\n" for message in messages)


def verify_export(data: bytes) -> list[ExportedMessage]:
    """Return all messages, verified. Raise InvalidError that names the first line that does not hold."""
    tips: dict[PairKey, VacantEnvelope] = {}
    verified: list[ExportedMessage] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE_LENGTH:
            raise InvalidError(f"line {number} is longer than {MAX_LINE_LENGTH:,} bytes")
        try:
            envelope = recognise(from_a2a_message(strict_json.loads(line, unique_keys=True)))
        except ComityError as why:
            raise InvalidError(f"line {number} is no envelope: {why.message}") from None
        if envelope is None:
            raise InvalidError(f"line {number}: the signature does not verify")
        pair = PairKey.from_envelope(envelope)
        last = tips.get(pair)
        if last is not None and not _follows(last, envelope):
            raise InvalidError(f"line {number} does not follow the message before it from the same sender")
        tips[pair] = envelope
        text = "".join(part.text for part in envelope.payload.parts)
        verified.append(ExportedMessage(envelope=envelope, text=text))
    return verified


def _follows(last: VacantEnvelope, envelope: VacantEnvelope) -> bool:
    return envelope.sequence_no == last.sequence_no + 1 and envelope.prev_envelope_hash == last.compute_hash()


MAX_WAITING: Final = 256
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
MAX_WAIT: Final = 86_400.0
MAX_UNREAD: Final = 1024
MAX_UNREAD_BYTES: Final = 4 * 1024 * 1024
MAX_SHARE: Final = 2
"""One node may fill half of the inbox: so others still reach us."""
MAX_NOT_KEPT: Final = 64
MAX_IDS_PER_NODE: Final = 4096
MAX_NODES: Final = 256
MAX_STATUSES: Final = 1024
RESEND_SECONDS: Final = 5.0
MAX_ID_LENGTH: Final = 128
OUTBOX_TIMER: Final = "outbox"
RECEIPTS: Final = ("stored", "refused", "expired")
MAX_READ_TOLD: Final = 256


class KeepMessage(Effect, frozen=True):
    """Make a message durable. For the inbox answered by `MessageKept` or `MessageNotKept`; for a signed message
    that is done in one transaction with its place in the chain.
    """

    box: str
    node: str
    message_id: str
    record: dict[str, Any]


class KeepStatus(Effect, frozen=True):
    """What became of a message of the outbox, from now on. `forget` is the id of an older one whose state may go."""

    message_id: str
    record: dict[str, Any]
    forget: str | None = None


class ForgetMessage(Effect, frozen=True):
    """A message of the outbox that has ended."""

    box: str
    node: str
    message_id: str


class MarkRead(Effect, frozen=True):
    """A message of the inbox was read: its content may go, its id stays for as long as it may come again."""

    node: str
    message_id: str


class MessageKept(Event, frozen=True):
    node: str
    message_id: str


class MessageNotKept(Event, frozen=True):
    """`final` False: it may be taken when it comes again, as with an envelope whose predecessor is missing."""

    node: str
    message_id: str
    reason: str
    final: bool = True
    code: str = ""


def not_kept(message: KeepMessage, why: ComityError, *, early: bool = False) -> MessageNotKept:
    """Answer that a message is not kept. `early`: it is signed, and those before it in its chain are missing. Such a
    message, and one that the disk did not take, may come again; any other is refused for good.
    """
    final = not early and not isinstance(why, StoreError)
    return MessageNotKept(message.node, message.message_id, why.message, final, why.code)


def signed_pair(message: KeepMessage) -> PairKey | None:
    """Return the pair in whose chain a message of the inbox has its place; None for one that is not signed."""
    envelope = message.record.get("envelope")
    return None if envelope is None else PairKey.from_envelope(from_a2a_message(envelope))


def place_signed(
    message: KeepMessage, state: ReplayState, restored_at: datetime | None = None
) -> ReplayState | MessageNotKept:
    """Return the chain after a signed message of the inbox, or why it cannot be kept. `restored_at`: nothing that was signed up
    to then is taken.
    """
    read = from_a2a_message(message.record["envelope"])
    try:
        after = check_chain(state, read)
        if restored_at is not None:
            check_stamped_after(read, restored_at)
    except ComityError as why:
        return not_kept(message, why, early=comes_early(state, read))
    return after


def sign_message(
    data: Any, key: SigningKey, to: VacantId, state: ReplayState, *, idempotency_key: str, seconds: float
) -> tuple[dict[str, Any], ReplayState]:
    """Return an envelope with its place after `state` in the chain of the pair, in the form of the wire, and the chain then.
    `seconds` is wall time.
    """
    envelope = signed_envelope(
        from_vid=key.vacant_id,
        to_vid=to,
        payload=A2AMessage(role="ROLE_USER", parts=(A2APart(text=strict_json.dumps(data).decode()),)),
        sequence_no=state.last_sequence_no + 1,
        prev_envelope_hash=state.chain_tip,
        idempotency_key=idempotency_key,
        timestamp=datetime.fromtimestamp(seconds, UTC),
        signing_key=key,
    )
    return to_a2a_message(envelope), ReplayState(envelope.sequence_no, envelope.compute_hash())


class Waiting(Struct):
    """A message of the outbox. `queued_at` is wall time, `due` monotonic. `stream` is the stream id that it is meant for,
    where a node has several.
    """

    node: str
    message_id: str
    payload: dict[str, Any]
    size: int
    queued_at: float
    due: float = 0.0
    tries: int = 0
    stream: str | None = None
    link: str | None = None


class Ended(Struct, frozen=True):
    """What became of a message that does not wait any more."""

    message_id: str
    node: str
    status: str
    reason: str | None = None


class MessageOutbox:
    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._waiting: dict[str, Waiting] = {}
        self._bytes = 0
        self._ended: OrderedDict[str, Ended] = OrderedDict()
        self._ticking = False

    def __len__(self) -> int:
        return len(self._waiting)

    def status(self, message_id: str, is_alive: Callable[[str], bool]) -> tuple[str, str | None] | None:
        """`waiting`, `sent`, `stored`, `read`, `refused` or `expired`, and why; None for an id that is not known. `is_alive`:
        whether a link answers; what was sent on another one waits again.
        """
        waiting = self._waiting.get(message_id)
        if waiting is not None:
            is_sent = waiting.link is not None and is_alive(waiting.link)
            return ("sent" if is_sent else "waiting"), None
        ended = self._ended.get(message_id)
        return None if ended is None else (ended.status, ended.reason)

    def recent(self) -> list[tuple[str, str]]:
        """Return the ids of messages and their nodes, the newest first."""
        ended = [(one.message_id, one.node) for one in reversed(self._ended.values())]
        return [*((one.message_id, one.node) for one in reversed(self._waiting.values())), *ended]

    def check_room(self, count: int, size: int) -> None:
        """Raise OverloadedError when so many more messages of this size are too many."""
        if len(self._waiting) + count > MAX_WAITING or self._bytes + count * size > MAX_WAITING_BYTES:
            raise OverloadedError(
                f"more than {MAX_WAITING} messages or {MAX_WAITING_BYTES:,} bytes wait for their receipts"
            )

    def queue(
        self, node: str, message_id: str, body: dict[str, Any], re: str | None, stream: str | None = None
    ) -> list[Effect]:
        """`body` is `{"data": ...}` or `{"envelope": ...}`; ask `check_room` before."""
        payload = {"id": message_id, **body, **({} if re is None else {"re": re})}
        size = len(js_stringify(payload))
        waiting = Waiting(node, message_id, payload, size, self._wall(), stream=stream)
        self._waiting[message_id] = waiting
        self._bytes += size
        return [KeepMessage("out", node, message_id, _out_record(waiting))]

    def restore(self, records: Iterable[dict[str, Any]], statuses: Iterable[dict[str, Any]]) -> None:
        for record in statuses:
            one = Ended(record["id"], record["node"], record["status"], record["reason"])
            self._ended[one.message_id] = one
        for record in records:
            waiting = Waiting(
                record["node"],
                record["payload"]["id"],
                record["payload"],
                len(js_stringify(record["payload"])),
                record["queued_at"],
                stream=record.get("stream"),
            )
            self._waiting[waiting.message_id] = waiting
            self._bytes += waiting.size

    def flush(self, node: str, uuid: str, now: float, stream: str | None = None) -> list[Effect]:
        """Send what waits for a node, in order, to this stream id of it. What is meant for another stream id of the node goes
        there, or here when its time is up.
        """
        mine = [
            waiting
            for waiting in self._waiting.values()
            if waiting.node == node and (stream is None or waiting.stream in (None, stream))
        ]
        return [*(self._send(waiting, uuid, now) for waiting in mine), *self.watch(now)]

    def send_one(self, message_id: str, uuid: str, now: float) -> list[Effect]:
        return [self._send(self._waiting[message_id], uuid, now), *self.watch(now)]

    def receipt(self, node: str, payload: dict[str, Any]) -> list[Effect]:
        """End a message. Only the node that it was for can."""
        status = payload.get("status")
        if status == "read":
            return self._were_read(node, payload.get("ids"))
        waiting = self._waiting.get(str(payload.get("id"))[:MAX_ID_LENGTH])
        if waiting is None or waiting.node != node or not waiting.tries or status not in RECEIPTS:
            return []
        reason = payload.get("reason")
        return self._end(waiting, status, printable(reason[:200]) if isinstance(reason, str) else None)

    def _were_read(self, node: str, ids: Any) -> list[Effect]:
        effects: list[Effect] = []
        for message_id in ids[:MAX_READ_TOLD] if type(ids) is list else ():
            waiting = self._waiting.get(message_id) if isinstance(message_id, str) else None
            if waiting is not None and waiting.node == node:  # the receipt before was lost
                effects += self._end(waiting, "read", None)
                continue
            ended = self._ended.get(message_id) if isinstance(message_id, str) else None
            if ended is not None and ended.node == node and ended.status == "stored":
                effects.append(self._became(Ended(message_id, node, "read")))
        return effects

    def timer_fired(self, uuid_of: Callable[[str, str | None], str | None], now: float) -> list[Effect]:
        """Send again what got no receipt, and end what waited too long. `uuid_of` finds a node, and is given the stream
        id where the message is meant for one.
        """
        self._ticking = False
        effects: list[Effect] = []
        for waiting in list(self._waiting.values()):
            if self._wall() - waiting.queued_at > MAX_WAIT:
                effects += self._end(waiting, "expired", "nobody took it in time")
                continue
            uuid = uuid_of(waiting.node, waiting.stream)
            if uuid is not None and waiting.due <= now:
                effects.append(self._send(waiting, uuid, now))
        return [*effects, *self.watch(now)]

    def _send(self, waiting: Waiting, uuid: str, now: float) -> Effect:
        waiting.due = now + RESEND_SECONDS * 2 ** min(waiting.tries, 4)
        waiting.tries += 1
        waiting.link = uuid
        return ToPeer(uuid, "msg.data", waiting.payload)

    def watch(self, now: float) -> list[Effect]:
        """Set the timer that checks what waits."""
        if self._ticking or not self._waiting:
            return []
        self._ticking = True
        return [SetTimer(OUTBOX_TIMER, now + RESEND_SECONDS)]

    def _end(self, waiting: Waiting, status: str, reason: str | None) -> list[Effect]:
        del self._waiting[waiting.message_id]
        self._bytes -= waiting.size
        ended = Ended(waiting.message_id, waiting.node, status, reason)
        members = {"message_id": waiting.message_id, "status": status, "reason": reason}
        return [
            ForgetMessage("out", waiting.node, waiting.message_id),
            self._became(ended),
            Report("message_status", members),
        ]

    def _became(self, ended: Ended) -> Effect:
        self._ended[ended.message_id] = ended
        forget = None
        if len(self._ended) > MAX_STATUSES:
            forget, _ = self._ended.popitem(last=False)
        record = {"id": ended.message_id, "node": ended.node, "status": ended.status, "reason": ended.reason}
        return KeepStatus(ended.message_id, record, forget)


class Mail(Struct, frozen=True, kw_only=True):
    """A message that was taken in; `signed` is its envelope as it came, `stream` the stream id that it came from."""

    node: str
    message_id: str
    data: Any
    re: str | None
    signed: dict[str, Any] | None
    size: int
    stream: str | None = None

    def record(self) -> dict[str, Any]:
        body: dict[str, Any] = {"data": self.data} if self.signed is None else {"envelope": self.signed}
        if self.stream is not None:
            body["stream"] = self.stream
        return {"node": self.node, "id": self.message_id, "re": self.re, "size": self.size, **body}


class _Keeping(NamedTuple):
    """A message that is being made durable. `uuid` is where its receipt goes."""

    mail: Mail
    uuid: str
    is_shown: bool


class _Held(Struct):
    """What one node has in the inbox that was not read."""

    count: int = 0
    size: int = 0


class MessageInbox:
    def __init__(self, own_id: VacantId | None) -> None:
        self._own_id = own_id
        self._unread: dict[tuple[str, str], Mail] = {}
        self._keeping: dict[tuple[str, str], _Keeping] = {}
        self._not_kept: set[tuple[str, str]] = set()
        self._held: dict[str, _Held] = {}
        self._known_ids: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._read_ids: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    @property
    def unread(self) -> int:
        return len(self._unread)

    def status(self, message_id: str) -> str | None:
        """Return `stored` for a message that was not read, `read` for one that was; None for an id that is not known."""
        if any(known == message_id for _, known in self._unread):
            return "stored"
        return "read" if any(message_id in ids for ids in self._known_ids.values()) else None

    def read_of(self, node: str) -> list[str]:
        """Return the ids of the last messages of a node that were read."""
        return list(self._read_ids.get(node, ()))

    def receive(
        self, node: str, uuid: str, payload: dict[str, Any], size: int, stream: str | None = None
    ) -> tuple[Mail | None, list[Effect]]:
        """Handle a `msg.data` of a proven node. The mail is to be shown now."""
        message_id = payload.get("id")
        if not isinstance(message_id, str) or not 0 < len(message_id) <= MAX_ID_LENGTH:
            raise InvalidError("a message needs an id of 1 to 128 characters")
        key = (node, message_id)
        if message_id in self._known_ids.get(node, ()):
            return None, [_receipt(uuid, message_id, "stored")]
        if key in self._keeping:
            return None, []
        try:
            mail = self._read(node, message_id, payload, size, stream)
        except (InvalidError, MalformedError, EnvelopeFormatError) as why:
            return None, [_receipt(uuid, message_id, "refused", why.message)]
        was_shown = key in self._not_kept
        is_known = key in self._unread
        full = None if is_known else self._full(node, size)
        if full is not None:
            return None, [] if was_shown else [_receipt(uuid, message_id, "refused", full)]
        show = not was_shown and mail.signed is None and len(self._not_kept) < MAX_NOT_KEPT
        self._not_kept.discard(key)
        if not is_known:
            self._hold(node, size)
        self._keeping[key] = _Keeping(mail, uuid, show or was_shown)
        if show:
            self._unread[key] = mail
        return mail if show else None, [KeepMessage("in", node, message_id, mail.record())]

    def kept(self, event: MessageKept) -> tuple[Mail | None, list[Effect]]:
        """Send the receipt of a message that is durable, and show it if it was not shown."""
        key = (event.node, event.message_id)
        found = self._keeping.pop(key, None)
        if found is None:
            return None, []
        self._remember(*key)
        receipt = _receipt(found.uuid, event.message_id, "stored")
        if not found.is_shown:
            self._unread[key] = found.mail
            return found.mail, [receipt]
        if key in self._unread:
            return None, [receipt]
        self._let_go(found.mail)
        return None, [self._was_read(*key), receipt]

    def not_kept(self, event: MessageNotKept) -> list[Effect]:
        key = (event.node, event.message_id)
        found = self._keeping.pop(key, None)
        if found is None:
            return []
        if key not in self._unread:
            self._let_go(found.mail)
        if found.is_shown:
            self._not_kept.add(key)
            return []
        return [_receipt(found.uuid, event.message_id, "refused", event.reason)] if event.final else []

    def mark_read(self, node: str, message_id: str) -> list[Effect]:
        key = (node, message_id)
        mail = self._unread.pop(key, None)
        if mail is None or key in self._keeping:  # then `kept` marks it
            return []
        self._let_go(mail)
        return [] if key in self._not_kept else [self._was_read(node, message_id)]

    def restore(self, records: Iterable[dict[str, Any]], read_ids: Iterable[tuple[str, str]]) -> list[Mail]:
        """Restore the unread messages, and the ids of those that were read."""
        for node, message_id in read_ids:
            self._remember(node, message_id)
            self._was_read(node, message_id)
        restored = []
        for record in records:
            payload = {"re": record["re"]} | {
                name: record[name] for name in ("data", "envelope") if name in record
            }
            mail = self._read(record["node"], record["id"], payload, record["size"], record.get("stream"))
            self._unread[mail.node, mail.message_id] = mail
            self._hold(mail.node, mail.size)
            self._remember(mail.node, mail.message_id)
            restored.append(mail)
        return restored

    def _read(
        self, node: str, message_id: str, payload: dict[str, Any], size: int, stream: str | None
    ) -> Mail:
        re = payload.get("re")
        if re is not None and (not isinstance(re, str) or len(re) > MAX_ID_LENGTH):
            raise InvalidError("re must be the id of a message")
        envelope = payload.get("envelope")
        data = payload.get("data", UNSET)
        if envelope is not None:
            _, data = read_signed(envelope, sender=node, receiver=self._own_id)
        if data is UNSET:
            raise InvalidError("a message carries data or an envelope")
        return Mail(
            node=node, message_id=message_id, data=data, re=re, signed=envelope, size=size, stream=stream
        )

    def _full(self, node: str, size: int) -> str | None:
        """Return why the inbox takes no message of this size from a node now."""
        count = sum(one.count for one in self._held.values())
        total = sum(one.size for one in self._held.values())
        if count >= MAX_UNREAD or total + size > MAX_UNREAD_BYTES:
            return "the inbox is full"
        mine = self._held.get(node, _Held())
        if mine.count >= MAX_UNREAD // MAX_SHARE or mine.size + size > MAX_UNREAD_BYTES // MAX_SHARE:
            return "too many of your messages were not read here yet"
        return None

    def _hold(self, node: str, size: int, sign: int = 1) -> None:
        held = self._held.setdefault(node, _Held())
        held.count += sign
        held.size += sign * size
        if not held.count:
            del self._held[node]

    def _let_go(self, mail: Mail) -> None:
        self._hold(mail.node, mail.size, -1)

    def _was_read(self, node: str, message_id: str) -> Effect:
        _add(self._read_ids, node, message_id, MAX_READ_TOLD)
        return MarkRead(node, message_id)

    def _remember(self, node: str, message_id: str) -> None:
        _add(self._known_ids, node, message_id, MAX_IDS_PER_NODE)


def _add(known: OrderedDict[str, OrderedDict[str, None]], node: str, message_id: str, most: int) -> None:
    ids = known.setdefault(node, OrderedDict())
    known.move_to_end(node)
    ids[message_id] = None
    if len(ids) > most:
        ids.popitem(last=False)
    if len(known) > MAX_NODES:
        known.popitem(last=False)


def read_signed(envelope: Any, *, sender: str, receiver: VacantId | None) -> tuple[VacantEnvelope, Any]:
    """Return the envelope and its data, if `sender` signed it for `receiver`. Raise a ComityError otherwise."""
    read = recognise(from_a2a_message(envelope))
    if read is None:
        raise InvalidError("the signature of the envelope does not verify")
    if read.from_vacant_id.hex() != sender:
        raise InvalidError("the envelope is of another node than the one that sent it")
    if receiver is not None and read.to_vacant_id != receiver:
        raise InvalidError("the envelope is for another node")
    parts = read.payload.parts
    if len(parts) != 1:
        raise InvalidError("a signed message has exactly one text part")
    return read, strict_json.loads(parts[0].text.encode("utf-8", "surrogatepass"), lone_surrogates=True)


def _receipt(uuid: str, message_id: str, status: str, reason: str | None = None) -> Effect:
    payload = {"id": message_id, "status": status, **({} if reason is None else {"reason": reason})}
    return ToPeer(uuid, "msg.receipt", payload)


def _out_record(waiting: Waiting) -> dict[str, Any]:
    record = {"node": waiting.node, "payload": waiting.payload, "queued_at": waiting.queued_at}
    return record if waiting.stream is None else {**record, "stream": waiting.stream}
