"""A part is one capability of a node, and says all that the rest needs to know about it.

- The class says what is known before anything is open: the name, the section of the settings, the tools,
  resources and prompts of MCP, the checks of `comity doctor`. It must be light to import: `comity mcp` answers with it at once.
- An object of the class is the open part. `open` makes its rooms, `serve` its doors; both push onto `house.stack`
  what has to be closed. A `comity mcp` that works by itself has rooms, and no doors.
- Everything has an empty default. Routes and paths are there after `serve`, the rest after `open`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from msgspec import Struct

from comity.identity.protocol.rights import Right
from comity.runtime.settings import Settings
from comity.runtime.views import View

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from comity.http.asgi import App
    from comity.mcp.protocol.catalog import Prompt, Resources, Tool
    from comity.requests.metrics import Metric
    from comity.runtime.node_runtime import House


class CheckResult(NamedTuple):
    """What one check of `comity doctor` found, and what to do about it."""

    check: str
    mark: Literal["ok", "warn", "fail"]
    finding: str
    remedy: str = ""


class Panel(NamedTuple):
    """A box on the first view of the page. Each row is a label and a value; what a row stands for keeps its place."""

    title: str
    rows: Sequence[tuple[str, str]]


class Chore(NamedTuple):
    """Something to do every so many seconds, and soon after the start."""

    every: float
    run: Callable[[], Awaitable[None]]


OpenHouse = Callable[[], Awaitable["House"]]
"""The open node, for a tool. The first call opens it where that has not been done."""


class Part:
    name: ClassVar[str]
    settings: ClassVar[type[Struct] | None] = None
    """The section `[name]`; read with `house.settings.of(…)`."""
    room: ClassVar[str] = ""
    """What its tools are chosen by with `comity mcp --rooms`."""
    instructions: ClassVar[str] = ""
    """What a model is told of its tools, where it is offered some of them."""
    has_core_tools: ClassVar[bool] = False
    """Whether some of its tools are offered whatever `comity mcp --rooms` names."""
    tool_right: ClassVar[Right | None] = None
    """The right that all its tools need, where it is more than the right to use MCP."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Its paths over HTTP, and `open_paths` those that need no token, each with all that is below it. Also where the part
    is switched off they are known, so that whoever asks is told.
    """
    open_paths: ClassVar[tuple[str, ...]] = ()
    rights: ClassVar[Mapping[str, Right]] = MappingProxyType({})
    """The right that each of its paths needs, if it is not `manage`. A path that ends in `/` stands for all below it."""
    switch: ClassVar[str] = ""
    """How to switch it on, where that is not the setting `off`."""

    routes: "Sequence[BaseRoute]" = ()
    hot: "Mapping[str, App]" = MappingProxyType({})
    """Paths that are answered without a router before them."""
    sockets: "Mapping[str, App]" = MappingProxyType({})
    """Paths of WebSockets."""
    public: Collection[str] = ()
    """Which of its paths need no token, and `public_prefixes` how those begin that hold a name."""
    public_prefixes: tuple[str, ...] = ()
    chores: Sequence[Chore] = ()
    views: Sequence[View] = ()
    """What the page at `/` shows of it, each as a page of its own."""

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        """Whether a node with these settings opens the part."""
        return cls.name not in settings.off

    @classmethod
    def off_sentence(cls) -> str:
        """What is said to whoever asks for the part where it is switched off."""
        how = cls.switch or f"take `{cls.name}` out of the setting `off`"
        return f"the part {cls.name} is switched off on this node; to switch it on, {how} and start the node again"

    @classmethod
    def tools(cls, house: OpenHouse) -> "Iterable[Tool]":
        return ()

    @classmethod
    def resources(cls, house: OpenHouse) -> "Iterable[Resources]":
        return ()

    @classmethod
    def prompts(cls, house: OpenHouse) -> "Iterable[Prompt]":
        return ()

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        """For `comity doctor`. Nothing is changed, and no node needs to run."""
        return ()

    async def open(self, house: "House") -> None:
        pass

    async def serve(self, house: "House") -> None:
        """Called when the address of the node is known and nothing is answered there yet. What is pushed onto
        the stack here is closed before the HTTP server is.
        """

    def metrics(self) -> "Iterable[Metric]":
        return ()

    async def panel(self) -> Panel | None:
        return None
