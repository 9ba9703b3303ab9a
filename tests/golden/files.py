"""The golden files: what others see of this program. A change to one is a decision, and never an accident.

`python -m tests.golden` writes them; a test compares.
"""

import asyncio
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.golden import loaded, mcp_lists, surface, wire

FOLDER = Path(__file__).with_name("kept")
LOADED = "loaded.json"
GOLDEN: dict[str, Callable[[], Any]] = {
    "audit_and_event_kinds.txt": surface.words_in_capitals,
    "command_help.txt": surface.commands_help,
    "database_schema.txt": surface.schema,
    "errors.txt": surface.errors,
    LOADED: loaded.measured,
    "loggers.txt": surface.loggers,
    "mcp_lists.json": mcp_lists.lists,
    "metrics.txt": surface.metrics,
    "openapi.json": surface.openapi,
    "operations.txt": surface.operations,
    "public_names.txt": surface.public_names,
    "settings.txt": surface.settings,
    "wire_examples.json": wire.examples,
}


def kept(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def made(name: str) -> str:
    """What the code says now."""
    value = GOLDEN[name]()
    if inspect.isawaitable(value):
        value = asyncio.run(_awaited(value))
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def write(name: str) -> bool:
    """Bring a file up to date. Returns whether it had to be changed."""
    text = made(name)
    path = FOLDER / name
    if path.exists() and agrees(name, text):
        return False
    FOLDER.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return True


def agrees(name: str, text: str) -> bool:
    before = kept(name)
    return loaded.fits(json.loads(before), json.loads(text)) if name == LOADED else before == text


async def _awaited(value: Any) -> Any:
    return await value
