"""The table of methods: from a request to its answer, or to the work that will give one.

Each era has its own table. Some requests are answered at once with bytes; most of these are made once per view. All others
become a `RunningRequest`: the code that runs it calls `work.start`, and gives the result to `work.finish`.

- A tool that is not in the view is -32602, unless a namespace or an inactive extension has its own answer.
- Arguments that break a tool's schema are an error of the tool (`isError`), so that a model can do better.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct
from msgspec.structs import replace

from comity.mcp.protocol.catalog import (
    NO_PROFILE,
    VCP_SESSION,
    Catalog,
    CatalogView,
    Completer,
    Selection,
    Tool,
    ToolAnswer,
    ToolHandler,
    remedy_for,
    right_needed,
)
from comity.mcp.protocol.context import LEVELS, Context, Handshake, McpClient, meta_of
from comity.mcp.protocol.results import (
    ICONS,
    META_LOG_LEVEL,
    META_SERVER,
    MODERN,
    RESOURCE_NOT_FOUND,
    TASKS,
    Contents,
    Json,
    McpError,
    PromptResult,
    ToolResult,
    failed,
    invalid_params,
    missing_capability,
    no_such_method,
)
from comity.wire import strict_json
from comity.wire.jsonrpc import INTERNAL_ERROR, Id, Params, RpcRequest

# A request that cannot be answered at once.


class Listen(Struct, frozen=True, kw_only=True):
    """The changes that a modern client subscribes to."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    def to_json(self) -> Json:
        wanted: Json = {
            "toolsListChanged": self.tools,
            "promptsListChanged": self.prompts,
            "resourcesListChanged": self.resources,
            "resourceSubscriptions": list(self.uris),
            "taskIds": list(self.tasks),
        }
        return {name: value for name, value in wanted.items() if value}


class TaskRequest(Struct, frozen=True, kw_only=True):
    """tasks/get, tasks/update or tasks/cancel."""

    verb: str
    task_id: str
    inputs: Mapping[str, Any] = {}


class RunningRequest(Struct, kw_only=True):
    """A request that is being processed. `label` names it in the record; `special` is other work than calling `start`: a
    subscription, or a question about a task.
    """

    id: Id
    method: str
    params: Json
    client: McpClient
    selection: Selection
    label: str
    start: Callable[[Context], Any]
    shape: Callable[[Any], Json]
    tool: Tool | None = None
    special: Listen | TaskRequest | None = None
    deadline: float = 60.0

    @property
    def meta(self) -> Json:
        return meta_of(self.params)

    @property
    def progress_token(self) -> Any:
        token = self.meta.get("progressToken")
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None

    @property
    def log_level(self) -> Any:
        """Return the log level of a modern request; None for no messages."""
        return self.meta.get(META_LOG_LEVEL)

    @property
    def inputs(self) -> Json:
        given = self.params.get("inputResponses")
        return given if isinstance(given, dict) else {}

    @property
    def as_task(self) -> bool:
        if self.tool is None or self.tool.task == "forbidden":
            return False
        return self.client.modern and self.client.has_extension(TASKS)


LIST_TTL: Final = 60_000
MAX_COMPLETIONS: Final = 100
MAX_LISTENED: Final = 256
EMPTY_RESULT: Final = b"{}"


class Server(Struct, frozen=True, kw_only=True):
    """`handshake` is the one that clients may begin with. `current` returns the client of a session as it is now: what was
    agreed on may have ended.
    """

    catalog: Catalog
    info: Json
    icons: Sequence[Json] = ()
    instructions: str | Callable[[Selection, McpClient], str] = ""
    handshake: Handshake | None = None
    tasks: bool = False
    current: Callable[[McpClient], McpClient] = lambda client: client

    def instructions_for(self, selection: Selection, client: McpClient) -> str:
        """Return the instructions about the tools that this client sees."""
        text = self.instructions
        return text if isinstance(text, str) else text(selection, client)

    def introduction(self, client: McpClient) -> Json:
        """Return who the server is, with icons since the revision that has them. Other results name it without."""
        return (
            {**self.info, "icons": list(self.icons)} if self.icons and client.version >= ICONS else self.info
        )

    def hello_in_initialize(self, params: Json) -> Any:
        """Return the hello; None if there is none, or no handshake."""
        return None if self.handshake is None else self.handshake.find(params)

    def hello_in_request(self, meta: Json) -> Any:
        """Return the hello in the `_meta` of a modern request, in the same way."""
        return None if self.handshake is None else self.handshake.find_in_request(meta)

    def with_reply(self, result: Json, reply: Json | None) -> Json:
        """Return the result of a modern request with the answer to its hello."""
        if reply is None or self.handshake is None:
            return result
        return self.handshake.write_into_result(result, reply)

    def view(self, selection: Selection, client: McpClient, *, complete: bool = False) -> CatalogView:
        caller = client.caller
        if not caller.may("rooms"):
            selection = replace(selection, profile=NO_PROFILE)  # ruling 61: sessions in rooms are the owner's
        # a client that sent a hello sees more tools, also without an extension
        active = client.active if client.attached is None else client.active | {VCP_SESSION}
        return self.catalog.view(selection, active, caller.rights, complete=complete)


