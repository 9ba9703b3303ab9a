"""One settings object, and the sections it has; `settings_file` makes it of file, environment and flags.

`Settings` refuses contradictions itself, so one that is built in code is as safe as one that is read: nothing listens to
other machines without TLS, nothing in production loses data or logs too much.
"""

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from comity.runtime.lazy import PARTS
from comity.system import is_loopback, is_unspecified
from comity.wire.errors import ConfigError

# The kinds of values that settings have.


class Kind(NamedTuple):
    """What a value must be, in words; how text becomes one; which values fit. Both raise ValueError."""

    wanted: str
    read: Callable[[str], Any]
    take: Callable[[Any], Any]
    is_path: bool = False


_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})


def _where(
    fits: Callable[[Any], object], convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        if not fits(value):
            raise ValueError
        return convert(value)

    return take


def whole(low: int, high: int) -> Kind:
    return Kind(
        f"a whole number from {low} to {high}",
        _where(lambda text: re.fullmatch("-?[0-9]{1,18}", text), int),
        _where(lambda value: type(value) is int and low <= value <= high),
    )


def number(low: float, high: float) -> Kind:
    return Kind(
        f"a number from {low:.12g} to {high:.12g}",
        _where(lambda text: re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text), float),
        _where(lambda value: type(value) in {int, float} and low <= value <= high, float),
    )


def yes_no() -> Kind:
    return Kind(
        "true or false",
        _where(lambda text: text.lower() in _YES | _NO, lambda text: text.lower() in _YES),
        _where(lambda value: type(value) is bool),
    )


def one_of(*names: str) -> Kind:
    wanted = f"{', '.join(names[:-1])} or {names[-1]}"
    return Kind(
        wanted, str, _where(lambda value: isinstance(value, str) and value.lower() in names, str.lower)
    )


def text(wanted: str, pattern: str) -> Kind:
    return Kind(wanted, str, _where(lambda value: isinstance(value, str) and re.fullmatch(pattern, value)))


def network() -> Kind:
    # to read a network raises ValueError, also for one with bits of a host
    return Kind(
        "an address such as 127.0.0.1 or a network such as 10.1.0.0/16",
        str,
        _where(lambda value: isinstance(value, str) and ipaddress.ip_network(value)),
    )


def list_of(item: Kind) -> Kind:
    return Kind(
        f"a list (in a variable: separated by commas), each {item.wanted}",
        lambda text: [part.strip() for part in text.split(",")],
        _where(lambda value: isinstance(value, list | tuple), lambda value: tuple(map(item.take, value))),
    )


PATH = Kind("a path", str, lambda value: value, is_path=True)
HOST = r"[A-Za-z0-9._%-]{1,253}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]+)?"
NAMED_HOST = r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]"
ADDRESS = r"|https?://[^\s@]+"


def kinds_of(section: type[Struct], but: Collection[str] = ()) -> dict[str, Kind]:
    """Return the kind of each field, except for those named in `but`."""
    return {
        field.name: _kind(section, field.name, field.type)
        for field in fields(section)
        if field.name not in but
    }


def _kind(section: type[Struct], name: str, declared: Any) -> Kind:
    if get_origin(declared) is Annotated:
        named = next((extra for extra in declared.__metadata__ if isinstance(extra, Kind)), None)
        if named is not None:
            return named
    if declared is bool:
        return yes_no()
    if get_origin(declared) is Literal:
        return one_of(*get_args(declared))
    if declared is Path or declared == Path | None:
        return PATH
    raise TypeError(f"{section.__name__}.{name} needs a kind, as in Annotated[int, whole(1, 10)]")


LogLevel = Literal["debug", "info", "warning", "error", "critical"]

DEFAULT_PORT = 8420
SWITCHED_PARTS = tuple(
    sorted(PARTS.keys() - {"agent", "audit", "contacts", "directory", "limits", "operating"})
)
"""Parts that `off` may name. The agent and the directory have settings of their own for it; a node always has the rest."""

_PRODUCTION = frozenset(("production", "prod", "staging"))
_MAX_BYTES = 1_000_000_000_000_000

_Some = whole(1, 1_000_000_000)
_Port = whole(0, 65_535)
_IssuerName = text("the name of an issuer, such as acme", r"[A-Za-z0-9._-]{1,128}")
_S = TypeVar("_S", bound=Struct)


class TlsSettings(Struct, frozen=True, kw_only=True):
    cert: Path | None = None
    key: Path | None = None


class StoreSettings(Struct, frozen=True, kw_only=True):
    engine: Literal["sqlite", "memory"] = "sqlite"

    @property
    def is_volatile(self) -> bool:
        """Return whether everything is lost at a restart: no file, no backup, no record on disk."""
        return self.engine == "memory"


