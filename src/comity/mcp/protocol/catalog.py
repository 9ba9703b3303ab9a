"""What a server offers: tools, resources and prompts, registered by the parts that have them.

- A client sees a *view*. It depends on the selection of its connection (groups and profile) and on its active VCP
  extensions. A view is made once and contains its lists as bytes.
- A tool says when it is visible: its group, its profiles, the extension it belongs to, the right that it needs
  (`identity/protocol/rights.py`). It can have its own validator and its own format of errors.
- A namespace is a group of names with an answer of its own to an unknown name.
- Lists keep the order of registration. After a change of the catalogue, all views are made again and the
  listeners are called.
"""

import functools
import operator
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from comity.identity.protocol.rights import RIGHTS_OF, Right
from comity.mcp.protocol.context import Context, McpClient
from comity.mcp.protocol.results import Contents, InputRequired, Json, PromptResult, ToolResult
from comity.wire.errors import ConfigError
from comity.wire.json_schema import Complain, complainer

_Added = TypeVar("_Added")

ToolAnswer = ToolResult | InputRequired
ToolHandler = Callable[[Context, dict[str, Any]], ToolAnswer | Awaitable[ToolAnswer]]
PromptAnswer = PromptResult | InputRequired
PromptHandler = Callable[[Context, dict[str, str]], PromptAnswer | Awaitable[PromptAnswer]]
ReadAnswer = Contents | InputRequired
ReadHandler = Callable[[Context, str], ReadAnswer | Awaitable[ReadAnswer]]
Completer = Callable[[Context, str, str, Mapping[str, str]], Sequence[str] | Awaitable[Sequence[str]]]
"""Argument, text typed so far, other arguments -> proposals."""

ANYTHING: Mapping[str, Any] = MappingProxyType({"type": "object"})
ListName = Literal["tools", "resources", "prompts"]
MAX_VIEWS: Final = 256
"""How many kinds of clients have cached lists; connections with different demands are different kinds."""


class Selection(Struct, frozen=True):
    """What a connection was opened for. No groups named: all. `demands` is for the part that knows it. `folder` is where
    the client was started, None for one that is not on this machine. `vcp` are the VCP extensions of a client that
    cannot say a hello (ruling 48).
    """

    groups: frozenset[str] | None = None
    profile: str = "full"
    demands: Any = None
    folder: str | None = None
    vcp: tuple[str, ...] = ()

    def admits(self, group: str, profiles: frozenset[str] | None) -> bool:
        if self.groups is not None and group not in self.groups and group != CORE_GROUP:
            return False
        return profiles is None or self.profile in profiles


NO_PROFILE = ""
"""Of a client that gets no tools that are in a profile."""
CORE_GROUP = "core"
"""Whatever is registered under this group is always there."""
VCP_SESSION = "VCP"
"""As the extension of a tool: the tool exists for clients that sent a hello."""


class Tool(Struct, frozen=True, kw_only=True, dict=True):
    """A handler that is a plain function is run in place and must not wait for anything.

    `audit`: *tally* for what changes nothing (counted, alike calls of one moment in one entry), *own* where
    the handler runs the pipeline itself. `task`: for a client with the tasks extension, what the handler gives at
    once is its answer, also a question; what has to be awaited becomes a task. `right`: only for callers who have it.
    `accepted` is the schema that arguments are checked with where the listed one is shorter.
    """

    name: str
    handler: ToolHandler
    group: str
    description: str
    title: str = ""
    input_schema: Mapping[str, Any] = ANYTHING
    accepted: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None
    profiles: frozenset[str] | None = None
    extension: str | None = None
    right: Right = "mcp"
    task: Literal["forbidden", "optional", "required"] = "forbidden"
    audit: Literal["tally", "own"] = "tally"
    deadline: float = 60.0
    validator: Complain | None = None
    render_invalid: Callable[[str], ToolResult] | None = None

    @functools.cached_property
    def complain(self) -> Complain:
        return self.validator or complainer(self.accepted or self.input_schema)

    @functools.cached_property
    def complain_of_output(self) -> Complain | None:
        return None if self.output_schema is None else complainer(self.output_schema)

    @functools.cached_property
    def mirrored(self) -> Mapping[tuple[str, ...], str]:
        """Map paths in the arguments to the suffixes of their `Mcp-Param-` headers."""
        found: dict[tuple[str, ...], str] = {}
        _find_mirrored(self.input_schema, (), found)
        return found

    def to_json(self, *, modern: bool) -> Json:
        """Return the tool as in lists. Legacy clients refuse a list with results that are no objects."""
        shown: Json = {"name": self.name}
        if self.title:
            shown["title"] = self.title
        shown["description"] = self.description
        shown["inputSchema"] = dict(self.input_schema)
        if self.output_schema is not None and (modern or self.output_schema.get("type") == "object"):
            shown["outputSchema"] = dict(self.output_schema)
        if self.annotations is not None:
            shown["annotations"] = dict(self.annotations)
        return shown


