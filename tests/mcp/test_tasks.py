"""Tasks as a client sees them, with the store below: in one process, in two, and after a crash."""

import asyncio

import pytest

from comity.identity.protocol.keys import SigningKey
from comity.mcp.calls import McpCalls
from comity.mcp.protocol.catalog import Catalog, Selection, Tool
from comity.mcp.protocol.context import McpClient
from comity.mcp.protocol.methods import Server, begin
from comity.mcp.protocol.results import META_SUBSCRIPTION, TASKS, InputRequest, InputRequired, McpError, said
from comity.mcp.protocol.session import Sealer
from comity.mcp.streams import Changes
from comity.mcp.tasks import BEAT, MAX_OF_ONE, StoredTasks
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryDisk, MemoryStore
from comity.testing import SimulatedClock, run_simulated
from comity.wire import strict_json
from comity.wire.errors import InvalidError
from comity.wire.jsonrpc import RpcError, RpcRequest
from tests.callers import named

KEY = SigningKey.from_seed(bytes(32))
DECLARED = {"extensions": {TASKS: {}}, "elicitation": {}}
WHO = InputRequest("elicitation/create", {"message": "Who?"})
NUMBERS = iter(range(1, 1_000_000))


class Nowhere:
    """The carrier of a request: what was sent while it was open."""

    session = None

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(strict_json.loads(message))

    async def ask(self, request):
        raise AssertionError("a modern client is never asked on its way")

    async def release(self):
        pass


class Process:
    """One process of a node, on a disk that others may share."""

    def __init__(self, disk=None, tasks=True, **limits):
        self.clock = SimulatedClock()
        self.disk = disk or MemoryDisk()
        self.store = MemoryStore(self.clock, self.disk, AuditTrail(f"p{next(NUMBERS)}", KEY))
        self.record = Recorder(self.store, self.clock)
        self.catalog = Catalog()
        self.changes = Changes(self.catalog)
        self.tasks = StoredTasks(self._opened, self.clock, self.changes, **limits)
        self.server = Server(catalog=self.catalog, info={"name": "t", "version": "1"}, tasks=tasks)
        self.calls = McpCalls(
            self.server,
            self.clock,
            sealer=Sealer(bytes(32), bytes),
            changes=self.changes,
            tasks=self.tasks if tasks else None,
        )

    async def _opened(self):
        return self

    def tool(self, name, handler, task="optional", **more):
        self.catalog.add_tools(
            [Tool(name=name, handler=handler, group="t", description="", task=task, **more)]
        )

    async def request(self, method, params, *, owner="ann", capabilities=DECLARED, outlet=None):
        client = McpClient(version="2026-07-28", modern=True, caller=named(owner), capabilities=capabilities)
        work = begin(self.server, Selection(), client, RpcRequest(next(NUMBERS), method, params))
        if not isinstance(work, bytes):
            work = self.calls.start(work, outlet or Nowhere())
            work = await work if asyncio.iscoroutine(work) else work
        if isinstance(work, RpcError):
            raise McpError(work.code, work.message, work.data)
        return strict_json.loads(work)

    async def call(self, name, arguments=None, more=None, **kwargs):
        params = {"name": name, "arguments": arguments or {}, **(more or {})}
        return await self.request("tools/call", params, **kwargs)

    async def get(self, task_id, **kwargs):
        return await self.request("tasks/get", {"taskId": task_id}, **kwargs)

    async def update(self, task_id, responses, **kwargs):
        return await self.request("tasks/update", {"taskId": task_id, "inputResponses": responses}, **kwargs)

    async def cancel(self, task_id, **kwargs):
        return await self.request("tasks/cancel", {"taskId": task_id}, **kwargs)

    async def until(self, task_id, *statuses):
        while True:
            task = await self.get(task_id)
            if task["status"] in statuses:
                return task
            await asyncio.sleep(0.1)


def simulated(test):
    """Run in simulated time, and leave nothing behind that still runs."""

    def run():
        async def whole():
            await test()
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        run_simulated(whole)

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


