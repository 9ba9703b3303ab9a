"""Help: what a command is for, how it is called, its options, examples.

The same for every command, and drawn without a table library, because help must appear at once.
"""

import functools
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from comity.terminal.output import paint

_MAX_WIDTH = 100
_MIN_WIDTH = 40
_COLUMN = 26
_INDENT = 6
_READABLE = 24
_MUST = re.compile(r"\{(.*)\}")
_DEFAULT = re.compile(r"\[default: (.+)\]$")

_Command = TypeVar("_Command", bound=Callable[..., Any])

# typer keeps the types of its contexts and formatters private, hence Any


class AsTyped:
    """An option's text as it was typed: text or a plain flag, checked by rules and in words of our own.

    The library would load a validation framework for it, which takes longer than all the rest.
    """

    def coerce(self, value: Any, **_: Any) -> Any:
        return value


class HelpfulCommand(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return take_as_typed(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(command_help(self, ctx))


class HelpfulGroup(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return take_as_typed(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(command_help(self, ctx))


def take_as_typed(params: list[Any]) -> list[Any]:
    for param in params:
        param._runtime_param = AsTyped()  # noqa: SLF001 - there is no public way; without it all works, slower
    return params


class HelpfulApp(typer.Typer):
    """A command's own Typer; a group when it has a help text of its own."""

    def __init__(self, help_text: str | None = None) -> None:
        super().__init__(
            cls=HelpfulGroup,
            rich_markup_mode=None,
            add_completion=False,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["--help", "-h"]},
        )
        if help_text is not None:
            self.callback(help=help_text)(_only_groups_commands)

    def add(
        self, calls: str, cls: type[HelpfulCommand] = HelpfulCommand, *, name: str = ""
    ) -> Callable[[_Command], _Command]:
        """Add a command with examples of how it is called, as `examples` reads them. Without `name` it has the name of its
        function; an underscore at the end only keeps that apart from a word of Python.
        """

        def register(function: _Command) -> _Command:
            own_name = name or function.__name__.rstrip("_").replace("_", "-")
            self.command(own_name, cls=cls, epilog=calls)(_taking_options_apart(function))
            return function

        return register


def _only_groups_commands() -> None:
    pass


def _taking_options_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace each argument that is a dataclass by its fields, because Typer knows options one by one."""
    whole = inspect.signature(function)
    groups: dict[str, Any] = {
        name: argument.annotation
        for name, argument in whole.parameters.items()
        if is_dataclass(argument.annotation)
    }
    apart: dict[str, inspect.Parameter] = {}
    for name, argument in whole.parameters.items():
        apart |= inspect.signature(groups[name]).parameters if name in groups else {name: argument}

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return function(**given)

    command.__signature__ = whole.replace(parameters=list(apart.values()))  # type: ignore[attr-defined] # what Typer reads
    command.__annotations__ = {name: argument.annotation for name, argument in apart.items()}
    return command


def command_help(command: Any, ctx: Any) -> str:
    parts = [paragraphs(command.help or ""), usage(command, ctx)]
    arguments, options = records(command, ctx)
    if isinstance(command, TyperGroup):
        rows = [
            (name, command.commands[name].get_short_help_str(limit=200))
            for name in command.list_commands(ctx)
        ]
        parts.append(section("Commands", rows))
    shown = command.epilog or "\n".join(map(_first_example, getattr(command, "commands", {}).values()))
    parts += [section("Arguments", arguments), section("Options", options), examples(shown)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _first_example(command: Any) -> str:
    """Return the first example of a command, for a group without examples of its own."""
    return next(filter(None, inspect.cleandoc(command.epilog or "").splitlines()), "")


def usage(command: Any, ctx: Any) -> str:
    # what must be there is plain: {FILE}... is FILE...
    pieces = (_MUST.sub(r"\1", piece) for piece in command.collect_usage_pieces(ctx))
    call = " ".join((ctx.command_path, *pieces))
    return f"{paint('Usage:', 'bold')} {call}"


def paragraphs(text: str) -> str:
    blocks = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        textwrap.fill(" ".join(block.split()), width(), break_on_hyphens=False) for block in blocks
    )


def section(title: str, rows: Sequence[tuple[str, str]], column: int | None = None) -> str:
    """Return a section of names and meanings; sections with the same `column` are aligned."""
    if not rows:
        return ""
    column = column or min(_COLUMN, max(len(name) for name, _ in rows)) + 4
    if width() - column < _READABLE:
        column = _INDENT
    lines = [paint(title, "bold")]
    for name, text in rows:
        wrapped = textwrap.wrap(text, width() - column, break_on_hyphens=False) or [""]
        label = f"  {paint(name, 'cyan')}"
        beside = column - len(f"  {name}")
        if beside >= 0:
            label = f"{label}{' ' * beside}{wrapped.pop(0)}".rstrip()
        lines += [label, *(" " * column + line for line in wrapped)]
    return "\n".join(lines)


def examples(text: str) -> str:
    """Return examples from lines of a call, two spaces, and what it does."""
    lines = [line for line in inspect.cleandoc(text).splitlines() if line]
    if not lines:
        return ""
    calls = [(call.strip(), note.strip()) for call, _, note in (line.partition("  ") for line in lines)]
    column = max(len(call) for call, _ in calls)
    narrow = column + 4 + max(len(note) for _, note in calls) > width()
    shown = [paint("Examples", "bold")]
    for call, note in calls:
        if narrow and note:
            wrapped = textwrap.wrap(note, width() - _INDENT, break_on_hyphens=False)
            shown.append(f"  {call}")
            shown += [" " * _INDENT + paint(line, "dim") for line in wrapped]
        else:
            remark = paint(note, "dim")
            shown.append(f"  {call}{' ' * (column - len(call) + 2)}{remark}".rstrip())
    return "\n".join(shown)


def width() -> int:
    return max(_MIN_WIDTH, min(_MAX_WIDTH, shutil.get_terminal_size().columns))


def records(command: Any, ctx: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    arguments: list[tuple[str, str]] = []
    options: list[tuple[str, str]] = []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            name, text = record
            text = _DEFAULT.sub(r"Default: \1.", " ".join(text.split()))
            if param.param_type_name == "argument":
                # how it is called shows its kind and whether it is needed
                arguments.append((name.partition(" <")[0], text.removesuffix(" [required]")))
            else:
                options.append((name, text))
    return arguments, options
