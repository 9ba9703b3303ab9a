"""The parts of the reference that the code itself can write: settings, errors, operations, commands.

Each page keeps such a part between two comments, `<!-- from the code: NAME -->` and `<!-- end -->`. The
last column of a table is written by hand and kept; a new row gets the docstring that the code has for it.
`python -m tests.docs.reference` brings the pages up to date; the tests hold them against the code.
"""

import asyncio
import contextlib
import importlib
import io
import json
import os
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from msgspec import structs

import comity
from comity.cli.app import CHAPTERS, load_command, run
from comity.runtime.lazy import load_parts
from comity.runtime.settings import AgentSettings, Settings
from comity.runtime.settings_file import load_settings, values_of
from comity.store import interface
from comity.terminal.options import HomeOptions, settings_of
from comity.testing import bearer, running_node
from comity.vcp.protocol.built_in import operations
from comity.wire.errors import ComityError, ConfigError, http_status, public_message, rpc_code
from tests.docs.markdown import DOCS

Table = dict[str, tuple[str, ...]]
"""What the code says, by the first cell of each row. The last cell is a proposal for what it means."""

NOT_WRITTEN = "not written yet"
_PART = r"(<!-- from the code: {name} -->\n)(.*?)(<!-- end -->)"


def settings() -> Table:
    sections = {part.name: part.settings() for part in load_parts() if part.settings is not None}
    values = values_of(Settings(data=Path("data"), parts=sections))
    options = set(re.findall(r"--[a-z-]+", help_of(["up"])))
    return {
        f"`{key}`" + (f" `{flag_of(key)}`" if flag_of(key) in options else ""): (
            _short(kind_of(key)),
            default_of(key, value),
            NOT_WRITTEN,
        )
        for key, value in values.items()
    }


def _short(kind: str) -> str:
    """Shorten what a value must be: whole numbers are a range, and true or false goes without saying."""
    kind = kind.replace("a list (in a variable: separated by commas), each", "list of")
    kind = re.sub(r"^a whole number from (\S+) to (\S+)$", r"\1…\2", kind)
    kind = re.sub(r"^a number from (\S+) to (\S+)$", r"\1…\2, fractions too", kind)
    return kind.replace("true or false", "")


def variable_of(key: str) -> str:
    return "COMITY_" + key.replace(".", "_").upper()


# One of them fits no setting: it holds a character that is not text, or is longer than any of them may be.
_UNFIT = ("\0", "\0" * 1_000_000)


def flag_of(key: str) -> str:
    """How it is typed, in the words in which a bad one is refused."""
    return _refusal(lambda unfit: settings_of(HomeOptions(), **{key: unfit})).partition(" ")[0]


def kind_of(key: str) -> str:
    """What a value must be, in the same words."""
    variable = variable_of(key)
    message = _refusal(lambda unfit: load_settings(environ={variable: unfit, "HOME": "/"}))
    said = re.fullmatch(rf"{variable} must be (.+), not .+", message)
    assert said, f"{variable} is not read: {message}"
    return said[1]


def _refusal(load: Callable[[str], Any]) -> str:
    for unfit in _UNFIT:
        try:
            load(unfit)
        except ConfigError as refusal:
            return refusal.message
    raise AssertionError("a setting takes anything at all")


def default_of(key: str, value: Any) -> str:
    match value:
        case _ if key == "data":
            return "[below](#the-data-folder)"
        case None:
            return "not set"
        case bool():
            return f"`{str(value).lower()}`"
        case tuple():
            return f"`{json.dumps(value)}`"
        case str():
            return f'`"{value}"`'
        case _:
            return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def errors() -> Table:
    load_everything()
    rows: Table = {}
    for kind in sorted(kinds_of(ComityError), key=lambda kind: (kind.code, kind.__module__)):
        refusal = kind.__new__(kind)
        refusal.args = ("words",)
        hidden = "" if public_message(refusal) == "words" else " hidden"
        rows[f"`{_name_of(kind)}`"] = (
            f"`{kind.code}`",
            f"{http_status(refusal)} {rpc_code(refusal)}{hidden}",
            _docstring(kind),
        )
    return rows


def _name_of(kind: type[ComityError]) -> str:
    """Without its module. Where two have one name, the further one is named with its base."""
    alike = [other for other in kinds_of(ComityError) if other.__name__ == kind.__name__]
    is_first = all(issubclass(other, kind) for other in alike)
    return kind.__name__ if is_first else f"{kind.__name__}({kind.__bases__[0].__name__})"


def kinds_of(root: type[ComityError]) -> set[type[ComityError]]:
    return {root}.union(
        *(kinds_of(kind) for kind in root.__subclasses__() if kind.__module__.startswith("comity."))
    )


