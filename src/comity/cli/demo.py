"""`comity demo`: three owners' nodes on this machine meet, call, share and decide, node_log as a story.

Each scene checks its own result. The first one that fails ends the demo with exit code 1 and the log of the node it was
about. Nothing is left behind, whichever way it ends.
"""

import asyncio
import contextlib
import os
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from comity.runtime.lazy import late
from comity.terminal.help import HelpfulApp
from comity.terminal.options import Json
from comity.terminal.output import DEBUG_VARIABLE, FAILED, one_line, print_json
from comity.wire.errors import ComityError

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress

    from comity.cli import demo_nodes, demo_scenes
    from comity.cli.demo_nodes import DemoNode, DemoNodes
    from comity.cli.demo_scenes import Scene
else:
    demo_nodes = late("comity.cli.demo_nodes")
    demo_scenes = late("comity.cli.demo_scenes")
    rich_console = late("rich.console")
    rich_progress = late("rich.progress")

app = HelpfulApp()

READING_SECONDS: Final = 0.8
"""Seconds between two lines at a terminal."""

SCENE_SECONDS: Final = 1.5
LOG_LINES: Final = 40
MAX_WIDTH: Final = 80
_INDENT: Final = 3

_PLAIN: Final = str.maketrans({"“": '"', "”": '"', "…": "...", "·": "-", "─": "-", "✓": "+", "✗": "x"})
"""For a terminal that has ASCII only."""

_ABOUT: Final = (
    "Three owners, Anna, Bert and Carol, each run a node. Their AI agents find each other, agree, prove who said what, "
    "share and decide. Everything here is real: three processes on this machine, spoken to as any program would."
)


