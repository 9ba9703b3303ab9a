"""A request that cannot be answered on the spot: what is to be done for it, and what it says about itself."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from comity.mcp.protocol.catalog import Selection, Tool
from comity.mcp.protocol.context import Asker, Context, meta_of
from comity.mcp.protocol.results import Json
from comity.mcp.protocol.revisions import META_LOG_LEVEL, TASKS
from comity.wire.jsonrpc import Id


class Listen(Struct, frozen=True, kw_only=True):
    """What a modern client wants to hear of."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    def to_json(self) -> Json:
        heard: Json = {
            "toolsListChanged": self.tools,
            "promptsListChanged": self.prompts,
            "resourcesListChanged": self.resources,
            "resourceSubscriptions": list(self.uris),
            "taskIds": list(self.tasks),
        }
        return {name: wanted for name, wanted in heard.items() if wanted}


class TaskRequest(Struct, frozen=True, kw_only=True):
    """tasks/get, tasks/update or tasks/cancel."""

    verb: str
    task_id: str
    inputs: Mapping[str, Any] = {}


class RunningRequest(Struct, kw_only=True):
    """A request that is being worked on. `label` names it in the record; `special` is work of another kind
    than calling `start`: a subscription, or a question about a task.
    """

    id: Id
    method: str
    params: Json
    asker: Asker
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
        """That of a modern request; None for silence."""
        return self.meta.get(META_LOG_LEVEL)

    @property
    def inputs(self) -> Json:
        given = self.params.get("inputResponses")
        return given if isinstance(given, dict) else {}

    @property
    def as_task(self) -> bool:
        if self.tool is None or self.tool.task == "forbidden":
            return False
        return self.asker.modern and self.asker.has_extension(TASKS)
