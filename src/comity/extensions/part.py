"""The part `extensions`: settings, the state of the extensions, their MCP tools and resources."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Struct

from comity.runtime.lazy import late
from comity.runtime.part import Chore, OpenNode, Panel, Part
from comity.runtime.settings import list_of, number, one_of, text
from comity.vcp.part import Vcp, added_extensions
from comity.vcp.protocol.built_in import BUILT_IN, NAMES
from comity.wire.errors import ConfigError

if TYPE_CHECKING:
    from comity.extensions import handler, service, state
    from comity.extensions import tools as mcp_tools
    from comity.extensions.protocol import operations, personal, torch
    from comity.identity.protocol.keys import SigningKey
    from comity.mcp.protocol.catalog import Resources, Tool
    from comity.requests.pipeline import Pipeline
    from comity.runtime.node_runtime import NodeRuntime
    from comity.runtime.settings import Settings
    from comity.store.interface import Store
    from comity.store.vault import Vault
    from comity.vcp import contexts
    from comity.vcp import tools as vcp_tools
    from comity.vcp.extension_host import ExtensionHost
    from comity.vcp.protocol import extension_calls
    from comity.vcp.protocol.signals import Signal
    from comity.wire.machine import Clock
else:
    contexts = late("comity.vcp.contexts")
    extension_calls = late("comity.vcp.protocol.extension_calls")
    handler = late("comity.extensions.handler")
    operations = late("comity.extensions.protocol.operations")
    personal = late("comity.extensions.protocol.personal")
    service = late("comity.extensions.service")
    state = late("comity.extensions.state")
    mcp_tools = late("comity.extensions.tools")
    torch = late("comity.extensions.protocol.torch")
    vcp_tools = late("comity.vcp.tools")

_PURGE_EVERY: Final = 3600.0
_SIGNAL: Final = "[a-z_]{1,64}:[a-z_]{1,64}(:[1-5])?"


class ExtensionSettings(Struct, frozen=True, kw_only=True):
    """`presets` are names with signals, each a dimension, a category and an intensity. `infer_body_signals` is the
    person's consent. `owner_ttl_seconds` is how long Relational and Torch are kept after their last use; what
    belongs to a session is kept as `vcp.session_ttl_seconds` says. `torch_signers` are nodes whose torches count.
    `standing` is what this node's own user grants to the model.
    """

    enabled: Annotated[tuple[str, ...], list_of(one_of(*NAMES))] = NAMES
    presets: Annotated[
        tuple[str, ...],
        list_of(
            text(
                "a name and signals such as tired=energy_level:depleted:5+cognitive_state:foggy:3",
                rf"[A-Za-z0-9._-]{{1,128}}={_SIGNAL}(\+{_SIGNAL}){{0,4}}",
            )
        ),
    ] = ()
    infer_body_signals: bool = False
    owner_ttl_seconds: Annotated[float, number(60, 315_360_000)] = 7_776_000
    torch_signers: Annotated[
        tuple[str, ...], list_of(text("the id of a node, 64 hexadecimal digits", "[0-9a-f]{64}"))
    ] = ()
    torch_max_age_seconds: Annotated[float, number(1, 604_800)] = 86_400
    standing: Literal["none", "advisory", "collaborative", "bilateral"] = "none"


class Extensions(Part):
    name = "extensions"
    settings = ExtensionSettings
    tool_group = "vcp"
    of_extensions = True
    switch = "take `extensions` and `vcp` out of the setting `off`"

    @classmethod
    def is_wanted(cls, settings: "Settings") -> bool:
        return super().is_wanted(settings) and "vcp" not in settings.off

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        async def opened() -> "mcp_tools.ExtensionTools":
            node = await runtime()
            return mcp_tools.ExtensionTools(node.find(cls).service, node.find(Vcp).service)

        return mcp_tools.extension_tools(opened, cls.tool_group)

    @classmethod
    def resources(cls, runtime: OpenNode) -> "Iterable[Resources]":
        return vcp_tools.extension_resources(lambda: Vcp.opened_tools(runtime), cls.tool_group)

    async def open(self, runtime: "NodeRuntime") -> None:
        self.service = extension_service(
            runtime.settings,
            runtime.pipeline,
            runtime.store,
            runtime.clock,
            runtime.current_vault,
            runtime.key,
        )
        for part in runtime.parts:
            if isinstance(part, handler.RunsOperations):
                self.service.run_by(part.operation_runner())
        self.chores = [Chore(_PURGE_EVERY, self.service.purge)]

    def extension_host(self) -> "ExtensionHost":
        return self.service

    async def panel(self) -> Panel:
        names = ", ".join(extension.id.removeprefix("VCP-X-") for extension in self.service.registrations())
        return Panel("VCP extensions", [("supported", names or "none")])


def served_extensions(
    parts: "Collection[type[Part]]", settings: "Settings", runtime: OpenNode
) -> tuple[str, ...]:
    """Return the ids of the VCP extensions that a node with these parts serves, while it is not open."""
    enabled = settings.of(ExtensionSettings).enabled if Extensions in parts else ()
    own = [id_ for id_, name in zip(BUILT_IN, NAMES, strict=True) if name in enabled]
    if "deliberations" in settings.off:
        own = [id_ for id_ in own if id_ != "VCP-X-Consensus"]  # the part keeps its state
    return (*own, *(each.id for each in added_extensions(parts, settings, runtime)))


def extension_service(
    settings: "Settings",
    pipeline: "Pipeline",
    store: "Store",
    clock: "Clock",
    vault: "Callable[[], Vault]",
    key: "SigningKey",
) -> "service.ExtensionService":
    """Return the extensions of a data folder, as its settings say."""
    own, ttl = settings.of(ExtensionSettings), settings.vcp.session_ttl_seconds
    return service.ExtensionService(
        pipeline,
        clock,
        states=state.ExtensionStates(
            store, clock, vault=vault, session_ttl=ttl, owner_ttl=own.owner_ttl_seconds
        ),
        contexts=contexts.Contexts(store, clock, ttl=ttl),
        vault=vault,
        key=key,
        rules=operations.ExtensionRules(
            personal=personal.PersonalRules(
                presets=_presets(own.presets), infer_body_signals=own.infer_body_signals
            ),
            torch=torch.TorchRules(
                signers=frozenset(own.torch_signers), max_age_seconds=own.torch_max_age_seconds
            ),
        ),
        standing=own.standing,
        names=frozenset(f"VCP-X-{name.capitalize()}" for name in own.enabled),
    )


def _presets(presets: Iterable[str]) -> "Mapping[str, dict[str, Signal]]":
    found = {}
    for preset in presets:
        name, _, signals = preset.partition("=")
        declared: dict[str, dict[str, Any]] = {}
        for signal in signals.split("+"):
            dimension, category, *intensity = signal.split(":")
            declared[dimension] = {"category": category} | (
                {"intensity": int(intensity[0])} if intensity else {}
            )
        try:
            read = personal.read_signals(declared, f"extensions.presets: {name}")
        except extension_calls.ExtensionError as fault:
            raise ConfigError(fault.message) from None
        found[name] = {dimension: signal for dimension, signal in read.items() if signal is not None}
    return found