class StorageSettings(Struct, frozen=True, kw_only=True):
    """Quotas in bytes for data of unknown callers: replies to signed calls in total and for each pair, and cards in
    total. One address has at most 1/32 of each. The last quarter is for known callers.
    """

    replies_bytes: Annotated[int, whole(1_048_576, _MAX_BYTES)] = 1_073_741_824
    pair_bytes: Annotated[int, whole(1024, _MAX_BYTES)] = 16_777_216
    cards_bytes: Annotated[int, whole(1_048_576, _MAX_BYTES)] = 536_870_912


class HttpSettings(Struct, frozen=True, kw_only=True):
    body_limit: Annotated[int, whole(1024, 1_073_741_824)] = 1_048_576
    allowed_hosts: Annotated[
        tuple[str, ...], list_of(text("a host name without a port, such as node.example", NAMED_HOST))
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...],
        list_of(text("an origin such as https://app.example", f"https?://({NAMED_HOST})(:[0-9]{{1,5}})?")),
    ] = ()
    public: bool = False
    trusted_proxies: Annotated[tuple[str, ...], list_of(network())] = ()
    shutdown_seconds: Annotated[float, number(0, 600)] = 10.0


class AuditSettings(Struct, frozen=True, kw_only=True):
    """`retention_days` 0 keeps every entry."""

    level: Literal["minimal", "standard", "full", "diagnostic"] = "standard"
    retention_days: Annotated[int, whole(0, 36_500)] = 0


class RecordSettings(Struct, frozen=True, kw_only=True):
    """Whether the texts of own calls and their replies are stored longer than a repeated call needs them, for receipts."""

    keep_messages: bool = False
    keep_days: Annotated[float, number(1, 36_500)] = 30.0
    keep_bytes: Annotated[int, whole(1_048_576, _MAX_BYTES)] = 1_073_741_824


class RateSettings(Struct, frozen=True, kw_only=True):
    """For each address that is not this machine's own (those too with `limit_loopback`), and for each identity
    once it is proven. `new_pairs` is how many unknown callers an address may bring in an hour.
    """

    requests: Annotated[int, _Some] = 6000
    bytes: Annotated[int, whole(1024, 1_000_000_000_000)] = 67_108_864
    per_seconds: Annotated[float, number(0.001, 86_400)] = 60
    new_pairs: Annotated[int, _Some] = 1000
    limit_loopback: bool = False


class AgentSettings(Struct, frozen=True, kw_only=True):
    """`behaviour` empty: the node answers no calls. `freshness_seconds` 0: any timestamp is accepted.
    `key_variable` names the environment variable that holds the key of a model's endpoint. `endpoint` is
    where others reach the agent, when that is not the node's own address: behind a proxy, say.
    """

    behaviour: Annotated[
        str,
        text(
            "echo, actions, module:function, mcp:… or openai:…",
            r"|echo|actions|[A-Za-z_][\w.]*:[\w.]+|(mcp|openai):.+",
        ),
    ] = ""
    name: Annotated[
        str, text("a name of at most 64 letters, digits, dots, dashes or spaces", r"[\w .-]{0,64}")
    ] = ""
    capability: Annotated[
        str,
        text(
            "a text of at most 4,096 characters without control characters", r"[^\x00-\x08\x0b-\x1f]{0,4096}"
        ),
    ] = ""
    system_prompt: Annotated[str, text("a text of at most 65,536 characters", r"(?s).{0,65536}")] = ""
    tell_context: bool = False
    key_variable: Annotated[
        str, text("the name of an environment variable", r"[A-Za-z_][A-Za-z0-9_]{0,127}")
    ] = "OPENAI_API_KEY"
    endpoint: Annotated[str, text("an address such as https://agent.example/a2a/message/send", ADDRESS)] = ""
    deadline_seconds: Annotated[float, number(0.001, 86_400)] = 60
    freshness_seconds: Annotated[float, number(0, 86_400 * 365)] = 0

    @property
    def offer(self) -> str:
        """Return what the card says of the agent."""
        return self.capability or f"answers with {self.behaviour}"


class ActionSettings(Struct, frozen=True, kw_only=True):
    """How many characters an input may have, from the user of this node and from others; how many seconds the work for
    others may take; how many calls of one caller may wait.
    """

    own_characters: Annotated[int, whole(1, 1_073_741_824)] = 4_194_304
    characters: Annotated[int, whole(1, 1_073_741_824)] = 65_536
    seconds: Annotated[float, number(0.001, 3600)] = 20
    queued: Annotated[int, whole(1, 1_000_000)] = 32


class DirectorySettings(Struct, frozen=True, kw_only=True):
    """`serve`: others may publish and look up cards here. `url`: where this node publishes and looks. `publish`: a node
    with an agent publishes its card at `url` by itself, and keeps it up to date there.
    """

    serve: bool = True
    url: Annotated[str, text("an address such as https://directory.example", ADDRESS)] = ""
    publish: bool = False