@app.add("""
    comity demo  show all scenes; this takes about a minute
    comity demo --fast  the same without pauses
    comity demo --json  one JSON object for each scene
    comity demo --fast --keep  look around on the page of a node afterwards
""")
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Do not pause for reading.")] = False,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Keep the nodes running after the last scene, until Ctrl-C, and print a link to the page of each.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what nodes of several owners do together.

    The demo starts three real nodes in a temporary folder, lets them meet, call each other, share and vote, and checks
    the result of each scene. Then it stops the nodes and removes the folder. Your own node and data are not touched. The
    exit code is 1 if a scene fails.
    """
    with demo_nodes.no_settings_of_the_user():
        try:
            good = asyncio.run(_play(_JsonStage() if as_json else _StoryTerminal(slow=not fast), keep=keep))
        except asyncio.CancelledError:  # SIGTERM, or the terminal was closed
            good = False
    if not good:
        raise typer.Exit(FAILED)


async def _play(stage: "_JsonStage | _StoryTerminal", *, keep: bool) -> bool:
    begun = time.monotonic()
    async with demo_nodes.open_nodes(keep=keep) as nodes:
        stage.open()
        for number, scene in enumerate(demo_scenes.SCENES):
            try:
                await stage.play(scene, number, nodes)
            except Exception as failure:  # noqa: BLE001 - whatever it was, the scene has not come out
                node = failure.node if isinstance(failure, demo_nodes.SceneFailedError) else nodes.anna
                stage.failed(scene, _problem(failure), node)
                return False
        stage.close(time.monotonic() - begun, keep=keep)
        if keep:
            stage.kept(nodes, {node.name: await node.page_link() for node in nodes.all})
            await asyncio.Event().wait()
    return True


def _problem(failure: Exception) -> str:
    if isinstance(failure, ComityError):
        return failure.message
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(failure)
    return f"{type(failure).__name__}: {failure}"


class _JsonStage:
    """Prints one object for each scene."""

    def open(self) -> None:
        pass

    async def did(self, text: str) -> None:
        pass

    proved = refused = did

    def bar(self, _name: str, _total: int) -> AbstractContextManager[Callable[[int], None]]:
        return contextlib.nullcontext(lambda _done: None)

    async def play(self, scene: "Scene", _number: int, nodes: "DemoNodes") -> None:
        since = time.monotonic()
        facts = await scene.play(nodes, self)
        seconds = round(time.monotonic() - since, 3)
        print_json({"scene": scene.name, "ok": True, "seconds": seconds, **facts})

    def failed(self, scene: "Scene", problem: str, node: "DemoNode") -> None:
        node_log = {"node": node.name, "log": node.last_lines(LOG_LINES)}
        print_json({"scene": scene.name, "ok": False, "problem": problem, **node_log})

    def close(self, _seconds: float, *, keep: bool) -> None:
        pass

    def kept(self, nodes: "DemoNodes", pages: dict[str, str]) -> None:
        print_json({"kept": True, "pages": pages, "folder": str(nodes.folder)})


class _StoryTerminal:
    """Shows the story line by line, slowly at a terminal."""

    def __init__(self, *, slow: bool) -> None:
        self._console = rich_console.Console(highlight=False)
        self._console.width = min(self._console.width, MAX_WIDTH)
        self._slow = slow and sys.stdout.isatty()
        self._spelling = _PLAIN if self._console.options.ascii_only else {}

    def open(self) -> None:
        self._paragraph(_ABOUT)
        self._write("✓ checked. ✗ tried, and refused as it must be.")

    async def play(self, scene: "Scene", number: int, nodes: "DemoNodes") -> None:
        self._console.print()
        self._console.rule(f"[bold]{number + 1}. {scene.title}", align="left", style="cyan")
        await scene.play(nodes, self)
        self._paragraph(f"Why it matters: {scene.why}", "cyan")
        await self._pause(SCENE_SECONDS)

    def failed(self, scene: "Scene", problem: str, node: "DemoNode") -> None:
        self._row("✗", "bold red", f"The scene “{scene.title}” failed: {one_line(problem)}")
        self._console.print()
        self._paragraph(f"The log of {node.name}'s node, its last lines:", "bold")
        for line in node.last_lines(LOG_LINES) or ["(it is empty)"]:
            self._write(one_line(line))

    def close(self, seconds: float, *, keep: bool) -> None:
        self._console.print()
        self._console.rule(style="cyan", characters="─".translate(self._spelling))
        self._paragraph(f"Every scene gave the expected result. It took {seconds:.0f} seconds.", "bold green")
        if not keep:
            self._paragraph("`comity demo --keep` keeps these nodes running, each with a page to look at.")
        self._paragraph("Start a node of your own with `comity up`; `comity --help` shows the rest.")

    def kept(self, nodes: "DemoNodes", pages: dict[str, str]) -> None:
        self._console.print()
        self._paragraph("The nodes keep running. The page of each, at a link that works once:")
        for name, page in pages.items():
            self._write(f"{name:<5}  {page}", style="cyan")
        self._paragraph("Try commands on them from another terminal, for example:")
        self._write(f"comity watch --data {nodes.anna.data}", style="cyan")
        self._paragraph("Ctrl-C stops them and removes their folder.")

    async def did(self, text: str) -> None:
        await self._show("·", "dim", text)

    async def proved(self, text: str) -> None:
        await self._show("✓", "bold green", text)

    async def refused(self, text: str) -> None:
        await self._show("✗", "bold yellow", text)

    @contextlib.contextmanager
    def bar(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        if not self._console.is_terminal:
            yield lambda _done: None
            return
        columns = (
            rich_progress.TextColumn("    {task.description}"),
            rich_progress.BarColumn(),
            rich_progress.DownloadColumn(),
        )
        with rich_progress.Progress(*columns, console=self._console) as shown:
            task = shown.add_task(name, total=total)
            yield lambda done: shown.update(task, completed=done)

    async def _show(self, mark: str, style: str, text: str) -> None:
        self._row(mark, style, text)
        await self._pause(READING_SECONDS)

    async def _pause(self, seconds: float) -> None:
        if self._slow:
            await asyncio.sleep(seconds)

    def _row(self, mark: str, style: str, text: str) -> None:
        """Print a mark and the text beside it."""
        first, *others = textwrap.wrap(text, self._console.width - _INDENT) or [""]
        self._console.print(f" [{style}]{mark.translate(self._spelling)}[/] ", end="")
        self._write(first, *(" " * _INDENT + line for line in others))

    def _paragraph(self, text: str, style: str = "") -> None:
        self._write(*textwrap.wrap(text, self._console.width), style=style)

    def _write(self, *lines: str, style: str = "") -> None:
        for line in lines:
            spelled = line.translate(self._spelling)
            self._console.print(spelled, style=style, markup=False, soft_wrap=True)
