"""One settings object: TOML file < environment < flags.

- A value is converted where it comes in, and a refusal names that place: the variable, the flag, or the
  key and its file. A name that we do not know is refused with the nearest one that we do.
- Every effective value remembers where it came from.
- `Settings` refuses contradictions itself, so one that is built in code is as safe as one that is read:
  nothing listens to other machines without TLS, nothing in production forgets or tells too much.
- An empty variable counts as unset. A relative path in the file starts at the file's folder, elsewhere at
  the working folder.
"""

import difflib
import ipaddress
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypeVar

from msgspec import Struct
from msgspec.structs import fields

from comity.config_kinds import (
    ADDRESS,
    HOST,
    NAMED_HOST,
    PATH,
    Kind,
    kinds_of,
    list_of,
    network,
    number,
    one_of,
    text,
    whole,
)
from comity.core.errors import ConfigError

LogLevel = Literal["debug", "info", "warning", "error", "critical"]

DEFAULT_PORT = 8420
CONFIG_FILE = "config.toml"
CONFIG_VARIABLE = "COMITY_CONFIG"
DEFAULT = "default"
SWITCHED_PARTS = (
    "actions",
    "calling",
    "deliberations",
    "extensions",
    "mcp",
    "peers",
    "publishing",
    "vcp",
    "watching",
)
"""Parts that `off` may name. The agent and the directory have settings of their own for it; a node always has the rest."""

_PREFIX = "COMITY_"
# read when the variable of ours is not set
_PLAIN_VARIABLES = {"environment": "ENVIRONMENT", "vcp.session_ttl_seconds": "VCP_SESSION_TTL_SECONDS"}
_OTHER_VARIABLES = frozenset(
    (
        CONFIG_VARIABLE,
        "COMITY_DEBUG",
        "COMITY_SEED",
        "COMITY_VECTORS",
        "COMITY_SIM_SEEDS",
        "COMITY_TORTURE_ROUNDS",
    )
)
_PRODUCTION = frozenset(("production", "prod", "staging"))
_FILE_LIMIT = 1024 * 1024
_SHOWN_LIMIT = 60
_MOST_BYTES = 1_000_000_000_000_000

_Some = whole(1, 1_000_000_000)
_Port = whole(0, 65_535)
_IssuerName = text("the name of an issuer, such as acme", r"[A-Za-z0-9._-]{1,128}")
_S = TypeVar("_S", bound=Struct)


class TlsSettings(Struct, frozen=True, kw_only=True):
    cert: Path | None = None
    key: Path | None = None


class StoreSettings(Struct, frozen=True, kw_only=True):
    engine: Literal["sqlite", "memory"] = "sqlite"


class StorageSettings(Struct, frozen=True, kw_only=True):
    """What strangers may make the node store, in bytes: replies to signed calls in all and for each pair, and
    cards in all. One address has at most a 32nd of each, and the last quarter is for those who are known.
    """

    replies_bytes: Annotated[int, whole(1_048_576, _MOST_BYTES)] = 1_073_741_824
    pair_bytes: Annotated[int, whole(1024, _MOST_BYTES)] = 16_777_216
    cards_bytes: Annotated[int, whole(1_048_576, _MOST_BYTES)] = 536_870_912


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


class RateSettings(Struct, frozen=True, kw_only=True):
    """For each address that is not this machine's own (those too with `limit_loopback`), and for each identity
    once it is proven. `new_pairs` is how many callers never heard of an address may bring in an hour.
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
        """What the card says of the agent."""
        return self.capability or f"answers with {self.behaviour}"


class ActionSettings(Struct, frozen=True, kw_only=True):
    """How many characters an input may have, from the user of this node and from anybody else; how many seconds the
    work for anybody else may take; how many calls of one caller may wait.
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
    """`log_bytes` is the most that the log of one deliberation may come to. `retry_seconds` is how often acts are
    sent again that wait for their keeper.
    """

    log_bytes: Annotated[int, whole(65_536, _MOST_BYTES)] = 67_108_864
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