Begun = bytes | RunningRequest


class _Call(NamedTuple):
    server: Server
    view: CatalogView
    client: McpClient
    request: RpcRequest
    params: Json


_Method = Callable[[_Call], Begun]


def begin(server: Server, selection: Selection, client: McpClient, request: RpcRequest) -> Begun:
    """Return the result as bytes, or the work that leads to one. Raise McpError."""
    table = _MODERN if client.modern else _LEGACY
    method = table.get(request.method)
    if method is None:
        raise no_such_method(request.method)
    if client.attached is not None and not client.modern:
        client = server.current(client)
    return method(_Call(server, server.view(selection, client), client, request, _object(request.params)))


def capabilities(server: Server, client: McpClient) -> Json:
    """Return what the server announces. A legacy client learns of extensions by its hello."""
    shown: Json = {"tools": {"listChanged": True}}
    shown["resources"] = {"listChanged": True} if client.modern else {"subscribe": True, "listChanged": True}
    shown["prompts"] = {"listChanged": True}
    if server.catalog.completes:
        shown["completions"] = {}
    if not client.modern:
        shown["logging"] = {}
    extensions: Json = {}
    handshake = server.handshake
    if client.modern and handshake is not None and handshake.settings:
        extensions[handshake.extension] = handshake.settings
    if client.modern and server.tasks:
        extensions[TASKS] = {}
    if extensions:
        shown["extensions"] = extensions
    return shown


def finished(server: Server, client: McpClient, result: Json) -> Json:
    """Return the result in the form of the client's era."""
    if not client.modern:
        return result
    answer = {"resultType": "complete", **result}
    answer["_meta"] = {**answer.get("_meta", {}), META_SERVER: server.info}
    return answer


def cacheable(client: McpClient, result: Json, ttl: int, *, private: bool) -> Json:
    if not client.modern:
        return result
    return {**result, "ttlMs": ttl, "cacheScope": "private" if private else "public"}


def _object(params: Params | None) -> Json:
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise invalid_params("params must be an object")
    return params


def _ping(_call: _Call) -> Begun:
    return EMPTY_RESULT


def _discover(call: _Call) -> Begun:
    result: Json = {"supportedVersions": list(MODERN), "capabilities": capabilities(call.server, call.client)}
    if instructions := call.server.instructions_for(call.view.selection, call.client):
        result["instructions"] = instructions
    answer = finished(
        call.server,
        call.client,
        cacheable(call.client, result, LIST_TTL, private=bool(call.client.active)),
    )
    answer["_meta"][META_SERVER] = call.server.introduction(call.client)
    return _bytes(answer)


def _refuse_cursor(params: Json) -> None:
    """Refuse a cursor: one page holds everything."""
    if params.get("cursor") is not None:
        raise invalid_params("there is no such cursor; leave it out")


def _list(make: Callable[[CatalogView, bool], Json]) -> _Method:
    """Return the method of a list that is made once for a view and an era."""

    def listed(call: _Call) -> Begun:
        _refuse_cursor(call.params)
        ready = call.view.ready.get((call.request.method, call.client.modern))
        if ready is None:
            result = cacheable(
                call.client, make(call.view, call.client.modern), LIST_TTL, private=call.view.private
            )
            ready = call.view.ready[call.request.method, call.client.modern] = _bytes(
                finished(call.server, call.client, result)
            )
        return ready

    return listed


def _resources_list(call: _Call) -> Begun:
    _refuse_cursor(call.params)

    async def gather(context: Context) -> list[Json]:
        found: list[Json] = []
        for kind in call.view.resources:
            listed = kind.list(context)
            found += await listed if isinstance(listed, Awaitable) else listed
        return found

    def shape(found: list[Json]) -> Json:
        return cacheable(call.client, {"resources": found}, LIST_TTL, private=True)

    return _work(call, start=gather, shape=shape)


