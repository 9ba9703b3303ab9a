"""What a person or another program meets: help, settings, errors, names, metrics, tables, words of the record, loggers.

No text names a module of ours, for modules move.
"""

import ast
import asyncio
import inspect
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import apsw
import httpx

import comity
from comity.cli.app import COMMANDS, load_command
from comity.release import __version__
from comity.requests.events import ACT_WORDS
from comity.requests.handler import HandlerDefaults
from comity.runtime.lazy import load_parts
from comity.runtime.settings import AgentSettings, DirectorySettings, Settings
from comity.runtime.settings_file import values_of
from comity.store.sqlite import SqliteStore
from comity.testing import bearer, running_node
from comity.wire.errors import ComityError, http_status, public_message, rpc_code
from tests.docs import reference
from tests.store.samples import HandClock, trail_at

_SOURCE = Path(comity.__file__).parent
_DOTTED = re.compile(r"(?<![\w'\"/.])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_CAPITALS = re.compile(r"(?=.*[A-Z])[A-Z*][A-Z0-9*]*(_[A-Z0-9*]+)+")


def _table(rows: Iterable[Iterable[str]]) -> str:
    return "".join(" | ".join(cells) + "\n" for cells in rows)


def commands_help() -> str:
    """The help of every command in 80 columns."""
    return "\n".join(
        f"{'#' * (2 if len(words) < 2 else 3)} comity{''.join(' ' + word for word in words)}\n\n"
        f"```text\n{reference.help_of(words)}```\n"
        for words in [
            [],
            *(words for entry in COMMANDS for words in _tree([entry.name], load_command(entry.name))),
        ]
    ).replace(f"Comity {__version__}.", "Comity VERSION.")


def _tree(words: list[str], command: Any) -> Iterator[list[str]]:
    yield words
    for name, member in getattr(command, "commands", {}).items():
        yield from _tree([*words, name], member)


def settings() -> str:
    """Name, what it must be, default, what sets it."""
    sections = {part.name: part.settings() for part in load_parts() if part.settings is not None}
    options = set(re.findall(r"--[a-z-]+", reference.help_of(["up"])))
    return _table(
        sorted(
            (
                f"`{key}`",
                reference.kind_of(key),
                reference.default_of(key, value),
                f"`{reference.variable_of(key)}`"
                + (f", `{reference.flag_of(key)}`" if reference.flag_of(key) in options else ""),
            )
            for key, value in values_of(Settings(data=Path("data"), parts=sections)).items()
        )
    )


def errors() -> str:
    """Class, its bases, code, HTTP status, JSON-RPC code, whether an unknown caller is shown its own words."""
    reference.load_everything()
    rows = []
    for kind in reference.kinds_of(ComityError):
        error = kind.__new__(kind)
        error.args = ("words",)
        shown = "shown" if public_message(error) == "words" else "hidden"
        bases = " < ".join(base.__name__ for base in kind.__mro__[1:-1] if _is_ours(base))
        rows.append((kind.__name__, kind.code, str(http_status(error)), str(rpc_code(error)), shown, bases))
    return _table(sorted(rows))


def operations() -> str:
    """The operations of the store with their fields, then those of the VCP extensions."""
    store = [(name, *cells[:-1]) for name, cells in reference.store_operations().items()]
    extensions = [
        (name, fields or "none", tool, codes or "nothing else")
        for name, (fields, tool, codes, _) in reference.extension_operations().items()
    ]
    return _table(sorted(store)) + "\n" + _table(sorted(extensions))


def schema() -> str:
    """The tables of a new store."""

    async def make(folder: Path) -> None:
        store = await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder))
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(make(Path(folder)))
        connection = apsw.Connection(str(Path(folder) / "comity.db"), flags=apsw.SQLITE_OPEN_READONLY)
        pragmas = [
            f"{name} {connection.pragma(name)}\n" for name in ("application_id", "user_version", "encoding")
        ]
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        connection.close()
    return "".join(pragmas) + "".join(
        f"\n{kind} {name}\n{sql or '(made by SQLite)'}\n" for kind, name, sql in rows
    )


async def openapi() -> Any:
    document = await reference.openapi()
    document["info"]["version"] = "VERSION"
    return document


async def metrics() -> str:
    """Names, kinds and help; the values are what happened."""
    directory = DirectorySettings(publish=True, url="http://127.0.0.1:9")
    async with (
        running_node(agent=AgentSettings(behaviour="echo"), directory=directory) as node,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
    ):
        text = (await owner.get("/metrics")).text
    return "".join(f"{line}\n" for line in sorted(set(text.splitlines())) if line.startswith("#"))


