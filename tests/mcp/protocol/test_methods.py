"""The two tables of methods: lists, calls, resources, prompts, completion, and what each era says of them."""

import pytest
from msgspec.structs import replace

from comity.mcp.protocol import conversation
from comity.mcp.protocol.catalog import Catalog, Namespace, Prompt, Resources, Selection, resource
from comity.mcp.protocol.context import McpClient
from comity.mcp.protocol.conversation import refusal, result_of
from comity.mcp.protocol.methods import (
    MAX_COMPLETIONS,
    MAX_LISTENED,
    Listen,
    RunningRequest,
    TaskRequest,
    begin,
    capabilities,
)
from comity.mcp.protocol.results import (
    META_SERVER,
    TASKS,
    Contents,
    InputRequest,
    InputRequired,
    McpError,
    PromptResult,
    ToolResult,
    failed,
    said,
    structured,
)
from comity.mcp.protocol.session import initialize_result
from comity.requests.caller import OWN_PROCESS, UNKNOWN
from comity.wire import strict_json
from comity.wire.errors import (
    ConflictError,
    DeadlineError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    OverloadedError,
    PeerError,
)
from comity.wire.jsonrpc import RpcRequest
from tests.callers import visitor
from tests.mcp.protocol.talk import ACK, PERSONAL, TEXT, Talk, a_server, meta, tool

LENGTH = {"type": "object", "properties": {"length": {"type": "integer"}}, "required": ["length"]}
WHO = [{"name": "who", "required": True}, {"name": "how"}]
LEGACY = McpClient(version="2025-11-25", modern=False)
MODERN = McpClient(version="2026-07-28", modern=True)
WITH_TASKS = McpClient(version="2026-07-28", modern=True, capabilities={"extensions": {TASKS: {}}})
ERAS = pytest.mark.parametrize("client", [LEGACY, MODERN])


def read(_context, uri):
    return Contents([{"uri": uri, "text": "open"}], ttl=5)


@pytest.fixture
def server():
    catalog = Catalog()
    catalog.add_tools(
        [
            tool("echo", input_schema={**TEXT, "additionalProperties": False}),
            tool("measure", output_schema=LENGTH),
            tool("feel", extension=PERSONAL),
            tool("long", task="required"),
        ]
    )
    catalog.add_resources(
        resource("shop://sign", read, group="shop", name="sign", mime_type="text/plain", size=4),
        Resources(
            group="shop",
            owns=lambda uri: uri.startswith("shop://shelf/"),
            read=read,
            templates=[{"uriTemplate": "shop://shelf/{n}", "name": "shelf"}],
            complete=lambda _c, _a, typed, others: [typed + others.get("x", "")] * 150,
        ),
        Resources(group="shop", owns=lambda uri: uri == "shop://own", read=read, extension=PERSONAL),
    )
    catalog.add_prompts(
        Prompt(name="greet", group="shop", arguments=WHO, handler=lambda _c, given: PromptResult([given]))
    )
    catalog.add_namespace(Namespace("vdo_", lambda name, chosen: failed(f"{name} {chosen.profile}")))
    return a_server(catalog, instructions="Be kind.", tasks=True)


def ask(server, client, method, params=None):
    found = begin(server, Selection(), client, RpcRequest(1, method, params))
    return strict_json.loads(found) if isinstance(found, bytes) else found


def refused(server, client, method, params=None):
    with pytest.raises(McpError) as caught:
        ask(server, client, method, params)
    return caught.value.rpc


def run(server, work, context=None):
    return strict_json.loads(result_of(server, work, work.start(context)))


@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/templates/list", "server/discover"]
)
def test_a_modern_list_says_how_long_it_is_good_and_who_serves_it(server, method):
    result = ask(server, MODERN, method)
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 60_000, "public")
    assert result["_meta"][META_SERVER] == server.info


def test_a_list_that_depends_on_extensions_is_private(server):
    client = McpClient(version="2026-07-28", modern=True, active=frozenset({PERSONAL}))
    assert ask(server, client, "tools/list")["cacheScope"] == "private"


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/templates/list"])
def test_a_legacy_list_is_the_list_alone(server, method):
    result = ask(server, LEGACY, method)
    assert len(result) == 1


@ERAS
@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/templates/list", "resources/list"]
)
def test_no_cursor_is_ever_ours(server, client, method):
    assert refused(server, client, method, {"cursor": "x"}).code == -32602
    ask(server, client, method, {"cursor": None})


