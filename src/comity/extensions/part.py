"""The VCP extensions: what is switched on, where their state is, their tools and resources of MCP."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Struct

from comity.runtime.part import Chore, OpenNode, Panel, Part
from comity.runtime.settings import list_of, number, one_of, text
from comity.votes.part import Deliberations
from comity.wire.errors import ConfigError

if TYPE_CHECKING:
    from comity.extensions.protocol.calls import ExtensionRules
    from comity.extensions.service import ExtensionService
    from comity.identity.protocol.keys import SigningKey
    from comity.mcp.protocol.catalog import Tool
    from comity.requests.pipeline import Pipeline
    from comity.runtime.node_runtime import NodeRuntime
    from comity.runtime.settings import Settings
    from comity.store.interface import Store
    from comity.store.vault import Vault
    from comity.vcp.protocol.signals import Signal
    from comity.vcp.resource_addresses import ResourceReaders
    from comity.vcp.sessions import LiveSessions
    from comity.wire.machine import Clock

NAMES: Final = ("personal", "relational", "consensus", "torch", "intent")

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
    switch = "take `extensions` and `vcp` out of the setting `off`"

    @classmethod
    def is_wanted(cls, settings: "Settings") -> bool:
        return super().is_wanted(settings) and "vcp" not in settings.off

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        from comity.extensions.tools import ExtensionTools, extension_tools

        async def services() -> ExtensionTools:
            from comity.vcp.part import Vcp

            opened = await runtime()
            return ExtensionTools(opened.find(cls).service, opened.find(Vcp).service)

        return extension_tools(services, cls.tool_group)

    async def open(self, runtime: "NodeRuntime") -> None:
        self.service = extension_service(
            runtime.settings,
            runtime.pipeline,
            runtime.store,
            runtime.clock,
            runtime.current_vault,
            runtime.key,
        )
        deliberations = runtime.find_open(Deliberations)
        if deliberations is not None:
            from comity.votes.extension import DeliberationOperations

            operations = DeliberationOperations(deliberations.desk, runtime.clock, self.service.rules)
            self.service.run_deliberations(operations)
        self.chores = [Chore(_PURGE_EVERY, self.service.purge)]

    def readers(self, sessions: "LiveSessions") -> "ResourceReaders":
        """Of the resources of the extensions."""
        from comity.extensions.service import extension_readers

        return extension_readers(self.service, sessions)

    async def panel(self) -> Panel:
        names = ", ".join(extension.id.removeprefix("VCP-X-") for extension in self.service.registrations())
        return Panel("VCP extensions", [("supported", names or "none")])


def extension_service(
    settings: "Settings",
    pipeline: "Pipeline",
    store: "Store",
    clock: "Clock",
    vault: "Callable[[], Vault]",
    key: "SigningKey",
) -> "ExtensionService":
    """The extensions of a data folder, as its settings say."""
    from comity.extensions.service import ExtensionService
    from comity.extensions.state import ExtensionStates
    from comity.vcp.contexts import Contexts

    own = settings.of(ExtensionSettings)
    ttl = settings.vcp.session_ttl_seconds
    states = ExtensionStates(store, clock, vault=vault, session_ttl=ttl, owner_ttl=own.owner_ttl_seconds)
    return ExtensionService(
        pipeline,
        clock,
        states=states,
        contexts=Contexts(store, clock, ttl=ttl),
        vault=vault,
        key=key,
        rules=_rules(own),
        standing=own.standing,
        names=frozenset(f"VCP-X-{name.capitalize()}" for name in own.enabled),
    )


def _rules(settings: ExtensionSettings) -> "ExtensionRules":
    from comity.extensions.protocol.calls import ExtensionRules
    from comity.extensions.protocol.personal import PersonalRules
    from comity.extensions.protocol.torch import TorchRules

    return ExtensionRules(
        personal=PersonalRules(
            presets=dict(_presets(settings.presets)), infer_body_signals=settings.infer_body_signals
        ),
        torch=TorchRules(
            signers=frozenset(settings.torch_signers), max_age_seconds=settings.torch_max_age_seconds
        ),
    )


def _presets(presets: Iterable[str]) -> "Iterable[tuple[str, dict[str, Signal]]]":
    from comity.extensions.protocol.personal import read_signals
    from comity.vcp.protocol.extension_calls import ExtensionError

    for preset in presets:
        name, _, signals = preset.partition("=")
        told: dict[str, dict[str, object]] = {}
        for signal in signals.split("+"):
            dimension, category, *intensity = signal.split(":")
            told[dimension] = {"category": category} | ({"intensity": int(intensity[0])} if intensity else {})
        try:
            read = read_signals(told, f"extensions.presets: {name}")
        except ExtensionError as fault:
            raise ConfigError(fault.message) from None
        yield name, {dimension: signal for dimension, signal in read.items() if signal is not None}