def _tools_call(call: _Call) -> Begun:
    name = call.params.get("name")
    if not isinstance(name, str):
        raise invalid_params("tools/call needs the tool's name as params.name")
    tool = call.view.tools.get(name)
    arguments = call.params.get("arguments", {})
    if tool is None:
        view = call.server.view(call.view.selection, call.client, complete=True)
        return _bytes(finished(call.server, call.client, _absent(view, call.client, name).to_json()))
    if tool.validator is None and not isinstance(arguments, dict):
        raise invalid_params("params.arguments must be an object")
    if tool.task == "required" and not (call.client.modern and call.client.has_extension(TASKS)):
        raise missing_capability(f"{name} runs as a task only", {"extensions": {TASKS: {}}})
    handler = tool.handler
    try:
        complaint = tool.complain(arguments)
    except Exception as fault:  # noqa: BLE001 - a schema or a validator of a tool that does not work
        complaint, handler = None, _broken(fault)
    if complaint is not None:
        refused = failed(f"{name} cannot be called like this: {complaint}")
        if tool.render_invalid is not None:
            refused = tool.render_invalid(complaint)
        return _bytes(finished(call.server, call.client, refused.to_json()))
    return RunningRequest(
        id=call.request.id,
        method=call.request.method,
        params=call.params,
        client=call.client,
        selection=call.view.selection,
        label=name,
        start=lambda context: handler(context, arguments),
        shape=_tool_shape(tool, call.client),
        tool=tool,
        deadline=tool.deadline,
    )


def _broken(fault: Exception) -> ToolHandler:
    """Return a handler that raises the fault, so that it is answered and logged like others."""

    def handler(_context: Context, _arguments: Json) -> ToolAnswer:
        raise fault

    return handler


def _absent(view: CatalogView, client: McpClient, name: str) -> ToolResult:
    dormant = view.dormant.get(name)
    if dormant is not None and dormant.extension is not None:
        remedy = remedy_for(dormant.extension)
        return failed(remedy if client.vcp_ended is None else f"{client.vcp_ended}\n{remedy}")
    if dormant is not None and dormant.right not in client.caller.rights:
        return failed(right_needed(dormant))
    namespace = view.namespace_of(name)
    if namespace is not None:
        return namespace.refuse(name, view.selection)
    raise invalid_params(f"Unknown tool: {name[:100]}; tools/list names those there are")


def _tool_shape(tool: Tool, client: McpClient) -> Callable[[Any], Json]:
    def shape(result: ToolResult) -> Json:
        complain = tool.complain_of_output
        answer = result.to_json()
        if complain is not None:
            missing = "there is no structured content" if result.structured is UNSET else None
            complaint = missing or complain(result.structured)
            if complaint is not None:
                if not result.is_error:
                    raise McpError(
                        INTERNAL_ERROR, f"{tool.name} broke its own output schema"
                    ) from ValueError(complaint)
                # ruling 52: clients hold errors to the schema too, and would show their own complaint instead
                answer.pop("structuredContent", None)
        if not client.modern and not isinstance(answer.get("structuredContent", {}), dict):
            del answer["structuredContent"]  # any JSON only since the modern era
        return answer

    return shape


def _resources_read(call: _Call) -> Begun:
    uri = call.params.get("uri")
    if not isinstance(uri, str):
        raise invalid_params("resources/read needs the resource's address as params.uri")
    kind = call.view.resources_for(uri)
    if kind is None:
        dormant = call.view.dormant_for(uri)
        if dormant is not None and dormant.extension is not None:
            raise invalid_params(remedy_for(dormant.extension), {"uri": uri})
        raise resource_not_found(call.client, uri)
    read = kind.read

    def shape(answer: Contents) -> Json:
        return cacheable(call.client, {"contents": list(answer.contents)}, answer.ttl, private=answer.private)

    return _work(call, start=lambda context: read(context, uri), shape=shape)


def resource_not_found(client: McpClient, uri: str) -> McpError:
    if client.modern:
        return invalid_params("Resource not found", {"uri": uri})
    return McpError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})


def _prompts_get(call: _Call) -> Begun:
    name = call.params.get("name")
    prompt = call.view.prompts.get(name) if isinstance(name, str) else None
    if prompt is None:
        raise invalid_params("there is no such prompt; prompts/list names those there are")
    given = call.params.get("arguments") or {}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise invalid_params("params.arguments must be an object of strings")
    lacking = [a["name"] for a in prompt.arguments if a.get("required") and a["name"] not in given]
    if lacking:
        raise invalid_params(f"prompt {prompt.name} needs {', '.join(lacking)}")

    def start(context: Context) -> Any:
        return prompt.handler(context, given)

    return _work(call, start=start, shape=PromptResult.to_json)