def test_a_list_is_made_once_for_each_era(server):
    one = begin(server, Selection(), MODERN, RpcRequest(1, "tools/list"))
    assert begin(server, Selection(), MODERN, RpcRequest(2, "tools/list")) is one
    assert begin(server, Selection(), LEGACY, RpcRequest(3, "tools/list")) != one


def test_discover_names_versions_capabilities_and_extensions(server):
    result = ask(server, MODERN, "server/discover")
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["instructions"] == "Be kind."
    assert result["capabilities"]["resources"] == {"listChanged": True}
    assert "logging" not in result["capabilities"]
    assert result["capabilities"]["completions"] == {}
    assert set(result["capabilities"]["extensions"]) == {"space.creed/vcp", TASKS}


def test_tasks_are_not_advertised_to_legacy_clients(server):
    shown = strict_json.loads(initialize_result(server, Selection(), LEGACY, None))["capabilities"]
    assert "extensions" not in shown


@ERAS
@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": None}, {"arguments": {}}])
def test_a_call_without_a_name_is_refused(server, client, params):
    assert refused(server, client, "tools/call", params).code == -32602


@ERAS
def test_an_unknown_tool_is_an_error_of_the_protocol_and_short(server, client):
    error = refused(server, client, "tools/call", {"name": "x" * 5000})
    assert error.code == -32602
    assert len(error.message) < 300


@ERAS
def test_a_tool_of_an_inactive_extension_answers_with_the_remedy(server, client):
    result = ask(server, client, "tools/call", {"name": "feel"})
    assert result["isError"] is True
    assert result["content"][0]["text"].splitlines()[-1] == (
        f"Extension {PERSONAL} is not active. Re-initialize with the extension in your VCP-Hello"
    )


@ERAS
def test_a_namespace_has_its_own_answer(server, client):
    result = ask(server, replace(client, caller=OWN_PROCESS), "tools/call", {"name": "vdo_nothing"})
    assert (result["isError"], result["content"][0]["text"]) == (True, "vdo_nothing full")


@ERAS
@pytest.mark.parametrize("arguments", [[], "x", 7, None, True])
def test_arguments_that_are_no_object_are_refused(server, client, arguments):
    assert refused(server, client, "tools/call", {"name": "echo", "arguments": arguments}).code == -32602


@ERAS
def test_arguments_that_break_the_schema_are_an_error_of_the_tool(server, client):
    result = ask(server, client, "tools/call", {"name": "echo", "arguments": {"text": 42}})
    words = result["content"][0]["text"]
    assert result["isError"] is True
    assert "/text" in words
    assert "42" not in words


def test_a_tool_may_have_its_own_validator_and_its_own_words():
    catalog = Catalog()
    own = {"validator": lambda given: None if given == [1] else "not one", "render_invalid": failed}
    catalog.add_tools([tool("own", **own)])
    server = a_server(catalog)
    result = ask(server, LEGACY, "tools/call", {"name": "own", "arguments": {}})
    assert (result["isError"], result["content"][0]["text"]) == (True, "not one")
    assert isinstance(ask(server, LEGACY, "tools/call", {"name": "own", "arguments": [1]}), RunningRequest)


def test_a_validator_that_breaks_is_work_that_fails():
    catalog = Catalog()
    catalog.add_tools([tool("odd", validator=lambda _given: 1 / 0)])
    work = ask(a_server(catalog), LEGACY, "tools/call", {"name": "odd"})
    with pytest.raises(ZeroDivisionError):
        work.start(None)


@ERAS
def test_a_result_that_breaks_the_output_schema_is_internal_and_not_shown(server, client):
    for answer in (structured({"length": "secret"}), said("secret"), structured({})):
        work = ask(server, client, "tools/call", {"name": "measure"})
        with pytest.raises(McpError) as caught:
            result_of(server, work, answer)
        assert caught.value.rpc.code == -32603
        assert "secret" not in caught.value.message


@ERAS
def test_an_error_of_a_tool_need_not_fit_its_output_schema(server, client):
    work = ask(server, client, "tools/call", {"name": "measure"})
    assert strict_json.loads(result_of(server, work, failed("no")))["isError"] is True