class DeliberationSettings(Struct, frozen=True, kw_only=True):
    """`log_bytes` limits the log of one vote. `retry_seconds` is how often acts that wait for their host are sent again."""

    log_bytes: Annotated[int, whole(65_536, _MAX_BYTES)] = 67_108_864
    retry_seconds: Annotated[float, number(0.1, 86_400)] = 60


class DispatchSettings(Struct, frozen=True, kw_only=True):
    """`allowed_hosts` may be called although their addresses are private."""

    allowed_hosts: Annotated[
        tuple[str, ...],
        list_of(
            text(
                "a host name, an address without a port, or a network such as 10.1.0.0/16",
                f"({NAMED_HOST})(/[0-9]{{1,3}})?",
            )
        ),
    ] = ()
    timeout_seconds: Annotated[float, number(0.001, 3600)] = 60

    @property
    def hosts(self) -> list[str]:
        """Return the allowed hosts, IPv6 addresses without brackets."""
        return [host.strip("[]") for host in self.allowed_hosts]


class VaultSettings(Struct, frozen=True, kw_only=True):
    plaintext: bool = False


class VcpSettings(Struct, frozen=True, kw_only=True):
    """`issuers` are names with their public Ed25519 keys; tokens that this node issued are always known. They are also
    the responders whose stapled proofs count.
    `secret_issuers` are names whose shared secrets are in files of the data folder.
    `crls` are names of issuers with the addresses where they publish what they revoked; of those in `unsigned_crls` a
    list without a signature is taken; each is fetched again after `revocation_refresh` seconds. `versions` are those that this node offers.
    `handshakes` are those of an address in a minute. `tcp_port` 0: VCP is spoken over WebSocket only. `plugins` are
    extensions of the owner's own.
    """

    versions: Annotated[
        tuple[str, ...], list_of(text("one of 1.0, 2.0, 3.0, 3.1", r"1\.0|2\.0|3\.0|3\.1"))
    ] = ("1.0", "2.0", "3.0", "3.1")
    identity_policy: Literal["optional", "required", "verified"] = "optional"
    identity_mode: Literal["structural", "verified"] = "structural"
    issuers: Annotated[
        tuple[str, ...],
        list_of(
            text(
                "an issuer and its public Ed25519 key as name=64 hexadecimal digits",
                r"[A-Za-z0-9._-]{1,128}=[0-9a-f]{64}",
            )
        ),
    ] = ()
    secret_issuers: Annotated[tuple[str, ...], list_of(_IssuerName)] = ()
    crls: Annotated[
        tuple[str, ...],
        list_of(
            text(
                "an issuer and the address of its list as name=https://…",
                r"[A-Za-z0-9._-]{1,128}=https?://[^\s@]+",
            )
        ),
    ] = ()
    unsigned_crls: Annotated[tuple[str, ...], list_of(_IssuerName)] = ()
    revocation_refresh: Annotated[float, number(60, 86_400)] = 3600
    hello_seconds: Annotated[float, number(2, 5)] = 5
    idle_seconds: Annotated[float, number(1, 86_400)] = 300
    session_ttl_seconds: Annotated[float, number(1, 604_800)] = 900
    handshakes: Annotated[int, _Some] = 10
    loopback_handshakes: Annotated[int, _Some] = 600
    tcp_port: Annotated[int, _Port] = 0
    server_id: Annotated[str, text("a name of at most 256 printable characters", r"[ -~]{0,256}")] = ""
    plugins: Annotated[
        tuple[str, ...],
        list_of(text("a VCP extension in a module, as module:NAME", r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")),
    ] = ()


class McpSettings(Struct, frozen=True, kw_only=True):
    """Sessions of HTTP clients: how long one may be silent, and how many there may be. With `oauth_issuer`,
    tokens of that authorization server are taken at /mcp, if they are meant for `resource`; `oauth_keys` is where
    its keys are.
    """

    idle_seconds: Annotated[float, number(1, 86_400)] = 1800
    sessions: Annotated[int, whole(1, 1_000_000)] = 10_000
    oauth_issuer: Annotated[str, text("an address such as https://login.example", ADDRESS)] = ""
    oauth_keys: Annotated[
        str, text("the address of a key set, or the path of a file that holds one", r"[^\x00]{0,4096}")
    ] = ""
    resource: Annotated[str, text("the address of /mcp as clients know it", r"|https?://[^\s@?#]+")] = ""


class Settings(Struct, frozen=True, kw_only=True):
    """`off` names parts that are not opened. `parts` holds the sections that a part of the node declares itself; `of`
    reads them.
    """

    host: Annotated[str, text("an address or a host name such as 127.0.0.1", HOST)] = "127.0.0.1"
    port: Annotated[int, _Port] = DEFAULT_PORT
    data: Path
    environment: Literal["production", "prod", "staging", "development", "test"] = "development"
    log_level: LogLevel = "info"
    log_json: bool = False
    off: Annotated[tuple[str, ...], list_of(one_of(*SWITCHED_PARTS))] = ()
    tls: TlsSettings = TlsSettings()
    store: StoreSettings = StoreSettings()
    storage: StorageSettings = StorageSettings()
    http: HttpSettings = HttpSettings()
    audit: AuditSettings = AuditSettings()
    record: RecordSettings = RecordSettings()
    rate: RateSettings = RateSettings()
    agent: AgentSettings = AgentSettings()
    actions: ActionSettings = ActionSettings()
    directory: DirectorySettings = DirectorySettings()
    deliberations: DeliberationSettings = DeliberationSettings()
    dispatch: DispatchSettings = DispatchSettings()
    vault: VaultSettings = VaultSettings()
    vcp: VcpSettings = VcpSettings()
    mcp: McpSettings = McpSettings()
    parts: Mapping[str, Struct] = {}

    def of(self, section: type[_S]) -> _S:
        """Return the section of a part, by its type; the defaults where nothing is set."""
        return next((held for held in self.parts.values() if isinstance(held, section)), None) or section()

    @property
    def production(self) -> bool:
        """Return whether this is production. Staging counts: it holds the same data."""
        return self.environment in _PRODUCTION

    @property
    def database(self) -> Path:
        return self.data / "comity.db"

    @property
    def audit_heads(self) -> Path:
        """Return where the heads of the audit chains are kept, outside the database."""
        return self.data / "audit"

    def __post_init__(self) -> None:
        tls = self.tls
        if (tls.cert is None) != (tls.key is None):
            given, missing = ("tls.cert", "tls.key") if tls.key is None else ("tls.key", "tls.cert")
            raise ConfigError(f"{given} is set without {missing}; set both or neither")
        if not is_loopback(self.host) and (tls.cert is None or not self.http.public):
            raise ConfigError(
                f"host {self.host} can be reached from other machines; set tls.cert, tls.key and "
                "http.public = true, or use 127.0.0.1"
            )
        if self.directory.publish:
            _refuse_unusable_card(self)
        if self.production and self.audit.level == "diagnostic":
            raise ConfigError(
                f"audit.level diagnostic stores parts of messages and is refused in {self.environment}; use full"
            )
        if self.production and self.store.is_volatile:
            raise ConfigError(
                f"store.engine {self.store.engine} forgets everything at a restart and is refused in "
                f"{self.environment}; use sqlite"
            )
        if self.vault.plaintext and self.environment != "development":
            raise ConfigError(
                f"vault.plaintext is for development and is refused in {self.environment}; set it to false"
            )
        if self.vcp.identity_policy == "verified" and self.vcp.identity_mode != "verified":
            raise ConfigError(
                "vcp.identity_policy verified would refuse every token that vcp.identity_mode structural lets "
                "pass; set both to verified"
            )
        _refuse_contradictions(self.vcp)


def _refuse_contradictions(vcp: VcpSettings) -> None:
    if not vcp.versions:
        raise ConfigError("vcp.versions is empty; name at least one version")
    for setting in ("issuers", "secret_issuers", "crls"):
        names = [each.partition("=")[0] for each in getattr(vcp, setting)]
        if len(set(names)) != len(names):
            raise ConfigError(f"vcp.{setting} names an issuer twice; name each once")
    addresses = dict(each.split("=", 1) for each in vcp.crls)
    unknown = addresses.keys() - {each.partition("=")[0] for each in vcp.issuers} - {*vcp.secret_issuers}
    if unknown:
        raise ConfigError(
            f"vcp.crls names {min(unknown)}, which neither vcp.issuers nor vcp.secret_issuers does; a list counts "
            "under its issuer's key"
        )
    for name in vcp.unsigned_crls:
        if not addresses.get(name, "").lower().startswith("https://"):
            raise ConfigError(
                f"vcp.unsigned_crls names {name}, which has no https:// address in vcp.crls; a list without a "
                "signature is taken over HTTPS alone"
            )


def _refuse_unusable_card(settings: Settings) -> None:
    if not settings.directory.url:
        raise ConfigError("directory.publish is set without directory.url; set both or neither")
    if settings.agent.behaviour and not settings.agent.endpoint and is_unspecified(settings.host):
        raise ConfigError(
            f"host {settings.host} means all addresses, and a published card needs one that others can call; "
            "set agent.endpoint to the public URL of the agent, such as "
            "https://agent.example/a2a/message/send (COMITY_AGENT_ENDPOINT, or --endpoint)"
        )