async def slowly(_context, arguments):
    await asyncio.sleep(arguments.get("seconds", 1))
    return said("done")


async def asking(context, _arguments):
    answers = await context.ask({"who": WHO, "what": WHO})
    again = await context.ask({"who": WHO})
    return said(f"{answers['who']['n']} {answers['what']['n']} {again['who']['n']}")


async def refused(coroutine):
    with pytest.raises(McpError) as raised:
        await coroutine
    return raised.value.rpc


@simulated
async def test_a_call_becomes_a_task_and_its_result_is_fetched():
    process = Process()
    process.tool("slow", slowly)
    created = await process.call("slow")
    assert created["resultType"] == "task"
    assert created["status"] == "working"
    assert type(created["pollIntervalMs"]) is int
    assert "result" not in created
    assert (await process.get(created["taskId"]))["status"] == "working"
    await asyncio.sleep(1.1)
    fetched = await process.get(created["taskId"])
    assert fetched["resultType"] == "complete"
    assert fetched["status"] == "completed"
    assert fetched["result"]["content"] == [{"type": "text", "text": "done"}]
    assert len(process.tasks) == 0


@simulated
async def test_it_is_stored_before_it_is_answered_and_runs_only_then():
    process = Process()
    store, held = process.store, asyncio.Event()
    submit = store.submit
    started = []

    def submit_slowly(operations, audit):
        async def later():
            await held.wait()
            return await submit(operations, audit)

        return asyncio.ensure_future(later())

    async def job(_context, _arguments):
        started.append(True)
        return said("done")

    store.submit = submit_slowly
    process.tool("job", job)
    calling = asyncio.ensure_future(process.call("job"))
    await asyncio.sleep(1)
    assert not calling.done()
    assert not started
    held.set()
    created = await calling
    assert (await process.until(created["taskId"], "completed"))["taskId"] == created["taskId"]


@simulated
async def test_what_a_tool_refuses_is_completed_and_what_breaks_the_protocol_is_failed():
    async def refuses(_context, _arguments):
        raise InvalidError("not like this")

    async def breaks(_context, _arguments):
        raise McpError(-32603, "broken")

    async def bug(_context, _arguments):
        raise ZeroDivisionError("secret")

    process = Process()
    for handler in (refuses, breaks, bug):
        process.tool(handler.__name__, handler)
    task = await process.until((await process.call("refuses"))["taskId"], "completed", "failed")
    assert task["status"] == "completed"
    assert task["result"]["isError"] is True
    assert "not like this" in task["result"]["content"][0]["text"]
    task = await process.until((await process.call("breaks"))["taskId"], "completed", "failed")
    assert task["status"] == "failed"
    assert task["error"] == {"code": -32603, "message": "broken"}
    assert "result" not in task
    task = await process.until((await process.call("bug"))["taskId"], "completed", "failed")
    assert task["status"] == "failed"
    assert "secret" not in task["error"]["message"]


@simulated
async def test_without_the_extension_a_tool_runs_at_once_or_is_refused():
    process = Process()
    process.tool("slow", slowly)
    process.tool("only", slowly, task="required")
    assert (await process.call("slow", capabilities={}))["content"][0]["text"] == "done"
    for method, params in (
        ("tools/call", {"name": "only", "arguments": {}}),
        ("tasks/get", {"taskId": "x"}),
        ("tasks/update", {"taskId": "x", "inputResponses": {}}),
        ("tasks/cancel", {"taskId": "x"}),
    ):
        error = await refused(process.request(method, params, capabilities={}))
        assert error.code == -32021, method
        assert error.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}, method


@simulated
async def test_a_server_without_tasks_has_no_such_methods_and_runs_at_once():
    process = Process(tasks=False)
    process.tool("slow", slowly)
    assert (await process.call("slow"))["resultType"] == "complete"
    assert (await refused(process.get("x"))).code == -32601


@simulated
async def test_a_legacy_client_never_gets_a_task():
    process = Process()
    process.tool("slow", slowly)
    client = McpClient(version="2025-11-25", modern=False, capabilities=DECLARED)
    request = RpcRequest(1, "tools/call", {"name": "slow", "arguments": {}})
    outcome = process.calls.start(begin(process.server, Selection(), client, request), Nowhere())
    assert strict_json.loads(await outcome)["content"][0]["text"] == "done"


