"""Two books of transfers with a wire between them that a test delivers by hand."""

from comity.rooms.protocol.channel import FileFrame
from comity.rooms.protocol.files import FilePeer, FileSource, FrameToPeer, Report, ToPeer
from comity.rooms.protocol.transfers import FileLimits, SendOptions, Transfers
from comity.wire.machine import CancelTimer, SetTimer
from tests.rooms.protocol.disk import FILE_EFFECTS, Disk

SIDES = ("a", "b")


def other(side):
    return "b" if side == "a" else "a"


class FilePair:
    def __init__(self, *, frames=True, max_message=262_144, limits=None):
        self.now = 0.0
        self.limits = limits or FileLimits()
        self.frames = frames
        self.max_message = max_message
        self.link = 1
        self.disks = {side: Disk() for side in SIDES}
        self.books = {side: self.book() for side in SIDES}
        self.wire = []
        self.timers = {}
        self.events = {side: [] for side in SIDES}
        self.answers_wait = False
        self.waiting = []
        self.answering = False

    def book(self):
        return Transfers(
            self.limits, wall=lambda: 1_800_000_000 + self.now, token=lambda: "0011aabb", envelope_bytes=400
        )

    def peer(self, side, owner=None):
        """How `side` is seen from the other end."""
        return FilePeer(
            uuid=f"{side}{self.link}",
            owner=owner or f"owner {side}",
            stream_id=f"stream_{side}",
            frames=self.frames,
            max_message=self.max_message,
        )

    def send(self, data, side="a", **options):
        transfer_id = options.pop("transfer_id", "file_1")
        self.disks[side].sources[transfer_id] = data
        source = FileSource(kind="spool", total_bytes=len(data), path=f"spool/{transfer_id}")
        outgoing, effects = self.books[side].send(
            source, self.peer(other(side)), SendOptions(transfer_id=transfer_id, **options), self.now
        )
        self.run(side, effects)
        return outgoing

    def run(self, side, effects):
        for effect in effects:
            match effect:
                case ToPeer() | FrameToPeer():
                    if effect.uuid == f"{other(side)}{self.link}":
                        self.wire.append((other(side), effect))
                case SetTimer():
                    self.timers[side, effect.name] = effect.at
                case CancelTimer():
                    self.timers.pop((side, effect.name), None)
                case Report():
                    self.events[side].append((effect.kind, effect.members))
                case _ if isinstance(effect, FILE_EFFECTS):
                    answer = self.disks[side].carry_out(effect)
                    if answer is not None:
                        self.waiting.append((side, answer))
                case _:
                    raise AssertionError(effect)
        if not self.answers_wait and not self.answering:
            self.answer_all()

    def answer_all(self):
        """In the order of the work, as a disk does."""
        self.answering = True
        while self.waiting:
            self.answer_one()
        self.answering = False

    def answer_one(self):
        side, answer = self.waiting.pop(0)
        self.run(side, self.books[side].answer(answer, self.now))

    def handle(self, side, kind, owner=None, **payload):
        self.run(side, self.books[side].receive(self.peer(other(side), owner), kind, payload, self.now))

    def deliver(self, at=0):
        side, effect = self.wire.pop(at)
        self.accept(side, effect)

    def accept(self, side, effect):
        book, peer = self.books[side], self.peer(other(side))
        if isinstance(effect, ToPeer):
            self.run(side, book.receive(peer, effect.kind, effect.payload, self.now))
        else:
            frame = FileFrame(effect.mark, effect.sequence, effect.digest, b"", b"", effect.data)
            self.run(side, book.frame(peer, frame))

    def deliver_all(self):
        while self.wire:
            self.deliver()

    def fire_next(self):
        (side, name), at = min(self.timers.items(), key=lambda timer: timer[1])
        del self.timers[side, name]
        self.now = max(self.now, at)
        self.run(side, self.books[side].timer_fired(name, self.now))

    def settle(self, most=500):
        """Deliver everything, fire timers, until no transfer is under way."""
        for _ in range(most):
            self.deliver_all()
            if all(one.is_over for book in self.books.values() for one in book.outgoing.values()):
                return
            if not self.timers:
                return
            self.fire_next()
        raise AssertionError("the transfers do not come to an end")

    def cut(self):
        self.wire.clear()
        for side in SIDES:
            self.run(side, self.books[side].peer_gone(f"{other(side)}{self.link}"))
        self.link += 1

    def join(self):
        for side in SIDES:
            self.run(side, self.books[side].peer_back(self.peer(other(side)), self.now))

    def crash(self, side):
        """The process dies and comes back with what its disk kept."""
        self.cut()
        disk = self.disks[side]
        disk.crash()
        self.waiting = [(where, answer) for where, answer in self.waiting if where != side]
        self.timers = {key: at for key, at in self.timers.items() if key[0] != side}
        self.books[side] = self.book()
        for (transfer_id, direction), record in list(disk.records.items()):
            if direction == "outgoing":
                self.run(side, self.books[side].restore_outgoing(record, self.now))
            else:
                chunks = disk.chunks[transfer_id]
                self.run(side, self.books[side].restore_incoming(record, chunks, self.now))

    def received(self, side="b", transfer_id="file_1"):
        return bytes(self.disks[side].files[transfer_id])

    def reports(self, side, kind):
        return [members for name, members in self.events[side] if name == kind]
