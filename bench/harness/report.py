"""Telling what was measured: a table for people, JSON for programs.

One line per contender. A baseline's line says how fast ours is in its terms, and whether the bar
set against it was met; a bar that speaks of ours alone stands on our own line.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.harness.bars import Verdict
from bench.harness.figures import Samples, number
from bench.harness.machine import Machine
from bench.harness.measure import Measured, Missed
from bench.harness.row import Unit

FORMAT = 1

_HEADINGS = ("workload", "median", "low .. high", "ours is", "bar")
_COLOURS = {Verdict.MET: "green", Verdict.NOT_MET: "bold white on red", Verdict.NOT_APPLICABLE: "dim"}
_LEGEND = (
    "'ours is' how fast, in terms of that baseline: the median over the rounds of ours/baseline for "
    "rates, baseline/ours for times; more is better."
)


class Line(Struct, frozen=True):
    cells: tuple[str, str, str, str, str]
    worst: Verdict | None = None


def as_plain_text(results: Sequence[Measured | Missed], machine: Machine) -> str:
    blocks = [(_heading(result), list(_lines(result))) for result in results]
    rows = [_HEADINGS, *(line.cells for _, lines in blocks for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]

    def told(cells: Sequence[str]) -> str:
        name, *figures, bar = cells
        right = (cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True))
        return "  ".join((name.ljust(widths[0]), *right, bar)).rstrip()

    text = [told(_HEADINGS)]
    for heading, lines in blocks:
        text += ["", heading, *(told(line.cells) for line in lines)]
    return "\n".join([*text, "", _LEGEND, _facts(machine), *_summary(results)])


def print_table(console: Console, results: Sequence[Measured | Missed], machine: Machine) -> None:
    table = Table(*_HEADINGS, box=box.SIMPLE_HEAD, caption_justify="left", pad_edge=False)
    for column in table.columns[1:4]:
        column.justify = "right"
        column.no_wrap = True
    for result in results:
        table.add_row(Text(_heading(result), style="bold"))
        for line in _lines(result):
            *cells, bar = (Text(cell) for cell in line.cells)
            if line.worst is not None:
                bar.stylize(_COLOURS[line.worst])
            table.add_row(*cells, bar)
        table.add_section()
    console.print(table)
    console.print(Text(f"{_LEGEND}\n{_facts(machine)}", style="dim"))
    for sentence in _summary(results):
        loud = sentence.startswith(Verdict.NOT_MET.value)
        console.print(Text(sentence, style=_COLOURS[Verdict.NOT_MET] if loud else ""))


def as_json(results: Sequence[Measured | Missed], machine: Machine, *, rounds: int, seconds: float) -> bytes:
    form = {
        "format": FORMAT,
        "machine": machine,
        "rounds": rounds,
        "seconds_per_turn": seconds,
        "rows": [_as_data(result) for result in results],
    }
    return msgspec.json.format(msgspec.json.encode(form), indent=2) + b"\n"


def bars_not_met(results: Sequence[Measured | Missed]) -> list[str]:
    return [
        f"{result.row.name}: {judgement.bar}, measured {judgement.reason}"
        for result in results
        if isinstance(result, Measured)
        for judgement in result.judgements
        if judgement.verdict is Verdict.NOT_MET
    ]


def _heading(result: Measured | Missed) -> str:
    return f"{result.row.name}: {result.row.title} ({result.row.unit.value})"


def _lines(result: Measured | Missed) -> Iterator[Line]:
    if isinstance(result, Missed):
        how = "left out" if result.fault is None else f"BROKEN by {result.fault}"
        yield Line((f"  {how}", "", "", "", result.reason))
        return
    figures, unit = result.figures, result.row.unit
    for samples in figures.contenders:
        judgements = [
            judgement
            for judgement in result.judgements
            if (judgement.against or figures.ours.name) == samples.name
        ]
        verdicts = [judgement.verdict for judgement in judgements]
        ratio = "" if samples is figures.ours else _ratio(figures.ratio(samples.name))
        yield Line(
            (
                f"  {samples.name}",
                _figure(samples.median, unit),
                f"{_figure(samples.low, unit)} .. {_figure(samples.high, unit)}",
                ratio,
                "; ".join(f"{one.bar}: {one.verdict.value} ({one.reason})" for one in judgements),
            ),
            next((verdict for verdict in reversed(Verdict) if verdict in verdicts), None),
        )


def _figure(value: float, unit: Unit) -> str:
    return f"{number(value * 1000)} ms" if unit is Unit.TIME else number(value)


def _ratio(ratio: Samples) -> str:
    return f"{number(ratio.median)}x ({number(ratio.low)} .. {number(ratio.high)})"


def _facts(machine: Machine) -> str:
    loads = f"load {machine.load_before} before, {machine.load_after} after"
    return (
        f"{machine.cores} cores, {machine.system} {machine.processor}, Python {machine.python}, "
        f"SQLite {machine.sqlite}, {machine.file_system or 'unknown file system'}, {loads}"
    )


def _summary(results: Sequence[Measured | Missed]) -> Iterator[str]:
    verdicts = [
        judgement.verdict
        for result in results
        if isinstance(result, Measured)
        for judgement in result.judgements
    ]
    yield (
        f"bars: {verdicts.count(Verdict.MET)} met, {verdicts.count(Verdict.NOT_MET)} not met, "
        f"{verdicts.count(Verdict.NOT_APPLICABLE)} not applicable here"
    )
    yield from (f"{Verdict.NOT_MET.value}  {sentence}" for sentence in bars_not_met(results))


def _as_data(result: Measured | Missed) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": result.row.name,
        "title": result.row.title,
        "unit": result.row.unit.value,
    }
    if isinstance(result, Missed):
        # the words of an error may name a path, which has no place in a file that travels
        return told | ({"left_out": result.reason} if result.fault is None else {"broken": result.fault})
    figures = result.figures
    return told | {
        "contenders": [_spread(samples) for samples in figures.contenders],
        "ratios": [_spread(figures.ratio(samples.name)) for samples in figures.baselines],
        "bars": [
            {"bar": one.bar, "verdict": one.verdict.name.lower(), "reason": one.reason}
            for one in result.judgements
        ],
    }


def _spread(samples: Samples) -> dict[str, Any]:
    return {
        "name": samples.name,
        "median": samples.median,
        "low": samples.low,
        "high": samples.high,
        "samples": samples.values,
    }