class Resources(Struct, frozen=True, kw_only=True):
    """Resources of one kind. `list` may depend on the client; `owns` returns whether a URI is of this kind; `read` raises
    NotFoundError for a missing one, also if the client may not know of it.
    """

    group: str
    owns: Callable[[str], bool]
    read: ReadHandler
    list: Callable[[Context], Sequence[Json] | Awaitable[Sequence[Json]]] = lambda _context: ()
    templates: Sequence[Json] = ()
    extension: str | None = None
    complete: Completer | None = None
    watchable: Callable[[McpClient, str], bool] = lambda _client, _uri: True
    """Returns whether this client may subscribe to an address of the kind, which must be readable."""


class Prompt(Struct, frozen=True, kw_only=True):
    name: str
    handler: PromptHandler
    group: str
    description: str = ""
    title: str = ""
    arguments: Sequence[Json] = ()
    right: Right = "mcp"
    complete: Completer | None = None

    def to_json(self) -> Json:
        shown: Json = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "arguments": [dict(argument) for argument in self.arguments],
        }
        return {name: value for name, value in shown.items() if value}


class Namespace(Struct, frozen=True):
    """`refuse` answers a call to a name with this prefix that is not in the view."""

    prefix: str
    refuse: Callable[[str, Selection], ToolResult]
    list_meta: Callable[[Selection], Json] = lambda _selection: {}


class Catalog:
    def __init__(self) -> None:
        self._place = 0
        self._tools: list[tuple[int, Tool]] = []
        self._rights: frozenset[Right] = frozenset({"mcp"})
        self._granted: dict[frozenset[Right], frozenset[Right]] = {}
        """The rights that matter here, by those of a client."""
        self._later: list[tuple[int, Callable[[], Iterable[Tool]]]] = []
        self._of_extensions: list[
            tuple[int, Callable[[], Iterable[Tool]], Callable[[], Iterable[Resources]]]
        ] = []
        self._resources: list[tuple[int, Resources]] = []
        self._prompts: dict[str, Prompt] = {}
        self._namespaces: list[Namespace] = []
        self._views: dict[tuple[Selection, frozenset[str], frozenset[Right]], CatalogView] = {}
        self._on_change: list[Callable[[ListName], None]] = []

    def add_tools(self, tools: Iterable[Tool]) -> None:
        """Add all of them, or none if one cannot be added."""
        self._register(self._next_place(), tools)
        self._changed("tools")

    def add_tools_later(self, make: Callable[[], Iterable[Tool]]) -> None:
        """Add tools that are made for the first client that lists or calls one."""
        self._later.append((self._next_place(), make))
        self._views.clear()

    def add_of_extensions(
        self, tools: Callable[[], Iterable[Tool]], resources: Callable[[], Iterable[Resources]]
    ) -> None:
        """Add what only clients with active extensions see. It is made for the first such client, and for the first call
        of a tool that is not there.
        """
        self._of_extensions.append((self._next_place(), tools, resources))
        self._views.clear()

    def remove_tools(self, names: Iterable[str]) -> None:
        gone = frozenset(names)
        self._tools = [(place, tool) for place, tool in self._tools if tool.name not in gone]
        self._changed("tools")

    def add_resources(self, *resources: Resources) -> None:
        place = self._next_place()
        self._resources.extend((place, kind) for kind in resources)
        self._changed("resources")

    def add_prompts(self, *prompts: Prompt) -> None:
        for prompt in prompts:
            self._prompts[prompt.name] = prompt
            self._need({prompt.right})
        self._changed("prompts")

    def remove_prompts(self, *names: str) -> None:
        for name in names:
            self._prompts.pop(name, None)
        self._changed("prompts")

    def add_namespace(self, namespace: Namespace) -> None:
        self._namespaces.append(namespace)
        self._changed("tools")

    @property
    def completes(self) -> bool:
        """Return whether a prompt or a resource completes arguments."""
        prompts = any(prompt.complete is not None for prompt in self._prompts.values())
        return prompts or any(kind.complete is not None for _, kind in self._resources)

    def on_change(self, callback: Callable[[ListName], None]) -> None:
        """Call it with the name of each list that has changed."""
        self._on_change.append(callback)

    def view(
        self,
        selection: Selection,
        active: frozenset[str],
        rights: frozenset[Right] = RIGHTS_OF["model"],
        *,
        complete: bool = False,
    ) -> "CatalogView":
        """Return what a client with these rights sees. The door has checked that it may use MCP. A `complete` view knows
        all tools of inactive extensions.
        """
        # no client has seen these before, so this is no change of a list
        while self._later:
            place, make = self._later.pop(0)
            self._register(place, make())
        while self._of_extensions and (active or complete):
            place, tools, resources = self._of_extensions.pop(0)
            self._register(place, tools())
            self._resources += [(place, kind) for kind in resources()]
            self._views.clear()
        granted = self._granted.get(rights)
        if granted is None:
            granted = self._granted[rights] = self._rights & (rights | {"mcp"})
        key = selection, active, granted
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= MAX_VIEWS:
                self._views.clear()
            view = self._views[key] = CatalogView(
                selection,
                active,
                granted,
                private=bool(active) or granted != self._rights,
                tools=_in_order(self._tools),
                resources=_in_order(self._resources),
                prompts=tuple(self._prompts.values()),
                namespaces=tuple(self._namespaces),
            )
        return view

    def _next_place(self) -> int:
        """Return the place in all lists of what is added now."""
        self._place += 1
        return self._place

    def _register(self, place: int, tools: Iterable[Tool]) -> None:
        """Add tools. Raise ConfigError if a name is taken in a profile."""
        added = list(self._tools)
        taken: dict[str, list[frozenset[str] | None]] = {}
        for _, tool in added:
            taken.setdefault(tool.name, []).append(tool.profiles)
        for tool in tools:
            others = taken.setdefault(tool.name, [])
            if any(tool.profiles is None or other is None or tool.profiles & other for other in others):
                raise ConfigError(f"a tool named {tool.name} is there already; choose another name")
            others.append(tool.profiles)
            added.append((place, tool))
        self._tools = added
        self._need({tool.right for _, tool in added})

    def _need(self, rights: Iterable[Right]) -> None:
        self._rights = self._rights.union(rights)
        self._granted.clear()

    def _changed(self, what: ListName) -> None:
        self._views.clear()
        for callback in self._on_change:
            callback(what)