def _complete(call: _Call) -> Begun:
    if not call.server.catalog.completes:
        raise no_such_method(call.request.method)
    reference, argument = call.params.get("ref"), call.params.get("argument")
    completer: Completer | None = None
    match reference:
        case {"type": "ref/prompt", "name": str(name)}:
            if name not in call.view.prompts:
                raise invalid_params("there is no such prompt")
            completer = call.view.prompts[name].complete
        case {"type": "ref/resource", "uri": str(uri)}:
            for kind in call.view.resources:
                if any(template.get("uriTemplate") == uri for template in kind.templates) or kind.owns(uri):
                    completer = kind.complete
                    break
        case _:
            raise invalid_params("params.ref must be a ref/prompt with a name or a ref/resource with a uri")
    match argument:
        case {"name": str(named), "value": str(typed)}:
            pass
        case _:
            raise invalid_params("params.argument must have a name and a value, both strings")
    others = call.params.get("context")
    known = others.get("arguments") if isinstance(others, dict) else None
    given = known if isinstance(known, dict) else {}

    def shape(values: Sequence[str]) -> Json:
        return {
            "completion": {
                "values": list(values[:MAX_COMPLETIONS]),
                "total": len(values),
                "hasMore": len(values) > MAX_COMPLETIONS,
            }
        }

    def start(context: Context) -> Any:
        return () if completer is None else completer(context, named, typed, given)

    return _work(call, start=start, shape=shape)


def _listen(call: _Call) -> Begun:
    wanted = call.params.get("notifications")
    if not isinstance(wanted, dict):
        raise invalid_params("subscriptions/listen needs params.notifications")
    uris, tasks = wanted.get("resourceSubscriptions", []), wanted.get("taskIds", [])
    for listed in (uris, tasks):
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise invalid_params("resourceSubscriptions and taskIds are lists of strings")
        if len(listed) > MAX_LISTENED:
            raise invalid_params(f"at most {MAX_LISTENED} addresses in one subscription")
    if tasks and not call.client.has_extension(TASKS):
        raise missing_capability("taskIds are of the tasks extension", {"extensions": {TASKS: {}}})
    listen = Listen(
        tools=wanted.get("toolsListChanged") is True,
        prompts=wanted.get("promptsListChanged") is True,
        resources=wanted.get("resourcesListChanged") is True,
        uris=tuple(uri for uri in uris if _watchable(call.view, call.client, uri)),
        tasks=tuple(tasks),
    )
    return _work(call, special=listen)


def _task(call: _Call) -> Begun:
    if not call.server.tasks:
        raise no_such_method(call.request.method)
    if not call.client.has_extension(TASKS):
        raise missing_capability(
            f"{call.request.method} is of the tasks extension", {"extensions": {TASKS: {}}}
        )
    task_id, inputs = call.params.get("taskId"), call.params.get("inputResponses", {})
    if not isinstance(task_id, str):
        raise invalid_params(f"{call.request.method} needs params.taskId")
    if not isinstance(inputs, dict):
        raise invalid_params("params.inputResponses must be an object")
    verb = call.request.method.removeprefix("tasks/")
    asked = TaskRequest(verb=verb, task_id=task_id, inputs=inputs)
    return _work(call, special=asked)


def _set_level(call: _Call) -> Begun:
    if call.params.get("level") not in LEVELS:
        raise invalid_params(f"params.level must be one of {', '.join(LEVELS)}")
    return EMPTY_RESULT  # the session keeps it


def _subscribe(call: _Call) -> Begun:
    uri = call.params.get("uri")
    if not isinstance(uri, str):
        raise invalid_params("params.uri must be the resource's address")
    if not _watchable(call.view, call.client, uri):
        raise resource_not_found(call.client, uri)
    return EMPTY_RESULT  # the session keeps it


def _watchable(view: CatalogView, client: McpClient, uri: str) -> bool:
    kind = view.resources_for(uri)
    return kind is not None and kind.watchable(client, uri)


def _unsubscribe(call: _Call) -> Begun:
    if not isinstance(call.params.get("uri"), str):
        raise invalid_params("params.uri must be the resource's address")
    return EMPTY_RESULT


def _work(call: _Call, **more: Any) -> RunningRequest:
    method = call.request.method
    more = {"label": method, "start": _unstarted, "shape": dict, **more}
    return RunningRequest(
        id=call.request.id,
        method=method,
        params=call.params,
        client=call.client,
        selection=call.view.selection,
        **more,
    )


def _unstarted(_context: Context) -> Any:
    raise TypeError("this work is of a special kind and is not started")


_bytes = strict_json.dumps

_BOTH: dict[str, _Method] = {
    "tools/list": _list(lambda view, modern: view.tools_json(modern=modern)),
    "tools/call": _tools_call,
    "resources/list": _resources_list,
    "resources/templates/list": _list(lambda view, _modern: view.templates_json),
    "resources/read": _resources_read,
    "prompts/list": _list(lambda view, _modern: view.prompts_json),
    "prompts/get": _prompts_get,
    "completion/complete": _complete,
}
_LEGACY: Final[dict[str, _Method]] = {
    **_BOTH,
    "ping": _ping,
    "logging/setLevel": _set_level,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "shutdown": _ping,
}
_MODERN: Final[dict[str, _Method]] = {
    **_BOTH,
    "server/discover": _discover,
    "subscriptions/listen": _listen,
    "tasks/get": _task,
    "tasks/update": _task,
    "tasks/cancel": _task,
}