@simulated
async def test_an_unknown_id_and_a_task_of_somebody_else_are_the_same_refusal():
    process = Process()
    process.tool("slow", slowly)
    id_ = (await process.call("slow", {"seconds": 60}))["taskId"]
    for verb in (process.get, process.cancel, lambda task, **more: process.update(task, {}, **more)):
        unknown = await refused(verb("no-such-task"))
        foreign = await refused(verb(id_, owner="bob"))
        assert unknown == foreign
        assert unknown.code == -32602
    assert (await process.get(id_))["status"] == "working"


@simulated
async def test_cancelling_ends_the_work_and_may_be_repeated():
    ended = []

    async def job(context, _arguments):
        context.cancelled.on_set(lambda: ended.append("told"))
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("unwound")

    process = Process()
    process.tool("job", job)
    id_ = (await process.call("job"))["taskId"]
    await asyncio.sleep(0.1)
    for _ in range(2):
        assert set(await process.cancel(id_)) == {"resultType", "_meta"}
        await asyncio.sleep(0.1)
        assert (await process.get(id_))["status"] == "cancelled"
    assert sorted(ended) == ["told", "unwound"]
    assert len(process.tasks) == 0


@simulated
async def test_cancelling_what_is_completed_changes_nothing():
    process = Process()
    process.tool("slow", slowly)
    id_ = (await process.call("slow"))["taskId"]
    completed = await process.until(id_, "completed")
    assert set(await process.cancel(id_)) == {"resultType", "_meta"}
    assert await process.get(id_) == completed


@simulated
async def test_questions_inside_a_task_are_answered_one_by_one():
    process = Process()
    process.tool("asks", asking)
    id_ = (await process.call("asks"))["taskId"]
    task = await process.until(id_, "input_required")
    assert task["inputRequests"] == {
        key: {"method": "elicitation/create", "params": {"message": "Who?"}} for key in ("who", "what")
    }
    assert "requestState" not in task
    assert set(await process.update(id_, {"who": {"n": 1}})) == {"resultType", "_meta"}
    assert list((await process.get(id_))["inputRequests"]) == ["what"]
    await process.update(id_, {"what": {"n": 2}, "unknown": {"n": 9}})
    task = await process.until(id_, "input_required", "completed")
    assert list(task["inputRequests"]) == ["who-2"], "a key is used once in the life of a task"
    await process.update(id_, {"who": {"n": 9}, "who-2": 9})
    assert (await process.get(id_))["status"] == "input_required"
    await process.update(id_, {"who-2": {"n": 3}})
    task = await process.until(id_, "completed")
    assert task["result"]["content"][0]["text"] == "1 2 3"


@simulated
async def test_a_handler_that_returns_its_question_from_inside_a_task_is_run_again():
    async def asks(context, _arguments):
        if context.input_state is None:
            return InputRequired({"who": WHO}, {"round": 1})
        return said(f"{context.input_state['round']} {context.inputs['who']['n']}")

    process = Process()
    process.tool("asks", asks)
    id_ = (await process.call("asks"))["taskId"]
    await process.until(id_, "input_required")
    await process.update(id_, {"who": {"n": 7}})
    assert (await process.until(id_, "completed"))["result"]["content"][0]["text"] == "1 7"