def load_everything() -> None:
    for module in pkgutil.walk_packages(comity.__path__, "comity."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # an extra that is not installed
                importlib.import_module(module.name)


def store_operations() -> Table:
    return {
        f"`{kind.__name__}`": (", ".join(f"`{name}`" for name in kind.__struct_fields__), _docstring(kind))
        for kind in interface.Operation.__subclasses__()
    }


def extension_operations() -> Table:
    return {
        f"`{row.name}`": (
            ", ".join(
                f"`{member.name}`" + ("" if member.required else "?")
                for member in structs.fields(row.arguments)
            ),
            f"`{row.tool}`",
            ", ".join(code for code in row.codes if code not in {"EXTENSION_INACTIVE", "INVALID_ARGUMENT"}),
            row.summary,
        )
        for row in operations().values()
    }


def _docstring(kind: type) -> str:
    text = vars(kind).get("__doc__")
    return " ".join(text.split()) if text else NOT_WRITTEN


def commands() -> str:
    """Return a table for each chapter: every command with its members, its line of help and an example."""
    return "\n".join(
        f"## {chapter}\n\n| command | what it does | for example |\n| --- | --- | --- |\n"
        + "".join(
            f"| {f'`{entry.name}` {_members(load_command(entry.name))}'.strip()} "
            f"| {entry.help} | `{_example(entry.name)}` |\n"
            for entry in entries
        )
        for chapter, entries in CHAPTERS.items()
    )


def _members(command: Any) -> str:
    """Name the commands of a group; those of a group inside it stand in brackets."""
    return ", ".join(
        f"{name} ({inner})" if (inner := _members(member)) else name
        for name, member in getattr(command, "commands", {}).items()
    )


def _example(name: str) -> str:
    found = re.search(r"^Examples\n {2}(.+?)(?: {2}|$)", help_of([name]), re.MULTILINE)
    assert found, f"comity {name} has no example"
    return found[1]


def help_of(words: list[str]) -> str:
    said = io.StringIO()
    before = dict(os.environ)
    os.environ.update(COLUMNS="80", NO_COLOR="1")
    try:
        with contextlib.redirect_stdout(said):
            assert run([*words, "--help"]) == 0
    finally:
        os.environ.clear()
        os.environ.update(before)
    return said.getvalue()


def part(page: Path, name: str) -> str:
    """What stands in a page between the two comments."""
    found = re.search(_PART.format(name=re.escape(name)), page.read_text("utf-8"), re.DOTALL)
    assert found, f"{page.name} has no part `<!-- from the code: {name} -->` up to `<!-- end -->`"
    return found[2]


def rows(page: Path, name: str) -> dict[str, list[str]]:
    """The cells of a table, by the first one of each row; without the two lines of its head."""
    lines = [line for line in part(page, name).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]
    return {first: rest for first, *rest in cells}


TABLES = {
    "settings": (
        DOCS / "reference" / "settings.md",
        settings,
        ("key and flag", "must be", "default", "meaning"),
    ),
    "errors": (
        DOCS / "reference" / "errors.md",
        errors,
        ("class", "code", "HTTP, JSON-RPC", "meaning"),
    ),
    "operations": (
        DOCS / "reference" / "store.md",
        store_operations,
        ("operation", "fields", "what it does, what it answers"),
    ),
    "extensions": (
        DOCS / "reference" / "extensions.md",
        extension_operations,
        ("operation", "arguments", "MCP tool", "refuses also with", "what it does"),
    ),
}
COMMANDS_PAGE = DOCS / "reference" / "cli.md"
OPENAPI_PAGE = DOCS / "reference" / "openapi.json"


def _written(name: str) -> str:
    page, from_code, head = TABLES[name]
    before = rows(page, name)
    lines = [head, ("---",) * len(head)]
    for first, cells in from_code().items():
        by_hand = before.get(first, [NOT_WRITTEN])[-1]
        lines.append((first, *cells[:-1], cells[-1] if by_hand == NOT_WRITTEN else by_hand))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _replace(page: Path, name: str, text: str) -> None:
    pattern = re.compile(_PART.format(name=re.escape(name)), re.DOTALL)
    page.write_text(
        pattern.sub(lambda found: f"{found[1]}{text}{found[3]}", page.read_text("utf-8")), "utf-8"
    )


async def openapi() -> Any:
    """The document of a node with everything on."""
    async with (
        running_node(agent=AgentSettings(behaviour="echo")) as node,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
    ):
        return (await owner.get("/openapi.json")).json()


if __name__ == "__main__":
    OPENAPI_PAGE.write_text(json.dumps(asyncio.run(openapi()), indent=2) + "\n", "utf-8")
    for table in TABLES:
        _replace(TABLES[table][0], table, _written(table))
    _replace(COMMANDS_PAGE, "commands", "\n" + commands() + "\n")
