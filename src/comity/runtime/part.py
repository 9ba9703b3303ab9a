"""A part is one capability of a node, and declares all that the rest needs to know about it.

- The class says what is known before anything is open: the name, the section of the settings, the tools,
  resources and prompts of MCP, the checks of `comity doctor`. It must be light to import.
- An object of the class is the open part. `open` makes its handlers, `serve` its doors; both push onto `runtime.stack`
  what has to be closed. A `comity mcp` that works by itself has handlers, and no doors.
- Everything has an empty default. Routes and paths are there after `serve`, the rest after `open`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

from msgspec import Struct

from comity.identity.protocol.rights import Right
from comity.runtime.settings import Settings

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from comity.http.asgi import App
    from comity.mcp.protocol.catalog import Prompt, Resources, Tool
    from comity.requests.metrics import Metric
    from comity.runtime.node_runtime import NodeRuntime

# Views of the page: facts, tables and drawn tables about one subject.


PAGE: Final = 50
MAX_PAGE: Final = 200

Kind = Literal["", "search", "verify", "try"]


class Fact(Struct, frozen=True, omit_defaults=True):
    """`copy` gives it a button that copies the value."""

    label: str
    value: str
    copy: bool = False
    mark: Literal["", "good", "bad"] = ""


class RowButton(Struct, frozen=True):
    """A button in each row with a value, which posts `{member: value}` to `path`."""

    label: str
    path: str
    member: str
    values: Sequence[str]


class Table(Struct, frozen=True, omit_defaults=True):
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    title: str = ""
    more: str = ""
    empty: str = "nothing yet"
    button: RowButton | None = None


class Matrix(Struct, frozen=True, omit_defaults=True):
    """How often the row was preferred to the column."""

    title: str
    names: Sequence[str]
    cells: Sequence[Sequence[int]]


class ViewPage(Struct, frozen=True, omit_defaults=True):
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    matrices: Sequence[Matrix] = ()


class ViewQuery(Struct, frozen=True):
    after: str = ""
    limit: int = PAGE
    text: str = ""


class View(NamedTuple):
    """`kind` says what else the page offers: a field to search with, a button that verifies, a form to try."""

    name: str
    title: str
    read: Callable[[ViewQuery], Awaitable[ViewPage]]
    kind: Kind = ""


def paged(rows: Sequence[Sequence[str]], query: ViewQuery) -> tuple[Sequence[Sequence[str]], str]:
    """Return the rows of this page, and where the next one begins. `after` is how many came before."""
    first = int(query.after) if query.after.isdecimal() and len(query.after) < 10 else 0
    last = first + query.limit
    return rows[first:last], str(last) if last < len(rows) else ""


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
    """A task that runs every so many seconds, and soon after the start."""

    every: float
    run: Callable[[], Awaitable[None]]


OpenNode = Callable[[], Awaitable["NodeRuntime"]]
"""Returns the open node for a tool. The first call opens it if necessary."""


class Part:
    name: ClassVar[str]
    settings: ClassVar[type[Struct] | None] = None
    """The section `[name]`; read with `runtime.settings.of(…)`."""
    tool_group: ClassVar[str] = ""
    """The name of its tools for `comity mcp --tools`."""
    instructions: ClassVar[str] = ""
    """A sentence about its tools for models that are offered some of them."""
    has_core_tools: ClassVar[bool] = False
    """Whether some of its tools are offered whatever `comity mcp --tools` names."""
    of_extensions: ClassVar[bool] = False
    """Whether its tools and resources are for clients with active VCP extensions only."""
    tool_right: ClassVar[Right | None] = None
    """The right that all its tools need, where it is more than the right to use MCP."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Its paths over HTTP, and in `open_paths` those that need no token, each with all that is below it. If the part is
    switched off, they answer with the sentence of `off_sentence`.
    """
    open_paths: ClassVar[tuple[str, ...]] = ()
    rights: ClassVar[Mapping[str, Right]] = MappingProxyType({})
    """The right that each of its paths needs, if it is not `manage`. A path that ends in `/` stands for all below it."""
    serves_outside: ClassVar[bool] = True
    """Whether its open paths can be served to other machines, on the outside door."""
    switch: ClassVar[str] = ""
    """How to switch it on, if not by the setting `off`."""

    routes: "Sequence[BaseRoute]" = ()
    hot: "Mapping[str, App]" = MappingProxyType({})
    """Paths that are answered without the router."""
    sockets: "Mapping[str, App]" = MappingProxyType({})
    """Paths of WebSockets."""
    public: Collection[str] = ()
    """Which of its paths need no token, and in `public_prefixes` the beginnings of such paths."""
    public_prefixes: tuple[str, ...] = ()
    chores: Sequence[Chore] = ()
    views: Sequence[View] = ()
    """Its views on the page at `/`."""

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        """Return whether a node with these settings opens the part."""
        return cls.name not in settings.off

    @classmethod
    def off_sentence(cls) -> str:
        """Return the answer for the part where it is switched off."""
        how = cls.switch or f"take `{cls.name}` out of the setting `off`"
        return f"the part {cls.name} is switched off on this node; to switch it on, {how} and start the node again"

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        return ()

    @classmethod
    def resources(cls, runtime: OpenNode) -> "Iterable[Resources]":
        return ()

    @classmethod
    def prompts(cls, runtime: OpenNode) -> "Iterable[Prompt]":
        return ()

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        """Return the findings for `comity doctor`. Change nothing; no node needs to run."""
        return ()

    async def open(self, runtime: "NodeRuntime") -> None:
        pass

    async def serve(self, runtime: "NodeRuntime") -> None:
        """Make doors. The address of the node is known and nothing is answered there yet. What is pushed onto the stack here
        is closed before the HTTP server.
        """

    def metrics(self) -> "Iterable[Metric]":
        return ()

    async def panel(self) -> Panel | None:
        return None