def _in_order(placed: Iterable[tuple[int, _Added]]) -> tuple[_Added, ...]:
    return tuple(added for _, added in sorted(placed, key=operator.itemgetter(0)))


class CatalogView:
    """What one kind of client sees. `ready` caches whole answers by list and era."""

    def __init__(
        self,
        selection: Selection,
        active: frozenset[str],
        granted: frozenset[Right],
        *,
        private: bool,
        tools: tuple[Tool, ...],
        resources: tuple[Resources, ...],
        prompts: tuple[Prompt, ...],
        namespaces: tuple[Namespace, ...],
    ) -> None:
        def offered(group: str, extension: str | None, profiles: frozenset[str] | None = None) -> bool:
            # what a client has negotiated is there whatever groups its connection was opened for
            return extension is not None or selection.admits(group, profiles)

        def seen(group: str, extension: str | None, profiles: frozenset[str] | None = None) -> bool:
            return offered(group, extension, profiles) and (extension is None or extension in active)

        self.selection = selection
        self.private = private
        """Whether its lists are for this client only."""
        self.tools = {
            t.name: t for t in tools if seen(t.group, t.extension, t.profiles) and t.right in granted
        }
        self.dormant = {
            t.name: t for t in tools if t.name not in self.tools and offered(t.group, t.extension, t.profiles)
        }
        self.resources = tuple(r for r in resources if seen(r.group, r.extension))
        self.dormant_resources = tuple(
            r for r in resources if not seen(r.group, r.extension) and offered(r.group, r.extension)
        )
        self.prompts = {p.name: p for p in prompts if seen(p.group, None) and p.right in granted}
        self.ready: dict[tuple[str, bool], bytes] = {}
        self._namespaces = namespaces

    def tools_json(self, *, modern: bool) -> Json:
        shown: Json = {"tools": [tool.to_json(modern=modern) for tool in self.tools.values()]}
        meta: Json = {}
        for namespace in self._namespaces:
            meta |= namespace.list_meta(self.selection)
        return {**shown, "_meta": meta} if meta else shown

    @functools.cached_property
    def prompts_json(self) -> Json:
        return {"prompts": [prompt.to_json() for prompt in self.prompts.values()]}

    @functools.cached_property
    def templates_json(self) -> Json:
        return {"resourceTemplates": [dict(one) for kind in self.resources for one in kind.templates]}

    def namespace_of(self, name: str) -> Namespace | None:
        return next((space for space in self._namespaces if name.startswith(space.prefix)), None)

    def resources_for(self, uri: str) -> Resources | None:
        return next((kind for kind in self.resources if kind.owns(uri)), None)

    def dormant_for(self, uri: str) -> Resources | None:
        return next((kind for kind in self.dormant_resources if kind.owns(uri)), None)


def resource(
    uri: str, read: ReadHandler, *, group: str, name: str, mime_type: str = "", **more: Any
) -> Resources:
    """Return one resource at a fixed address."""
    shown = {"uri": uri, "name": name, **({"mimeType": mime_type} if mime_type else {}), **more}
    return Resources(group=group, owns=lambda asked: asked == uri, read=read, list=lambda _context: (shown,))


def right_needed(tool: Tool) -> str:
    """Return what to do about a tool that needs a right which the caller lacks; rights are scopes of its token."""
    return f"{tool.name} needs an access token with the scope {tool.right}; ask for one that has it"


def remedy_for(extension: str) -> str:
    """Return what to do about a tool or a resource whose extension is not active (vcp 7.4)."""
    if extension == VCP_SESSION:
        return "There is no VCP session. Re-initialize with a VCP-Hello"
    return f"Extension {extension} is not active. Re-initialize with the extension in your VCP-Hello"


def _find_mirrored(schema: Any, path: tuple[str, ...], found: dict[tuple[str, ...], str]) -> None:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(inner, Mapping):
            header = inner.get("x-mcp-header")
            if isinstance(header, str) and header:
                found[*path, name] = header
            _find_mirrored(inner, (*path, name), found)
