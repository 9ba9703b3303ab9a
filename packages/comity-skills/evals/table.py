"""A table as data: printed for people, dumped for programs."""

from collections.abc import Callable, Sequence

from msgspec import Struct

Cell = str | int | float | None


class Table(Struct, frozen=True, kw_only=True):
    """`notes` are lines below the table, or all there is."""

    name: str
    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    notes: Sequence[str] = ()


Tables = Callable[[], Sequence[Table]]


def shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
