"""Messages with receipts: each is delivered once, and a receipt is never said too early."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from comity.rooms.protocol.files import Report, ToPeer
from comity.rooms.protocol.messages import (
    MAX_IDS_PER_NODE,
    MAX_NOT_KEPT,
    MAX_SHARE,
    MAX_STATUSES,
    MAX_UNREAD,
    MAX_WAIT,
    MAX_WAITING,
    ForgetMessage,
    KeepMessage,
    KeepStatus,
    MarkRead,
    MessageInbox,
    MessageKept,
    MessageNotKept,
    MessageOutbox,
)
from comity.wire.errors import InvalidError, OverloadedError

NODE = "aa" * 32


def outbox(wall=None):
    return MessageOutbox(wall or (lambda: 0.0))


def state(box, message_id, links=("u",)):
    return box.status(message_id, lambda uuid: uuid in links)


def payloads(effects):
    return [effect.payload for effect in effects if isinstance(effect, ToPeer)]


def test_a_message_waits_is_sent_and_ends_with_its_receipt():
    box = outbox()
    [kept] = box.queue(NODE, "m1", {"data": None}, None)
    assert isinstance(kept, KeepMessage)
    assert state(box, "m1") == ("waiting", None)
    assert payloads(box.flush(NODE, "u", 0)) == [{"id": "m1", "data": None}]
    assert state(box, "m1") == ("sent", None)
    effects = box.receipt(NODE, {"id": "m1", "status": "stored"})
    assert isinstance(effects[0], ForgetMessage)
    assert effects[1] == KeepStatus("m1", {"id": "m1", "node": NODE, "status": "stored", "reason": None})
    assert effects[2] == Report("message_status", {"message_id": "m1", "status": "stored", "reason": None})
    assert state(box, "m1") == ("stored", None)
    assert box.receipt(NODE, {"id": "m1", "status": "refused"}) == []


def test_what_was_sent_on_a_link_that_does_not_answer_waits_again():
    box = outbox()
    box.queue(NODE, "m1", {"data": 1}, None)
    box.flush(NODE, "u", 0)
    assert state(box, "m1", links=()) == ("waiting", None)
    box.flush(NODE, "v", 1)
    assert state(box, "m1", links=("v",)) == ("sent", None)


def test_a_message_is_read_after_it_was_stored_and_only_its_node_says_so():
    box = outbox()
    for number in range(3):
        box.queue(NODE, f"m{number}", {"data": 1}, None)
    box.flush(NODE, "u", 0)
    box.receipt(NODE, {"id": "m0", "status": "stored"})
    read = {"ids": ["m0", "m1", "m7", 5, None], "status": "read"}
    assert box.receipt("bb" * 32, read) == []
    kinds = [type(effect).__name__ for effect in box.receipt(NODE, read)]
    assert kinds == ["KeepStatus", "ForgetMessage", "KeepStatus", "Report"]
    assert [state(box, f"m{number}")[0] for number in range(3)] == ["read", "read", "sent"]
    assert box.receipt(NODE, read) == []
    for ids in (None, "m2", {}, [["m2"]]):
        assert box.receipt(NODE, {"ids": ids, "status": "read"}) == []


def test_what_became_of_a_message_is_known_after_a_restart():
    before, after = outbox(), outbox()
    for name in ("m1", "m2"):
        before.queue(NODE, name, {"data": 1}, None)
    before.flush(NODE, "u", 0)
    kept = [*before.receipt(NODE, {"id": "m1", "status": "refused", "reason": "no"})]
    kept += before.receipt(NODE, {"id": "m2", "status": "stored"})
    after.restore([], [effect.record for effect in kept if isinstance(effect, KeepStatus)])
    assert [state(after, name) for name in ("m1", "m2")] == [("refused", "no"), ("stored", None)]
    assert after.receipt(NODE, {"ids": ["m2"], "status": "read"})


@pytest.mark.parametrize(
    ("node", "payload"),
    [
        ("bb" * 32, {"id": "m1", "status": "stored"}),
        (NODE, {"id": "m2", "status": "stored"}),
        (NODE, {"id": "m1", "status": "perhaps"}),
        (NODE, {"id": ["m1"], "status": "stored"}),
        (NODE, {}),
    ],
)
def test_a_receipt_that_is_not_ours_changes_nothing(node, payload):
    box = outbox()
    box.queue(NODE, "m1", {"data": 1}, None)
    box.flush(NODE, "u", 0)
    assert box.receipt(node, payload) == []
    assert state(box, "m1") == ("sent", None)


def test_nothing_is_receipted_that_was_not_sent():
    box = outbox()
    box.queue(NODE, "m1", {"data": 1}, None)
    assert box.receipt(NODE, {"id": "m1", "status": "stored"}) == []


def test_without_a_receipt_it_is_sent_again_each_time_later():
    box = outbox()
    box.queue(NODE, "m1", {"data": 1}, None)
    box.flush(NODE, "u", 0)
    sent = [
        second for second in range(5, 400, 5) if payloads(box.timer_fired(lambda _node, _stream: "u", second))
    ]
    assert sent == [5, 15, 35, 75, 155, 235, 315, 395]


def test_the_outbox_is_limited_in_number_and_time():
    now = [0.0]
    box = outbox(lambda: now[0])
    for number in range(MAX_WAITING):
        box.check_room(1, 10)
        box.queue(NODE, f"m{number}", {"data": 1}, None)
    with pytest.raises(OverloadedError):
        box.check_room(1, 10)
    now[0] = MAX_WAIT + 1
    result = [
        effect for effect in box.timer_fired(lambda _node, _stream: None, 0) if isinstance(effect, Report)
    ]
    assert {report.members["status"] for report in result} == {"expired"}
    assert len(box) == 0
    assert state(box, "m5") == ("expired", "nobody took it in time")
    with pytest.raises(OverloadedError):
        box.check_room(1, 5_000_000)


def test_old_statuses_are_forgotten():
    box = outbox()
    for number in range(MAX_STATUSES + 5):
        box.queue(NODE, f"m{number}", {"data": 1}, None)
        box.flush(NODE, "u", 0)
        box.receipt(NODE, {"id": f"m{number}", "status": "stored"})
    assert state(box, "m0") is None
    assert state(box, "m9") is not None


def taken(inbox, message_id="m1", **payload):
    """What is shown at once, and the effects."""
    payload = payload or {"data": 1}
    mail, effects = inbox.receive(NODE, "u", {"id": message_id, **payload}, 10)
    return (None if mail is None else mail.data), effects


STORED = {"id": "m1", "status": "stored"}


def test_it_is_shown_at_once_and_stored_is_said_after_it_was_kept():
    inbox = MessageInbox(None)
    shown, [kept] = taken(inbox)
    assert shown == kept.record["data"] == 1
    assert taken(inbox) == (None, [])
    mail, effects = inbox.kept(MessageKept(NODE, "m1"))
    assert mail is None
    assert payloads(effects) == [STORED]
    assert payloads(taken(inbox)[1]) == [STORED]
    assert inbox.kept(MessageKept(NODE, "m1")) == (None, [])
    assert inbox.mark_read(NODE, "m1") == [MarkRead(NODE, "m1")]
    assert inbox.mark_read(NODE, "m1") == []
    assert payloads(taken(inbox)[1]) == [STORED]


def test_what_was_read_before_it_was_kept_is_marked_as_read_afterwards():
    inbox = MessageInbox(None)
    taken(inbox)
    assert inbox.mark_read(NODE, "m1") == []
    _, [marked, receipt] = inbox.kept(MessageKept(NODE, "m1"))
    assert marked == MarkRead(NODE, "m1")
    assert payloads([receipt]) == [STORED]


@pytest.mark.parametrize("read_first", [True, False])
def test_what_was_shown_and_could_not_be_kept_is_not_refused_and_not_shown_again(read_first):
    inbox = MessageInbox(None)
    taken(inbox)
    assert not read_first or inbox.mark_read(NODE, "m1") == []
    assert inbox.not_kept(MessageNotKept(NODE, "m1", "disk full")) == []
    assert read_first or inbox.mark_read(NODE, "m1") == []
    shown, [kept] = taken(inbox)
    assert shown is None
    assert isinstance(kept, KeepMessage)
    mail, effects = inbox.kept(MessageKept(NODE, "m1"))
    assert mail is None
    assert effects[0] == MarkRead(NODE, "m1")
    assert payloads(effects) == [STORED]


def test_where_much_was_not_kept_a_message_is_shown_after_it_was_kept_or_refused():
    inbox = MessageInbox(None)
    for number in range(MAX_NOT_KEPT):
        taken(inbox, f"lost{number}")
        inbox.not_kept(MessageNotKept(NODE, f"lost{number}", "disk full"))
    assert taken(inbox)[0] is None
    assert inbox.kept(MessageKept(NODE, "m1"))[0].data == 1
    taken(inbox, "m2")
    assert payloads(inbox.not_kept(MessageNotKept(NODE, "m2", "no"))) == [
        {"id": "m2", "status": "refused", "reason": "no"}
    ]
    taken(inbox, "m2")
    assert inbox.not_kept(MessageNotKept(NODE, "m2", "gap", final=False)) == []
    assert len(taken(inbox, "m2")[1]) == 1


def test_the_share_of_a_node_is_full_of_what_is_not_read_or_not_kept():
    inbox = MessageInbox(None)
    for number in range(MAX_UNREAD // MAX_SHARE):
        taken(inbox, f"x{number}")
    reason = "too many of your messages were not read here yet"
    full = [{"id": "m1", "status": "refused", "reason": reason}]
    assert payloads(taken(inbox)[1]) == full
    inbox.mark_read(NODE, "x0")
    assert payloads(taken(inbox)[1]) == full
    inbox.kept(MessageKept(NODE, "x0"))
    assert taken(inbox)[0] == 1
    inbox.kept(MessageKept(NODE, "x1"))
    assert payloads(taken(inbox, "m2")[1])[0]["status"] == "refused"
    inbox.mark_read(NODE, "x1")
    assert taken(inbox, "m2")[0] == 1


def test_a_node_that_has_filled_its_share_of_the_inbox_keeps_nobody_else_out():
    inbox = MessageInbox(None)
    for number in range(2 * MAX_UNREAD):
        taken(inbox, f"x{number}")
    [_, kept] = [*inbox.receive("bb" * 32, "other", {"id": "m1", "data": 1}, 10)]
    assert [effect.node for effect in kept] == ["bb" * 32]


@pytest.mark.parametrize(
    "payload",
    [{"re": 5, "data": 1}, {"envelope": {}}, {"envelope": 5}, {"nothing": 1}, {"re": "x" * 200, "data": 1}],
)
def test_a_message_that_cannot_be_read_is_refused_with_a_reason(payload):
    [result] = payloads(taken(MessageInbox(None), **payload)[1])
    assert result["status"] == "refused"
    assert result["reason"]


@pytest.mark.parametrize("message_id", ["", "x" * 129, None, 5])
def test_a_message_needs_an_id(message_id):
    with pytest.raises(InvalidError, match="id of 1 to 128"):
        taken(MessageInbox(None), message_id)


def test_ids_that_were_had_are_remembered_within_a_limit():
    inbox = MessageInbox(None)
    inbox.restore([], [(NODE, f"m{number}") for number in range(MAX_IDS_PER_NODE + 1)])
    assert payloads(taken(inbox, "m5")[1])[0]["status"] == "stored"
    assert isinstance(taken(inbox, "m0")[1][0], KeepMessage)


class TwoBoxes(RuleBasedStateMachine):
    """One sender, one receiver, both with durable records, and a wire that loses and doubles. What is shown is read at
    once or later; who dies between showing and keeping is shown it again.
    """

    @initialize()
    def begin(self):
        self.now = 0.0
        self.records = {"out": {}, "in": {}}
        self.read_ids = set()
        self.sender, self.receiver = outbox(), MessageInbox(None)
        self.forth, self.back, self.disk = [], [], []
        self.unread, self.shown = [], set()
        self.delivered, self.stored, self.sent = {}, set(), 0
        self.may_come_again = Counter()

    def do_sender(self, effects):
        for effect in effects:
            if isinstance(effect, ToPeer):
                self.forth.append(effect.payload)
            elif isinstance(effect, KeepMessage):
                self.records["out"][effect.message_id] = effect.record
            elif isinstance(effect, ForgetMessage):
                del self.records["out"][effect.message_id]
            elif isinstance(effect, Report) and effect.members["status"] == "stored":
                self.stored.add(effect.members["message_id"])

    def do_receiver(self, effects):
        for effect in effects:
            if isinstance(effect, ToPeer):
                self.back.append(effect.payload)
            elif isinstance(effect, KeepMessage):
                self.disk.append(effect)
            elif isinstance(effect, MarkRead):
                self.records["in"].pop(effect.message_id, None)
                self.read_ids.add((NODE, effect.message_id))

    @rule()
    def send(self):
        self.sent += 1
        self.do_sender(self.sender.queue(NODE, f"m{self.sent}", {"data": self.sent}, None))
        self.do_sender(self.sender.send_one(f"m{self.sent}", "u", self.now))

    @precondition(lambda self: self.forth)
    @rule(at=st.integers(0, 99), lose=st.booleans(), double=st.booleans())
    def carry_forth(self, at, lose, double):
        payload = self.forth.pop(at % len(self.forth))
        for _ in range(0 if lose else 1 + double):
            self.take(payload)

    def take(self, payload):
        mail, effects = self.receiver.receive(NODE, "u", payload, 10)
        self.show(mail)
        self.do_receiver(effects)

    @precondition(lambda self: self.back)
    @rule(at=st.integers(0, 99), lose=st.booleans())
    def carry_back(self, at, lose):
        payload = self.back.pop(at % len(self.back))
        if not lose:
            self.do_sender(self.sender.receipt(NODE, payload))

    @precondition(lambda self: self.disk)
    @rule()
    def write(self):
        effect = self.disk.pop(0)
        self.records["in"][effect.message_id] = effect.record
        mail, effects = self.receiver.kept(MessageKept(NODE, effect.message_id))
        self.show(mail)
        self.do_receiver(effects)

    @precondition(lambda self: self.disk)
    @rule(final=st.booleans())
    def fail_to_write(self, final):
        event = MessageNotKept(NODE, self.disk.pop(0).message_id, "disk full", final)
        self.do_receiver(self.receiver.not_kept(event))

    def show(self, mail):
        if mail is not None:
            self.unread.append(mail.message_id)
            self.shown.add(mail.message_id)
            self.delivered[mail.message_id] = self.delivered.get(mail.message_id, 0) + 1

    @precondition(lambda self: self.unread)
    @rule()
    def read(self):
        self.do_receiver(self.receiver.mark_read(NODE, self.unread.pop(0)))

    @rule()
    def wait(self):
        self.now += 500
        self.do_sender(self.sender.timer_fired(lambda _node, _stream: "u", self.now))

    @rule()
    def crash_sender(self):
        self.sender = outbox()
        self.sender.restore(list(self.records["out"].values()), [])

    @rule()
    def crash_receiver(self):
        durable = set(self.records["in"]) | {message_id for _, message_id in self.read_ids}
        self.may_come_again.update((self.shown - durable) | set(self.unread))
        self.disk.clear()
        self.unread.clear()
        self.shown.clear()
        self.receiver = MessageInbox(None)
        for mail in self.receiver.restore(list(self.records["in"].values()), list(self.read_ids)):
            self.show(mail)

    @invariant()
    def receipts_are_true_and_nothing_comes_twice(self):
        if hasattr(self, "stored"):
            assert self.stored <= set(self.delivered)
            for message_id, count in self.delivered.items():
                assert count <= 1 + self.may_come_again[message_id]

    def teardown(self):
        if not hasattr(self, "stored"):
            return
        for _ in range(20):
            self.now += 500
            self.do_sender(self.sender.timer_fired(lambda _node, _stream: "u", self.now))
            while self.forth:
                self.take(self.forth.pop(0))
            while self.disk:
                self.write()
            while self.back:
                self.do_sender(self.sender.receipt(NODE, self.back.pop(0)))
        assert len(self.sender) == 0
        assert set(self.delivered) == {f"m{number}" for number in range(1, self.sent + 1)}


TestTwoBoxes = TwoBoxes.TestCase
TestTwoBoxes.settings = settings(max_examples=60, stateful_step_count=30)