@ERAS
def test_an_error_has_structured_content_only_where_that_fits_the_output_schema(server, client):
    work = ask(server, client, "tools/call", {"name": "measure"})
    for value, shown in (({"length": 3}, True), ({"error": "why"}, False)):
        answer = strict_json.loads(result_of(server, work, structured(value, error=True)))
        assert ("structuredContent" in answer) is shown
        assert answer["content"][0]["text"] == strict_json.dumps(value).decode()
        assert answer["isError"] is True
    work = ask(server, client, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    answer = strict_json.loads(result_of(server, work, structured({"any": 1}, error=True)))
    assert answer["structuredContent"] == {"any": 1}


@ERAS
def test_a_tool_with_a_right_is_for_the_owner_and_for_visitors_who_have_it(client):
    catalog = Catalog()
    catalog.add_tools([tool("echo"), tool("order", right="agents")])
    catalog.add_prompts(
        Prompt(name="ask", group="shop", right="agents", handler=lambda _c, given: PromptResult([given]))
    )
    server = a_server(catalog)

    def seen_by(caller):
        who = replace(client, caller=caller)
        tools = [one["name"] for one in ask(server, who, "tools/list")["tools"]]
        prompts = [one["name"] for one in ask(server, who, "prompts/list")["prompts"]]
        return tools, prompts

    everything = (["echo", "order"], ["ask"])
    assert seen_by(OWN_PROCESS) == everything
    assert seen_by(replace(visitor("ann"), scopes=("mcp", "agents"))) == everything
    for stranger in (visitor("ann"), replace(visitor("ann"), scopes=("agent",)), UNKNOWN):
        assert seen_by(stranger) == (["echo"], [])
        refused_ = ask(server, replace(client, caller=stranger), "tools/call", {"name": "order"})
        assert refused_["isError"] is True
        assert "the scope agents" in refused_["content"][0]["text"]
    assert isinstance(
        ask(server, replace(client, caller=OWN_PROCESS), "tools/call", {"name": "order"}), RunningRequest
    )


def test_structured_content_that_is_no_object_is_for_modern_clients_only(server):
    for client, shown in ((MODERN, True), (LEGACY, False)):
        work = ask(server, client, "tools/call", {"name": "echo", "arguments": {"text": ""}})
        result = strict_json.loads(result_of(server, work, ToolResult([], [1, 2])))
        assert ("structuredContent" in result) is shown
        nothing = strict_json.loads(result_of(server, work, ToolResult([], None)))
        assert ("structuredContent" in nothing) is shown
        objects = strict_json.loads(result_of(server, work, structured({"a": 1})))
        assert objects["structuredContent"] == {"a": 1}


def test_a_tool_that_runs_as_a_task_only_wants_the_extension(server):
    for client in (LEGACY, MODERN):
        error = refused(server, client, "tools/call", {"name": "long"})
        assert error.code == -32021
        assert error.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    assert ask(server, WITH_TASKS, "tools/call", {"name": "long"}).as_task
    assert not ask(server, WITH_TASKS, "tools/call", {"name": "measure"}).as_task
    assert not ask(server, WITH_TASKS, "resources/read", {"uri": "shop://sign"}).as_task


def test_a_resource_is_read_with_what_the_era_says_of_it(server):
    modern = run(server, ask(server, MODERN, "resources/read", {"uri": "shop://sign"}))
    legacy = run(server, ask(server, LEGACY, "resources/read", {"uri": "shop://sign"}))
    assert legacy == {"contents": [{"uri": "shop://sign", "text": "open"}]}
    assert (modern["ttlMs"], modern["cacheScope"], modern["resultType"]) == (5, "private", "complete")


@pytest.mark.parametrize(("client", "code"), [(LEGACY, -32002), (MODERN, -32602)])
def test_a_resource_that_is_not_there_has_the_code_of_its_era(server, client, code):
    error = refused(server, client, "resources/read", {"uri": "shop://none"})
    assert (error.code, error.data) == (code, {"uri": "shop://none"})
    work = ask(server, client, "resources/read", {"uri": "shop://shelf/0"})
    raised = refusal(work, NotFoundError("there is no shelf 0"))
    assert (raised.code, raised.data) == (code, {"uri": "shop://shelf/0"})


@ERAS
def test_a_resource_of_an_inactive_extension_is_refused_with_the_remedy(server, client):
    error = refused(server, client, "resources/read", {"uri": "shop://own"})
    assert (error.code, error.data) == (-32602, {"uri": "shop://own"})
    assert "Re-initialize" in error.message


@ERAS
@pytest.mark.parametrize("uri", [None, 7, [], {}])
def test_an_address_is_a_text(server, client, uri):
    assert refused(server, client, "resources/read", {"uri": uri}).code == -32602


def test_templates_and_fixed_resources_are_listed(server):
    (template,) = ask(server, LEGACY, "resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "shop://shelf/{n}"
    assert isinstance(ask(server, LEGACY, "resources/list"), RunningRequest)


@ERAS
def test_a_prompt_gets_its_arguments(server, client):
    given = {"who": "Ada"}
    result = run(server, ask(server, client, "prompts/get", {"name": "greet", "arguments": given}))
    assert result["messages"] == [given]


@ERAS
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": "none"},
        {"name": ["greet"]},
        {"name": "greet"},
        {"name": "greet", "arguments": {"how": "x"}},
        {"name": "greet", "arguments": {"who": 7}},
        {"name": "greet", "arguments": ["who"]},
    ],
)
def test_a_prompt_that_cannot_be_had_is_refused(server, client, params):
    assert refused(server, client, "prompts/get", params).code == -32602