@simulated
async def test_a_question_the_client_cannot_answer_fails_the_task():
    process = Process()
    process.tool("asks", asking)
    id_ = (await process.call("asks", capabilities={"extensions": {TASKS: {}}}))["taskId"]
    task = await process.until(id_, "failed", "input_required")
    assert task["error"]["code"] == -32021
    assert task["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}


@simulated
async def test_what_a_handler_answers_at_once_needs_no_task():
    def plain(context, _arguments):
        name = context.inputs.get("who")
        return InputRequired({"who": WHO}, {"n": 1}) if name is None else later(name["n"])

    async def later(name):
        return said(f"hello {name}")

    process = Process()
    process.tool("plain", plain, task="required")
    process.tool("quick", lambda _context, _arguments: said("at once"))
    assert (await process.call("quick"))["content"][0]["text"] == "at once"
    first = await process.call("plain")
    assert first["resultType"] == "input_required"
    assert "taskId" not in first
    more = {"inputResponses": {"who": {"n": "ann"}}, "requestState": first["requestState"]}
    second = await process.call("plain", more=more)
    assert second["resultType"] == "task"
    assert "requestState" not in second
    task = await process.until(second["taskId"], "completed")
    assert task["result"]["content"][0]["text"] == "hello ann"


@simulated
async def test_a_client_of_the_old_kind_may_still_hint_at_a_task():
    process = Process()
    process.tool("plain", lambda _context, _arguments: said("at once"), task="forbidden")
    assert (await process.call("plain", more={"task": {"ttl": 1}}))["resultType"] == "complete"


@simulated
async def test_whoever_listens_for_a_task_hears_each_change_of_it():
    process = Process()
    process.tool("asks", asking)
    other = (await process.call("asks", owner="bob"))["taskId"]
    id_ = (await process.call("asks"))["taskId"]
    outlet = Nowhere()
    wanted = {"notifications": {"taskIds": [id_, other, "no-such-task"]}}
    asyncio.ensure_future(process.request("subscriptions/listen", wanted, outlet=outlet))  # noqa: RUF006 - ends with the loop
    await process.until(id_, "input_required")
    await asyncio.sleep(0.1)
    await process.update(id_, {"who": {"n": 1}, "what": {"n": 2}})
    await asyncio.sleep(0.1)
    await process.update(other, {"who": {"n": 1}, "what": {"n": 2}}, owner="bob")
    await process.update(id_, {"who-2": {"n": 3}})
    await process.until(id_, "completed")
    acknowledged, *heard = outlet.sent
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["notifications"] == {"taskIds": [id_]}
    assert {one["method"] for one in heard} == {"notifications/tasks"}
    assert {one["params"]["taskId"] for one in heard} == {id_}
    assert all(META_SUBSCRIPTION in one["params"]["_meta"] for one in heard)
    assert [one["params"]["status"] for one in heard][-4:] == [
        "working",
        "input_required",
        "working",
        "completed",
    ]
    assert heard[-1]["params"]["result"]["content"][0]["text"] == "1 2 3"


@simulated
async def test_too_many_tasks_are_refused_by_owner_and_in_all():
    process = Process(most=MAX_OF_ONE + 1)
    process.tool("slow", slowly)
    ids = [(await process.call("slow", {"seconds": 50}))["taskId"] for _ in range(MAX_OF_ONE)]
    assert (await process.call("slow"))["isError"] is True
    assert (await process.call("slow", owner="bob"))["resultType"] == "task"
    assert (await process.call("slow", owner="cid"))["isError"] is True
    await process.cancel(ids[0])
    await asyncio.sleep(0.1)
    assert (await process.call("slow"))["resultType"] == "task"


@simulated
async def test_a_task_is_kept_for_its_time_and_then_unknown():
    process = Process()
    process.tool("slow", slowly)
    created = await process.call("slow")
    await asyncio.sleep(created["ttlMs"] / 1000 - 1)
    assert (await process.get(created["taskId"]))["status"] == "completed"
    await asyncio.sleep(2)
    assert (await refused(process.get(created["taskId"]))).code == -32602


@simulated
async def test_a_task_may_take_longer_than_its_tool_may_otherwise_and_not_for_ever():
    process = Process()
    process.tool("slow", slowly, deadline=5.0)
    id_ = (await process.call("slow", {"seconds": 100}))["taskId"]
    await asyncio.sleep(101)
    assert (await process.get(id_))["result"]["content"][0]["text"] == "done"
    id_ = (await process.call("slow", {"seconds": 10_000}))["taskId"]
    await asyncio.sleep(3601)
    task = await process.get(id_)
    assert task["status"] == "completed"
    assert task["result"]["isError"] is True
    assert "3600 seconds" in task["result"]["content"][0]["text"]


@simulated
async def test_after_a_crash_a_task_is_failed_with_a_sentence():
    died = Process()
    died.tool("slow", slowly)
    id_ = (await died.call("slow", {"seconds": 1000}))["taskId"]
    await asyncio.sleep(1)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:  # the process is gone, with all it ran
        task.cancel()
    died.store.commit = None
    after = Process(died.disk)
    await asyncio.sleep(3 * BEAT + 1)
    task = await after.get(id_)
    assert task["status"] == "failed"
    assert "call the tool again" in task["error"]["message"]
    assert await after.get(id_) == task


@simulated
async def test_a_process_that_stops_in_order_fails_what_it_runs():
    process = Process()
    process.tool("slow", slowly)
    id_ = (await process.call("slow", {"seconds": 1000}))["taskId"]
    await process.tasks.close()
    assert len(process.tasks) == 0
    task = await Process(process.disk).get(id_)
    assert task["status"] == "failed"


@simulated
async def test_any_process_can_tell_of_a_task_answer_it_and_cancel_it():
    runs = Process()
    other = Process(runs.disk)
    runs.tool("asks", asking)
    runs.tool("slow", slowly)
    id_ = (await runs.call("asks"))["taskId"]
    await other.until(id_, "input_required")
    await asyncio.sleep(10 * BEAT)
    assert (await other.get(id_))["status"] == "input_required", "its process is alive"
    await other.update(id_, {"who": {"n": 1}, "what": {"n": 2}})
    await asyncio.sleep(2 * BEAT)
    await other.update(id_, {"who-2": {"n": 3}})
    await asyncio.sleep(2 * BEAT)
    assert (await other.get(id_))["result"]["content"][0]["text"] == "1 2 3"
    id_ = (await runs.call("slow", {"seconds": 1000}))["taskId"]
    await other.cancel(id_)
    await asyncio.sleep(2 * BEAT)
    assert len(runs.tasks) == 0
    assert (await runs.get(id_))["status"] == "cancelled"


@simulated
async def test_an_answer_and_an_end_that_meet_are_both_kept_in_order():
    """Two processes write at the same moment: one of them is told, reads again, and goes on from there."""
    runs = Process()
    other = Process(runs.disk)
    runs.tool("asks", asking)
    id_ = (await runs.call("asks"))["taskId"]
    await runs.until(id_, "input_required")
    await asyncio.gather(
        runs.update(id_, {"who": {"n": 1}}), other.update(id_, {"what": {"n": 2}}), other.get(id_)
    )
    task = await runs.until(id_, "input_required", "completed")
    while list(task["inputRequests"]) != ["who-2"]:
        await asyncio.sleep(1)
        task = await runs.get(id_)
    await asyncio.gather(runs.cancel(id_), other.cancel(id_), other.update(id_, {"who-2": {"n": 3}}))
    assert (await runs.get(id_))["status"] == "cancelled"


@simulated
async def test_a_client_that_leaves_while_its_task_is_made_leaves_nothing_running():
    process = Process()
    started = []

    async def job(_context, _arguments):
        started.append(True)

    process.tool("job", job)
    submit = process.store.submit

    def submit_slowly(operations, audit):
        async def later():
            await asyncio.sleep(1)
            return await submit(operations, audit)

        return asyncio.ensure_future(later())

    process.store.submit = submit_slowly
    calling = asyncio.ensure_future(process.call("job"))
    await asyncio.sleep(0.5)
    calling.cancel()
    await asyncio.sleep(2)
    assert len(process.tasks) == 0
    assert not started


@simulated
async def test_beginning_and_end_stand_in_the_audit_trail():
    process = Process()
    process.tool("slow", slowly)
    id_ = (await process.call("slow"))["taskId"]
    await process.until(id_, "completed")
    entries = b"".join(data for (_, _), data in sorted(process.disk.records.items()))
    assert b"MCP_TASK_BEGUN" in entries
    assert b"MCP_TASK_COMPLETED" in entries
    assert id_.encode() not in entries