def words_in_capitals() -> str:
    """Kinds of audit entries and events, steps and codes: all that the source spells LIKE_THIS. `*` is computed.

    Then what a person reads for each kind of act, then the handlers, for their names begin such words, too.
    """
    found = set()
    for path, tree in _trees():
        if path == _SOURCE / "__init__.py":
            continue  # public names have a file of their own
        found |= {text for text in _texts(tree) if _CAPITALS.fullmatch(text)}
    reference.load_everything()
    handlers = {
        kind.name
        for kind in _below(HandlerDefaults)
        if _is_ours(kind) and isinstance(vars(kind).get("name"), str)
    }
    return "\n".join((_lines(found), _table(sorted(ACT_WORDS.items())), _lines(handlers)))


def _lines(words: Iterable[str]) -> str:
    return "".join(f"{word}\n" for word in sorted(words))


def _below(kind: type) -> Iterator[Any]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def _texts(tree: ast.Module) -> Iterator[str]:
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)


def loggers() -> str:
    """Every name that a log line can have: what is given to `getLogger`, or bound to a name that ends on LOGGER."""
    found = set()
    for _, tree in _trees():
        for node in ast.walk(tree):
            given: list[ast.expr] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger"):
                given = node.args
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("LOGGER"):
                given = [node.value]
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target).endswith("LOGGER"):
                given = [node.value] if node.value is not None else []
            found |= {
                one.value
                for one in given
                if isinstance(one, ast.Constant) and str(one.value).startswith("comity")
            }
    return _lines(found)


@cache
def _trees() -> tuple[tuple[Path, ast.Module], ...]:
    """The skills have no part in it."""
    paths = [path for path in sorted(_SOURCE.rglob("*.py")) if path.relative_to(_SOURCE).parts[0] != "skills"]
    return tuple((path, ast.parse(path.read_text("utf-8"))) for path in paths)


def public_names() -> str:
    """Each name of `comity` with its signature; of a class the public members, too."""
    return "".join(
        f"{line}\n" for name in sorted(comity.__all__) for line in _described(name, getattr(comity, name))
    )


def _described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        bases = [base.__name__ for base in value.__mro__[1:] if _is_ours(base) and base.__name__[0] != "_"]
        yield f"class {name}{_signature(value) if _has_signature(value) else ''}{' < ' if bases else ''}{', '.join(bases)}"
        if issubclass(value, Enum):
            yield from (f"    {member.name} = {member.value!r}" for member in value)
            return
        for member in sorted(dir(value)):
            if not member.startswith("_"):
                yield from _member(value, member)
    elif callable(value):
        yield f"{_spoken(value)}{name}{_signature(value)}"
    elif isinstance(value, str | int | float | bytes) and name != "__version__":
        yield f"{name} = {value!r}"
    else:
        yield f"{name}: {type(value).__name__}"


def _has_signature(kind: type) -> bool:
    """Whether the signature is ours, and not what this version of Python gives to such classes."""
    return _is_ours(kind) and (
        _is_ours(kind.__init__) or hasattr(kind, "__struct_fields__") or hasattr(kind, "_fields")
    )


def _member(owner: type, name: str) -> Iterator[str]:
    home = next(base for base in owner.__mro__ if name in vars(base))
    if not _is_ours(home):
        return  # what the language or a library gives
    held = inspect.getattr_static(owner, name)
    if isinstance(held, classmethod | staticmethod):
        yield f"    {type(held).__name__} {_spoken(held.__func__)}{name}{_signature(held.__func__)}"
    elif inspect.isfunction(held):
        yield f"    {_spoken(held)}{name}{_signature(held)}"
    elif isinstance(held, property):
        yield f"    property {name}"
    else:
        yield f"    {name}"


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("comity")


def _spoken(function: Callable[..., Any]) -> str:
    return "async " if inspect.iscoroutinefunction(function) else ""


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(?)"
    said = []
    for parameter in signature.parameters.values():
        before = _STARS.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not any(one.startswith("*") for one in said):
            said.append("*")
        text = before + parameter.name + _annotation(": ", parameter.annotation)
        if parameter.default is not parameter.empty:
            text += f" = {_plain(repr(parameter.default))}"
        said.append(text)
    return f"({', '.join(said)}){_annotation(' -> ', signature.return_annotation)}"


def _annotation(before: str, annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return before + _plain(text).replace("'", "").replace('"', "")


def _plain(text: str) -> str:
    """Without modules and addresses in memory."""
    return _ADDRESS.sub("0x", _DOTTED.sub("", text))