class VaultSettings(Struct, frozen=True, kw_only=True):
    plaintext: bool = False


class VcpSettings(Struct, frozen=True, kw_only=True):
    """`issuers` are names with their public Ed25519 keys; tokens that this node issued are always known.
    `secret_issuers` are names whose shared secrets are in files of the data folder.
    `crls` are names of issuers with the addresses where they publish what they revoked; of those in `unsigned_crls` a
    list without a signature is taken. `versions` are those that this node offers.
    `handshakes` are those of an address in a minute. `tcp_port` 0: VCP is spoken over WebSocket only. `plugins` are
    extensions of the owner's own.
    """

    versions: Annotated[
        tuple[str, ...],
        list_of(text("one of 1.0, 2.0, 3.0, 3.1", r"1\.0|2\.0|3\.0|3\.1")),
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
        """The section of a part, by its type; the defaults where nothing is set."""
        return next((held for held in self.parts.values() if isinstance(held, section)), None) or section()

    @property
    def production(self) -> bool:
        """Staging counts: it holds the same data and the same dangers."""
        return self.environment in _PRODUCTION

    @property
    def database(self) -> Path:
        return self.data / "comity.db"

    @property
    def audit_heads(self) -> Path:
        """Where the heads of the audit chains are kept, outside the database."""
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
        if self.production and self.store.engine == "memory":
            raise ConfigError(
                f"store.engine memory forgets everything at a restart and is refused in {self.environment}; use sqlite"
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


class Loaded(Struct, frozen=True, kw_only=True):
    """`sources` says for each dotted key: "default", the file, the variable or the flag."""

    settings: Settings
    sources: dict[str, str]
    file: Path | None


def load_settings(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    platform: str = sys.platform,
    sections: Mapping[str, type[Struct]] | None = None,
) -> Loaded:
    """Read every source. A flag is named by its dotted key (`config` names the file); None is not given.
    `sections` are those that parts declare, by their names.
    """
    environ = os.environ if environ is None else environ
    reading = _SettingsReading(home, sections or {})
    _refuse_unknown_variables(environ, reading)

    given = {key: value for key, value in (flags or {}).items() if value is not None}
    chosen_file = given.pop("config", None)
    from_flags = _from_flags(given, reading)
    from_environment = _from_environment(environ, reading)

    file, explicit = _find_file(chosen_file, environ, {**from_environment, **from_flags}, reading, platform)
    from_file = _from_file(file, reading, required=explicit)
    if "data" in from_file and not explicit:
        raise ConfigError(
            f"data in {file} would move the folder that this file lies in; name the folder with --data or COMITY_DATA"
        )

    found = {**from_file, **from_environment, **from_flags}
    if "data" not in found:
        found["data"] = _Found(default_data_folder(environ, reading.home, platform), DEFAULT)
    settings = _build({key: value for key, (value, _) in found.items()}, reading)
    _refuse_missing_files(settings)
    sources = {key: found[key].source if key in found else DEFAULT for key in reading.kinds}
    return Loaded(settings=settings, sources=sources, file=file if explicit or from_file else None)


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the user's own node, for programs that read no settings."""
    environ = os.environ if environ is None else environ
    named = environ.get(f"{_PREFIX}DATA")
    return Path(named).expanduser() if named else default_data_folder(environ, Path.home, sys.platform)


def default_data_folder(environ: Mapping[str, str], home: Callable[[], Path], platform: str) -> Path:
    """Where the user's programs keep their data, by the custom of each system."""
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return (Path(local) if local else home() / "AppData" / "Local") / "comity"
    if platform == "darwin":
        return home() / "Library" / "Application Support" / "comity"
    shared = environ.get("XDG_DATA_HOME", "")
    # the convention says to ignore a path that is not absolute
    return (Path(shared) if shared.startswith("/") else home() / ".local" / "share") / "comity"


@lru_cache(4096)  # asked for every message
def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_unspecified(host: str) -> bool:
    """Whether it stands for all addresses of a machine, such as 0.0.0.0."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def values_of(settings: Settings) -> dict[str, Any]:
    """Every effective value by its dotted key."""
    values = {name: getattr(settings, name) for name in _TOP_KINDS}
    sections = {name: getattr(settings, name) for name in _SECTIONS} | dict(settings.parts)
    for section, held in sections.items():
        values |= {f"{section}.{name}": getattr(held, name) for name in kinds_of(type(held))}
    return values


class _Found(NamedTuple):
    value: Any
    source: str


class _SettingsReading:
    """What may be set, and the user's home folder, which is looked up only when a path needs it."""

    def __init__(self, home: Path | None, of_parts: Mapping[str, type[Struct]]) -> None:
        self._home = home
        self.of_parts = of_parts
        self.sections = {**_SECTIONS, **of_parts}
        self.kinds = dict(_TOP_KINDS)
        for section, declared in self.sections.items():
            self.kinds |= {f"{section}.{name}": kind for name, kind in kinds_of(declared).items()}
        self.variables = {_PREFIX + key.replace(".", "_").upper(): key for key in self.kinds}

    def home(self) -> Path:
        try:
            return self._home or Path.home()
        except RuntimeError:
            raise ConfigError(
                "there is no home folder here; name the data folder with --data or COMITY_DATA"
            ) from None

    def path(self, raw: object, start: Path) -> Path:
        text = str(raw) if isinstance(raw, str | Path) else ""
        if not text or "\0" in text:
            raise ValueError
        if text == "~" or text.startswith(("~/", "~\\")):
            return self.home() / text[2:]
        return Path(os.path.abspath(start / text))  # noqa: PTH100 - Path.absolute() keeps `..`


_SECTIONS = {
    field.name: field.type
    for field in fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Struct)
}
_TOP_KINDS = kinds_of(Settings, but=(*_SECTIONS, "parts"))


def flag_of(key: str) -> str:
    return "--" + key.replace(".", "-").replace("_", "-")


def _taken(key: str, raw: Any, place: str, source: str, reading: _SettingsReading, start: Path) -> _Found:
    kind = reading.kinds[key]
    try:
        return _Found(reading.path(raw, start) if kind.is_path else kind.take(raw), source)
    except ValueError:
        _refuse_value(place, kind, raw)


def _from_text(key: str, text: str, source: str, reading: _SettingsReading) -> _Found:
    kind = reading.kinds[key]
    try:
        value = kind.read(text.strip())
    except ValueError:
        _refuse_value(source, kind, text)
    return _taken(key, value, source, source, reading, Path.cwd())


def _from_flags(flags: Mapping[str, Any], reading: _SettingsReading) -> dict[str, _Found]:
    found = {}
    for key, raw in flags.items():
        flag = flag_of(key)
        if key not in reading.kinds:
            _refuse_name(
                f"the flag {flag} is unknown",
                flag,
                {flag_of(known): flag_of(known) for known in reading.kinds},
            )
        if isinstance(raw, str):
            found[key] = _from_text(key, raw, flag, reading)
        else:
            found[key] = _taken(key, raw, flag, flag, reading, Path.cwd())
    return found


def _from_environment(environ: Mapping[str, str], reading: _SettingsReading) -> dict[str, _Found]:
    named = {key: variable for variable, key in reading.variables.items() if environ.get(variable)}
    for key, variable in _PLAIN_VARIABLES.items():
        if key not in named and environ.get(variable):
            named[key] = variable
    return {key: _from_text(key, environ[variable], variable, reading) for key, variable in named.items()}


def _from_file(file: Path, reading: _SettingsReading, *, required: bool) -> dict[str, _Found]:
    found = {}
    for key, raw in _dotted(_read_toml(file, required=required), file, reading):
        if key not in reading.kinds:
            known = {name.rpartition(".")[2]: name for name in reading.kinds}
            known |= {name: name for name in reading.kinds}
            _refuse_name(f"{file}: the setting {key} is unknown", key, known)
        found[key] = _taken(key, raw, f"{key} in {file}", str(file), reading, file.parent)
    return found


def _dotted(document: Mapping[str, Any], file: Path, reading: _SettingsReading) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if name in reading.sections:
            if not isinstance(value, dict):
                raise ConfigError(f"{name} in {file} must be a section that begins with [{name}]")
            for inner, held in value.items():
                yield f"{name}.{inner}", held
        elif isinstance(value, dict) and name not in reading.kinds:
            sections = {section: f"[{section}]" for section in reading.sections}
            _refuse_name(f"{file}: the section [{name}] is unknown", name, sections)
        else:
            yield name, value


def _read_toml(file: Path, *, required: bool) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_FILE_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        if not required:
            return {}
        raise ConfigError(
            f"the settings file {file} does not exist; name the right one or leave it out"
        ) from None
    except OSError as reason:
        cause = (reason.strerror or type(reason).__name__).lower()
        if required:
            raise ConfigError(
                f"the settings file {file} cannot be read: {cause}; mend its permissions"
            ) from None
        raise ConfigError(
            f"the data folder {file.parent} cannot be read: {cause}; run as its owner or name another with --data"
        ) from None
    if len(data) > _FILE_LIMIT:
        raise ConfigError(
            f"the settings file {file} is larger than {_FILE_LIMIT:,} bytes; name the right one"
        )
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"the settings file {file} is not UTF-8 text; save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as reason:
        raise ConfigError(
            f"the settings file {file} is not valid TOML: {reason or 'nested too deep'}"
        ) from None


def _find_file(
    flag: Any,
    environ: Mapping[str, str],
    found: Mapping[str, _Found],
    reading: _SettingsReading,
    platform: str,
) -> tuple[Path, bool]:
    """The settings file, and whether somebody named it."""
    for named, source in ((flag, "--config"), (environ.get(CONFIG_VARIABLE), CONFIG_VARIABLE)):
        if named:
            try:
                return reading.path(named, Path.cwd()), True
            except ValueError:
                _refuse_value(source, PATH, named)
    data = found["data"].value if "data" in found else default_data_folder(environ, reading.home, platform)
    return data / CONFIG_FILE, False


def _build(values: Mapping[str, Any], reading: _SettingsReading) -> Settings:
    def section(name: str, declared: type[Struct]) -> Struct:
        return declared(
            **{key: values[f"{name}.{key}"] for key in kinds_of(declared) if f"{name}.{key}" in values}
        )

    top = {key: value for key, value in values.items() if "." not in key}
    top |= {name: section(name, declared) for name, declared in _SECTIONS.items()}
    return Settings(
        **top, parts={name: section(name, declared) for name, declared in reading.of_parts.items()}
    )


def _refuse_missing_files(settings: Settings) -> None:
    for key, path in (("tls.cert", settings.tls.cert), ("tls.key", settings.tls.key)):
        if path is not None and not (os.access(path, os.R_OK) and path.is_file()):
            raise ConfigError(f"{key} names {path}, which is not a file that can be read; name the right one")


def _refuse_unknown_variables(environ: Mapping[str, str], reading: _SettingsReading) -> None:
    known = {*reading.variables, *_OTHER_VARIABLES}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in known:
            _refuse_name(
                f"the variable {name} is unknown", name, {variable: variable for variable in sorted(known)}
            )


def _refuse_name(fault: str, name: str, known: Mapping[str, str]) -> NoReturn:
    """`known` leads from what may have been meant to how it is written."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    remedy = f"did you mean {known[near[0]]}?" if near else "`comity config show` lists all that exist"
    raise ConfigError(f"{fault}; {remedy}")


def _refuse_value(place: str, kind: Kind, raw: object) -> NoReturn:
    shown = repr(raw)
    if len(shown) > _SHOWN_LIMIT:
        shown = shown[:_SHOWN_LIMIT] + "…"
    raise ConfigError(f"{place} must be {kind.wanted}, not {shown}") from None
