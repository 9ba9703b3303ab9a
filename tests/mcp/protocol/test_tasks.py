"""A task as data: its course, how it is shown, and how it is stored."""

import string

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from comity.mcp.protocol.results import InputRequest
from comity.mcp.protocol.tasks import (
    DIED,
    Task,
    answered,
    asking,
    cancelled,
    created_json,
    detailed_json,
    ended,
    from_bytes,
    to_bytes,
)
from comity.wire import strict_json
from comity.wire.jsonrpc import RpcError

NOW = 1_767_225_600.0
NAME = InputRequest("elicitation/create", {"message": "Who?"})

KEYS = st.text(string.ascii_lowercase, min_size=1, max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)
TASKS = st.builds(
    Task,
    id=st.text(min_size=1),
    owner=st.text(),
    holder=st.text(),
    created=st.floats(0, 4e9),
    updated=st.floats(0, 4e9),
    kept=st.floats(1, 1e6),
    status=st.sampled_from(["working", "input_required", "completed", "failed", "cancelled"]),
    questions=st.dictionaries(KEYS, st.builds(InputRequest, st.text(), OBJECTS), max_size=3),
    answers=st.dictionaries(KEYS, OBJECTS, max_size=3),
    result=st.none() | OBJECTS,
    error=st.none() | st.builds(RpcError, st.integers(-40000, 0), st.text(), VALUES),
)


def new_task() -> Task:
    return Task(id="t", owner="ann", holder="p", created=NOW, updated=NOW)


@given(TASKS)
def test_a_stored_task_reads_back_as_it_was(task):
    assert from_bytes(to_bytes(task)) == task


def test_a_result_nested_as_deep_as_we_write_can_be_stored():
    deep = b'{"content":' + b"[" * 500 + b"]" * 500 + b"}"
    over = ended(new_task(), deep, NOW)
    assert strict_json.dumps(from_bytes(to_bytes(over)).result) == deep


def test_half_a_surrogate_pair_in_an_answer_survives():
    task = answered(asking(new_task(), {"who": NAME}, NOW), {"who": {"name": "\ud800"}}, NOW)
    assert from_bytes(to_bytes(task)).answers == {"who": {"name": "\ud800"}}


def test_what_answers_the_call_is_flat_with_times_in_iso_8601_and_whole_milliseconds():
    assert created_json(new_task()) == {
        "taskId": "t",
        "status": "working",
        "createdAt": "2026-01-01T00:00:00.000000Z",
        "lastUpdatedAt": "2026-01-01T00:00:00.000000Z",
        "ttlMs": 7_200_000,
        "pollIntervalMs": 500,
    }
    assert all(type(created_json(new_task())[key]) is int for key in ("ttlMs", "pollIntervalMs"))


def test_a_question_is_shown_while_it_is_open_and_not_after():
    asked = asking(new_task(), {"who": NAME}, NOW + 1)
    assert detailed_json(asked)["status"] == "input_required"
    assert detailed_json(asked)["inputRequests"] == {
        "who": {"method": "elicitation/create", "params": {"message": "Who?"}}
    }
    result = answered(asked, {"who": {"action": "accept"}}, NOW + 2)
    assert detailed_json(result)["status"] == "working"
    assert "inputRequests" not in detailed_json(result)
    assert detailed_json(result)["lastUpdatedAt"] == "2026-01-01T00:00:02.000000Z"


def test_answers_to_some_questions_leave_the_others_open():
    asked = asking(new_task(), {"one": NAME, "two": NAME}, NOW)
    result = answered(asked, {"one": {"action": "accept"}}, NOW)
    assert result.status == "input_required"
    assert list(result.questions) == ["two"]


def test_an_answer_that_is_no_object_or_to_no_open_question_changes_nothing():
    asked = asking(new_task(), {"who": NAME}, NOW)
    for useless in ({}, {"other": {}}, {"who": 12345}, {"who": None}, {"who": ["accept"]}):
        assert answered(asked, useless, NOW + 1) is asked


def test_a_result_completes_and_an_error_of_the_protocol_fails():
    completed = detailed_json(ended(new_task(), b'{"content":[],"isError":true}', NOW))
    assert completed["status"] == "completed"
    assert completed["result"] == {"content": [], "isError": True}
    assert "error" not in completed
    failed = detailed_json(ended(new_task(), RpcError(-32603, "broken", {"why": 1}), NOW))
    assert failed["status"] == "failed"
    assert failed["error"] == {"code": -32603, "message": "broken", "data": {"why": 1}}
    assert "result" not in failed
    assert "data" not in detailed_json(ended(new_task(), RpcError(-32603, "broken"), NOW))["error"]


def test_a_task_whose_process_died_says_what_to_do():
    assert "call the tool again" in detailed_json(ended(new_task(), DIED, NOW))["error"]["message"]


def test_it_is_kept_from_its_beginning_however_late_it_changes():
    assert ended(new_task(), b"{}", NOW + 100).expires == NOW + 7200


class CourseOfATask(RuleBasedStateMachine):
    """Whatever happens in whatever order: an end is the end, and what is open is what is asked."""

    def __init__(self):
        super().__init__()
        self.task = new_task()
        self.open: set[str] = set()
        self.end = None

    @rule(keys=st.sets(KEYS, min_size=1, max_size=3))
    def ask(self, keys):
        self.task = asking(self.task, dict.fromkeys(keys, NAME), NOW)
        self.open |= keys if self.end is None else set()

    @rule(keys=st.sets(KEYS, max_size=3), useful=st.booleans())
    def answer(self, keys, useful):
        self.task = answered(self.task, dict.fromkeys(keys, {} if useful else "no object"), NOW)
        self.open -= keys if useful else set()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer_an_open_question(self, data):
        key = data.draw(st.sampled_from(sorted(self.open)))
        self.answer({key}, useful=True)

    @rule(outcome=st.sampled_from([b'{"content":[]}', DIED, None]))
    def finish(self, outcome):
        before = self.task
        self.task = cancelled(before, NOW) if outcome is None else ended(before, outcome, NOW)
        if self.end is None:
            self.open = set()
            self.end = self.task
        else:
            assert self.task is before

    @invariant()
    def it_is_what_it_should_be(self):
        if self.end is not None:
            assert self.task == self.end
            assert self.task.over
        else:
            assert self.task.status == ("input_required" if self.open else "working")
        assert set(self.task.questions) == self.open
        assert from_bytes(to_bytes(self.task)) == replace(self.task)


TestCourseOfATask = CourseOfATask.TestCase
