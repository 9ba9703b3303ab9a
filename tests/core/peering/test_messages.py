"""Messages with receipts: each is delivered once, and a receipt is never said too early."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from comity.core.errors import InvalidError, OverloadedError
from comity.core.peering.file_work import Report, ToPeer
from comity.core.peering.messages import (
    LONGEST_WAIT,
    MOST_IDS_PER_NODE,
    MOST_STATUSES,
    MOST_WAITING,
    ForgetMessage,
    KeepMessage,
    MarkRead,
    MessageInbox,
    MessageKept,
    MessageNotKept,
    MessageOutbox,
)

NODE = "aa" * 32


def outbox(wall=None):
    return MessageOutbox(wall or (lambda: 0.0))


def payloads(effects):
    return [effect.payload for effect in effects if isinstance(effect, ToPeer)]


def test_a_message_waits_is_sent_and_ends_with_its_receipt():
    box = outbox()
    [kept] = box.queue(NODE, "m1", {"data": None}, None)
    assert isinstance(kept, KeepMessage)
    assert box.status("m1") == ("waiting", None)
    assert payloads(box.flush(NODE, "u", 0)) == [{"id": "m1", "data": None}]
    assert box.status("m1") == ("sent", None)
    effects = box.receipt(NODE, {"id": "m1", "status": "stored"})
    assert isinstance(effects[0], ForgetMessage)
    assert effects[1] == Report("message_status", {"message_id": "m1", "status": "stored", "reason": None})
    assert box.status("m1") == ("stored", None)
    assert box.receipt(NODE, {"id": "m1", "status": "refused"}) == []


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
    assert box.status("m1") == ("sent", None)


def test_nothing_is_receipted_that_was_not_sent():
    box = outbox()
    box.queue(NODE, "m1", {"data": 1}, None)
    assert box.receipt(NODE, {"id": "m1", "status": "stored"}) == []


def test_without_a_receipt_it_is_sent_again_each_time_later():
    box = outbox()
    box.queue(NODE, "m1", {"data": 1}, None)
    box.flush(NODE, "u", 0)
    sent = [second for second in range(5, 400, 5) if payloads(box.time_is_up(lambda _node: "u", second))]
    assert sent == [5, 15, 35, 75, 155, 235, 315, 395]


def test_the_outbox_is_limited_in_number_and_time():
    now = [0.0]
    box = outbox(lambda: now[0])
    for number in range(MOST_WAITING):
        box.check_room(1, 10)
        box.queue(NODE, f"m{number}", {"data": 1}, None)
    with pytest.raises(OverloadedError):
        box.check_room(1, 10)
    now[0] = LONGEST_WAIT + 1
    told = [effect for effect in box.time_is_up(lambda _node: None, 0) if isinstance(effect, Report)]
    assert {report.members["status"] for report in told} == {"expired"}
    assert len(box) == 0
    assert box.status("m5") == ("expired", "nobody took it in time")
    with pytest.raises(OverloadedError):
        box.check_room(1, 5_000_000)


def test_old_statuses_are_forgotten():
    box = outbox()
    for number in range(MOST_STATUSES + 5):
        box.queue(NODE, f"m{number}", {"data": 1}, None)
        box.flush(NODE, "u", 0)
        box.receipt(NODE, {"id": f"m{number}", "status": "stored"})
    assert box.status("m0") is None
    assert box.status("m9") is not None


def taken(inbox, message_id="m1", **payload):
    payload = payload or {"data": 1}
    return inbox.receive(NODE, "u", {"id": message_id, **payload}, 10)


def test_stored_is_said_after_it_was_kept_and_again_for_a_message_that_comes_again():
    inbox = MessageInbox(None)
    [kept] = taken(inbox)
    assert kept.record["data"] == 1
    assert taken(inbox) == []
    mail, effects = inbox.kept(MessageKept(NODE, "m1"))
    assert mail.data == 1
    assert payloads(effects) == [{"id": "m1", "status": "stored"}]
    assert payloads(taken(inbox)) == [{"id": "m1", "status": "stored"}]
    assert inbox.kept(MessageKept(NODE, "m1")) is None
    assert inbox.mark_read(NODE, "m1") == [MarkRead(NODE, "m1")]
    assert inbox.mark_read(NODE, "m1") == []
    assert payloads(taken(inbox)) == [{"id": "m1", "status": "stored"}]


def test_what_could_not_be_kept_is_refused_or_may_come_again():
    inbox = MessageInbox(None)
    taken(inbox)
    assert payloads(inbox.not_kept(MessageNotKept(NODE, "m1", "disk full"))) == [
        {"id": "m1", "status": "refused", "reason": "disk full"}
    ]
    taken(inbox)
    assert inbox.not_kept(MessageNotKept(NODE, "m1", "gap", final=False)) == []
    assert len(taken(inbox)) == 1


@pytest.mark.parametrize(
    "payload",
    [{"re": 5, "data": 1}, {"envelope": {}}, {"envelope": 5}, {"nothing": 1}, {"re": "x" * 200, "data": 1}],
)
def test_a_message_that_cannot_be_read_is_refused_with_a_reason(payload):
    [told] = payloads(taken(MessageInbox(None), **payload))
    assert told["status"] == "refused"
    assert told["reason"]


@pytest.mark.parametrize("message_id", ["", "x" * 129, None, 5])
def test_a_message_needs_an_id(message_id):
    with pytest.raises(InvalidError, match="id of 1 to 128"):
        taken(MessageInbox(None), message_id)


def test_ids_that_were_had_are_remembered_within_a_limit():
    inbox = MessageInbox(None)
    inbox.restore([], [(NODE, f"m{number}") for number in range(MOST_IDS_PER_NODE + 1)])
    assert payloads(taken(inbox, "m5"))[0]["status"] == "stored"
    assert isinstance(taken(inbox, "m0")[0], KeepMessage)


class TwoBoxes(RuleBasedStateMachine):
    """One sender, one receiver, both with durable records, and a wire that loses and doubles."""

    @initialize()
    def begin(self):
        self.now = 0.0
        self.records = {"out": {}, "in": {}}
        self.had = set()
        self.sender, self.receiver = outbox(), MessageInbox(None)
        self.forth, self.back, self.disk = [], [], []
        self.delivered, self.stored, self.sent = {}, set(), 0

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
                self.had.add((NODE, effect.message_id))

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
            self.do_receiver(self.receiver.receive(NODE, "u", payload, 10))

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
        self.deliver(mail)
        self.do_receiver(effects)

    def deliver(self, mail):
        self.do_receiver(self.receiver.mark_read(NODE, mail.message_id))
        self.delivered[mail.message_id] = self.delivered.get(mail.message_id, 0) + 1

    @rule()
    def wait(self):
        self.now += 500
        self.do_sender(self.sender.time_is_up(lambda _node: "u", self.now))

    @rule()
    def crash_sender(self):
        self.sender = outbox()
        self.sender.restore(list(self.records["out"].values()))

    @rule()
    def crash_receiver(self):
        self.disk.clear()
        self.receiver = MessageInbox(None)
        for mail in self.receiver.restore(list(self.records["in"].values()), list(self.had)):
            self.deliver(mail)

    @invariant()
    def receipts_are_true_and_nothing_comes_twice(self):
        if hasattr(self, "stored"):
            assert self.stored <= set(self.delivered)
            assert all(count == 1 for count in self.delivered.values())

    def teardown(self):
        if not hasattr(self, "stored"):
            return
        for _ in range(20):
            self.now += 500
            self.do_sender(self.sender.time_is_up(lambda _node: "u", self.now))
            while self.forth:
                self.do_receiver(self.receiver.receive(NODE, "u", self.forth.pop(0), 10))
            while self.disk:
                self.write()
            while self.back:
                self.do_sender(self.sender.receipt(NODE, self.back.pop(0)))
        assert len(self.sender) == 0
        assert set(self.delivered) == {f"m{number}" for number in range(1, self.sent + 1)}


TestTwoBoxes = TwoBoxes.TestCase
TestTwoBoxes.settings = settings(max_examples=60, stateful_step_count=30)