def complete(server, ref, **more):
    params = {"ref": ref, "argument": {"name": "n", "value": "1"}, **more}
    return run(server, ask(server, MODERN, "completion/complete", params))["completion"]


@ERAS
def test_completion_is_unknown_where_it_is_not_advertised(client):
    server = a_server()
    assert "completions" not in capabilities(server, client)
    params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "n", "value": ""}}
    assert refused(server, client, "completion/complete", params).code == -32601


def test_completion_is_cut_at_its_limit_and_says_so(server):
    ref = {"type": "ref/resource", "uri": "shop://shelf/{n}"}
    found = complete(server, ref, context={"arguments": {"x": "y"}})
    assert found["values"] == ["1y"] * MAX_COMPLETIONS
    assert (found["total"], found["hasMore"]) == (150, True)


def test_as_many_completions_as_fit_are_all_there_are(server):
    work = ask(
        server,
        MODERN,
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "n", "value": ""}},
    )
    shaped = work.shape(["x"] * MAX_COMPLETIONS)["completion"]
    assert (len(shaped["values"]), shaped["hasMore"]) == (MAX_COMPLETIONS, False)


def test_what_has_no_completer_completes_to_nothing(server):
    found = complete(server, {"type": "ref/prompt", "name": "greet"})
    assert found == {"values": [], "total": 0, "hasMore": False}
    assert complete(server, {"type": "ref/resource", "uri": "x://none"})["values"] == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": 7},
        {"ref": {"type": "ref/other"}},
        {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "a", "value": "b"}},
        {"ref": {"type": "ref/prompt", "name": "greet"}},
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": 7}},
    ],
)
def test_a_completion_that_makes_no_sense_is_refused(server, params):
    assert refused(server, LEGACY, "completion/complete", params).code == -32602


def listen(server, wanted, client=MODERN):
    return ask(server, client, "subscriptions/listen", {"notifications": wanted})


def test_a_subscription_honours_what_there_is(server):
    uris = ["shop://sign", "x://none", "shop://own"]
    work = listen(server, {"toolsListChanged": True, "promptsListChanged": 1, "resourceSubscriptions": uris})
    assert work.special == Listen(tools=True, uris=("shop://sign",))
    assert work.special.to_json() == {"toolsListChanged": True, "resourceSubscriptions": ["shop://sign"]}


@pytest.mark.parametrize(
    "wanted", [None, [], {"resourceSubscriptions": "x"}, {"resourceSubscriptions": [7]}, {"taskIds": {}}]
)
def test_a_subscription_to_nonsense_is_refused(server, wanted):
    assert refused(server, MODERN, "subscriptions/listen", {"notifications": wanted}).code == -32602


def test_a_subscription_is_bounded(server):
    uris = ["shop://sign"] * (MAX_LISTENED + 1)
    listen(server, {"resourceSubscriptions": uris[1:]})
    wanted = {"notifications": {"resourceSubscriptions": uris}}
    assert refused(server, MODERN, "subscriptions/listen", wanted).code == -32602


