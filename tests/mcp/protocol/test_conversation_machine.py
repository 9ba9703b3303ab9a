"""Whatever is said in whatever order: each request gets exactly one answer unless it was cancelled, and nothing
is ever raised.
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from comity.mcp.protocol.conversation import INTERNAL, Drop, Greet
from comity.mcp.protocol.methods import RunningRequest
from comity.wire import jsonrpc, strict_json
from tests.mcp.protocol.talk import AGREED, HELLO, REFUSED, Talk, meta, with_hello

METHODS = st.sampled_from(
    ["tools/call"] * 5 + ["ping", "tools/list", "server/discover", "resources/list", "no/such"]
)
IDS = st.sampled_from([0, 1, 2, "0", 1.5])
PLAIN = st.sampled_from([None, {}, meta(), meta(version="1999-01-01"), {"x": 1}])
METAS = PLAIN | st.just(with_hello())


@st.composite
def requests(draw, metas=METAS):
    params = {
        "name": draw(st.sampled_from(["echo", "echo", "echo", "feel", "none"])),
        "arguments": {"text": "hi"},
    }
    carried = draw(metas)
    if carried is not None:
        params["_meta"] = carried
    return {"jsonrpc": "2.0", "id": draw(IDS), "method": draw(METHODS), "params": params}


@st.composite
def initializes(draw):
    params = {"protocolVersion": draw(st.sampled_from(["2025-03-26", "2025-06-18", "x"]))}
    if draw(st.booleans()):
        params["vcp"] = HELLO
    return {"jsonrpc": "2.0", "id": draw(IDS), "method": "initialize", "params": params}


def cancellations(ids=IDS):
    return ids.map(
        lambda id_: {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
    )


ODD = st.sampled_from([1, "x", None, [], {}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": "r", "result": 1}])
MESSAGES = requests() | initializes() | cancellations() | ODD


class Talking(RuleBasedStateMachine):
    """`due` counts, for each id, the answers that are still owed; what is dropped is owed none."""

    def __init__(self):
        super().__init__()
        self.talk = Talk()
        self.due = Counter()
        self.works = []
        self.greets = []

    @initialize(message=st.none() | initializes())
    def begin(self, message):
        if message is not None:
            self._say(message)

    @rule(message=MESSAGES)
    def say(self, message):
        self._say(message)

    @rule(items=st.lists(requests(PLAIN) | cancellations() | ODD, min_size=1, max_size=4))
    def say_many(self, items):
        self._say(items)

    @rule(data=st.data())
    def finish(self, data):
        if self.works:
            work = self.works.pop(data.draw(st.integers(0, len(self.works) - 1)))
            done = self.talk.conversation.finish(work, b"{}")
            self._take([] if done is None else [done])

    @rule()
    def fail(self):
        if self.works:
            done = self.talk.conversation.refuse(self.works.pop(), INTERNAL)
            self._take([] if done is None else [done])

    @rule(data=st.data(), outcome=st.sampled_from([AGREED, REFUSED]))
    def negotiate(self, data, outcome):
        if self.greets:
            greet = self.greets.pop(data.draw(st.integers(0, len(self.greets) - 1)))
            self._greeted(greet, outcome)

    @invariant()
    def nobody_is_answered_twice(self):
        assert all(number >= 0 for number in self.due.values()), self.due

    def teardown(self):
        while self.greets or self.works:
            while self.greets:
                self._greeted(self.greets.pop(0), AGREED)
            while self.works:
                done = self.talk.conversation.finish(self.works.pop(), b"{}")
                self._take([] if done is None else [done])
        assert self.talk.conversation.running == 0
        assert not any(self.due.values()), self.due

    def _greeted(self, greet, outcome):
        effects = self.talk.conversation.greeted(greet, outcome)
        if not effects:  # it was cancelled meanwhile
            self.due[greet.request.id] -= 1
        self._take(effects)

    def _say(self, value):
        parsed = jsonrpc.parse(strict_json.dumps(value), batches=self.talk.conversation.batches)
        items = parsed.items if isinstance(parsed, jsonrpc.Batch) else [parsed]
        for item in items:
            if isinstance(item, jsonrpc.RpcRequest | jsonrpc.Invalid):
                self.due[item.id] += 1
        self._take(self.talk.conversation.receive(parsed))

    def _take(self, effects):
        for effect in effects:
            if isinstance(effect, bytes):
                answer = strict_json.loads(effect)
                for one in answer if isinstance(answer, list) else [answer]:
                    assert ("result" in one) != ("error" in one)
                    self.due[one["id"]] -= 1
            elif isinstance(effect, RunningRequest):
                self.works.append(effect)
            elif isinstance(effect, Greet):
                self.greets.append(effect)
            elif isinstance(effect, Drop):
                assert not self.talk.conversation.is_running(effect.work)
                self.due[effect.work.id] -= 1


TestTalking = Talking.TestCase
TestTalking.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