def test_tasks_want_the_extension_and_an_id(server):
    params = {"notifications": {"taskIds": ["t"]}}
    assert refused(server, MODERN, "subscriptions/listen", params).code == -32021
    assert refused(server, MODERN, "tasks/get", {"taskId": "t"}).code == -32021
    assert refused(server, WITH_TASKS, "tasks/get", {}).code == -32602
    assert refused(server, WITH_TASKS, "tasks/update", {"taskId": "t", "inputResponses": 1}).code == -32602
    assert ask(server, WITH_TASKS, "tasks/cancel", {"taskId": "t"}).special == TaskRequest(
        verb="cancel", task_id="t"
    )
    assert refused(a_server(), WITH_TASKS, "tasks/get", {"taskId": "t"}).code == -32601


def test_subscriptions_of_a_session_want_a_resource_that_is_there(server):
    assert ask(server, LEGACY, "resources/subscribe", {"uri": "shop://sign"}) == {}
    assert refused(server, LEGACY, "resources/subscribe", {"uri": "x://none"}).code == -32002
    assert refused(server, LEGACY, "resources/subscribe", {"uri": 7}).code == -32602
    assert ask(server, LEGACY, "resources/unsubscribe", {"uri": "x://none"}) == {}
    server.catalog.add_resources(
        Resources(
            group="shop",
            owns=lambda uri: uri.startswith("box://"),
            read=read,
            watchable=lambda client, uri: uri == f"box://{client.owner}",
        )
    )
    own = f"box://{LEGACY.owner}"
    assert ask(server, LEGACY, "resources/subscribe", {"uri": own}) == {}
    assert refused(server, LEGACY, "resources/subscribe", {"uri": "box://bob"}).code == -32002
    work = ask(
        server,
        MODERN,
        "subscriptions/listen",
        {"notifications": {"resourceSubscriptions": [own, "box://bob"]}},
    )
    assert work.special.uris == (own,)
    assert refused(server, LEGACY, "resources/unsubscribe", {}).code == -32602


# Answers as bytes: around their id, in the shape of the era, and with nothing of what broke inside.


SERVER = a_server()


def a_work(*, modern):
    more = {"_meta": meta()} if modern else {}
    return Talk(SERVER).call(**more)


@pytest.mark.parametrize("id_", [0, -7, 10**30, 1.5, "a", 'q"\n', "ö"])
def test_a_result_stands_around_its_id(id_):
    assert strict_json.loads(conversation.around(id_, b'{"a":1}')) == {
        "jsonrpc": "2.0",
        "id": id_,
        "result": {"a": 1},
    }


def test_a_modern_result_says_that_it_is_complete_and_whose_it_is():
    modern = strict_json.loads(conversation.result_of(SERVER, a_work(modern=True), said("x")))
    assert (modern["resultType"], modern["_meta"]) == ("complete", {META_SERVER: SERVER.info})
    legacy = strict_json.loads(conversation.result_of(SERVER, a_work(modern=False), said("x")))
    assert legacy == {"content": [{"type": "text", "text": "x"}], "isError": False}


def test_a_question_is_a_result_with_its_state_and_the_word_on_a_hello():
    asked = InputRequired({"who": InputRequest("elicitation/create", {"message": "?"})})
    result = strict_json.loads(conversation.input_required(SERVER, a_work(modern=True), asked, "sealed", ACK))
    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {"who": {"method": "elicitation/create", "params": {"message": "?"}}}
    assert result["requestState"] == "sealed"
    assert result["_meta"]["space.creed.vcp/ack"] == ACK
    plain = strict_json.loads(conversation.input_required(SERVER, a_work(modern=True), asked, None))
    assert "requestState" not in plain


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (McpError(-32021, "lacks", {"x": 1}), -32021, "lacks"),
        (InvalidError("too blue"), -32602, "too blue"),
        (ForbiddenError("not yours"), -32602, "not yours"),
        (NotFoundError("none"), -32602, "none"),
        (ConflictError("moved on"), -32602, "moved on"),
        (DeadlineError("too slow"), -32603, "too slow"),
        (OverloadedError("too many"), -32603, "too many"),
        (PeerError("the other side"), -32603, "the other side"),
        (RuntimeError("the secret is 42"), -32603, conversation.INTERNAL.message),
    ],
)
def test_each_fault_has_its_code_and_only_ours_keep_their_words(error, code, words):
    found = conversation.refusal(a_work(modern=True), error)
    assert (found.code, found.message) == (code, words)


def test_an_error_without_an_id_says_null():
    assert strict_json.loads(conversation.refused(None, conversation.INTERNAL))["id"] is None
