"""Header cells have cells to head, and the headers that a cell names exist."""

from collections.abc import Iterator
from itertools import chain, islice, product

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    judge,
)

_HEADERS = frozenset({"columnheader", "rowheader"})
_CELLS = frozenset({"cell", "gridcell"})
_TABLES = frozenset({"table", "grid", "treegrid"})
_SPAN = 1000
_GRID = 200_000
_REACH = 500


def _headers_exist(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("headers"):
        table = element.closest("table")
        if element.tag not in {"td", "th"} or table is None or not element.tokens("headers"):
            continue
        if subject.roles.of(table) not in _TABLES or not _perceived(subject, element):
            continue
        yield judge(element, _wrong_header(subject, element, table))


def _perceived(subject: Subject, element: Element) -> bool:
    return subject.shown.seen(element) or subject.shown.told(element)


def _wrong_header(subject: Subject, element: Element, table: Element) -> str:
    for name in element.tokens("headers"):
        header = subject.document.by_id.get(name)
        if header is None or not table.holds(header) or header.closest("table") is not table:
            return f"headers names {name[:40]!r}, which is not in this table."
        if header is element:
            return "The cell names itself as its header."
        if header.tag not in {"td", "th"} or subject.roles.of(header) not in _HEADERS:
            return f"headers names {name[:40]!r}, which is no header cell."
    return ""


class _Grid:
    """The cells of a table by row and column, spans filled in."""

    def __init__(self, rows: list[list[Element]]) -> None:
        self.places: dict[tuple[int, int], Element] = {}
        self.at: dict[int, tuple[int, int, int, int]] = {}
        self.height = len(rows)
        self.width = 0
        for row, cells in enumerate(rows):
            column = 0
            for cell in cells:
                while (row, column) in self.places:
                    column += 1
                wide, high = _span(cell, "colspan"), min(_span(cell, "rowspan"), self.height - row)
                if len(self.places) + wide * high > _GRID:
                    return
                for down in range(high):
                    for right in range(wide):
                        self.places[row + down, column + right] = cell
                self.at[cell.index] = (row, column, high, wide)
                column += wide
                self.width = max(self.width, column)


def _span(cell: Element, name: str) -> int:
    text = (cell.get(name) or cell.get(f"aria-{name}") or "1").strip()
    return max(1, min(_SPAN, int(text))) if text.isascii() and text.isdigit() and len(text) < 6 else 1


def _rows(subject: Subject, table: Element) -> list[list[Element]]:
    rows: dict[int, list[Element]] = {}
    for one in subject.document.inside(table):
        role = subject.roles.of(one)
        if role == "row" and _holder(subject, one, _TABLES) is table:
            rows[one.index] = []
        elif role in _HEADERS | _CELLS:
            row = _holder(subject, one, frozenset({"row"}))
            if row is not None and row.index in rows:
                rows[row.index].append(one)
    return list(rows.values())


def _holder(subject: Subject, element: Element, roles: frozenset[str]) -> Element | None:
    for above in element.ancestors():
        role = subject.roles.of(above)
        if role in roles:
            return above
        if role in _TABLES:
            return None
    return None


def _headed(subject: Subject) -> Iterator[Finding]:
    for table in subject.document.elements:
        if subject.roles.of(table) not in _TABLES or not subject.shown.told(table):
            continue
        grid = _Grid(_rows(subject, table))
        named = {
            name
            for cell in subject.document.inside(table)
            if cell.has("headers")
            for name in cell.tokens("headers")
        }
        filled = any(subject.roles.of(one) in _CELLS for one in grid.places.values())
        for cell, place in list(grid.at.items()):
            header = subject.document.elements[cell]
            if subject.roles.of(header) not in _HEADERS or not _perceived(subject, header):
                continue
            if not subject.names.of(header):
                continue
            served = header.get("id") in named or _serves(subject, grid, header, place)
            if not served and subject.scripted and not filled:
                yield cannot_tell(header, "A script may fill the table; see that its cells have headers.")
                continue
            yield judge(header, "" if served else "The header cell heads no other cell.")


def _serves(subject: Subject, grid: _Grid, header: Element, place: tuple[int, int, int, int]) -> bool:
    """Whether a cell stands to the side or below, as the role and the scope say, without headers of its own."""
    row, column, high, wide = place
    scope = (header.get("scope") or "").strip().lower()
    sideways = subject.roles.of(header) == "rowheader" or scope in {"row", "rowgroup"}
    below = subject.roles.of(header) == "columnheader" or scope in {"col", "colgroup"}
    rows, columns = range(row, row + high), range(column, column + wide)
    under = product(range(row + high, grid.height), columns) if below else ()
    beside = product(rows, chain(range(column + wide, grid.width), range(column))) if sideways else ()
    for spot in islice(chain(under, beside), _REACH):
        cell = grid.places.get(spot)
        if cell is None or cell is header:
            continue
        # A row header stands under a column header as a data cell does, and the other way round.
        if subject.roles.of(cell) != subject.roles.of(header) and not cell.tokens("headers"):
            return True
    return False


def _without_headers(subject: Subject) -> Iterator[Finding]:
    for table in subject.document.tagged("table"):
        if subject.roles.of(table) not in _TABLES or not subject.shown.told(table):
            continue
        roles = {subject.roles.of(one) for one in subject.document.inside(table)}
        if roles & _CELLS and not roles & _HEADERS:
            yield cannot_tell(table, "The table has no header cells; if it holds data, it needs them.")


RULES = (
    Rule(
        id="a25f45",
        name="Headers of a cell exist",
        criteria=("1.3.1",),
        how="Every id in a headers attribute belongs to another header cell of the same table.",
        fix="Let the headers attribute name th elements of this table.",
        check=_headers_exist,
    ),
    Rule(
        id="d0f69e",
        name="Header cell heads other cells",
        criteria=("1.3.1",),
        how="The table is laid out with its spans; every header cell has a data cell in its row or column.",
        fix="Use td for cells that head nothing, or correct scope and headers.",
        check=_headed,
    ),
    Rule(
        id="table-headers",
        name="Data table has headers",
        criteria=("1.3.1",),
        how="Tables without any header cell need a look: they hold data, or only lay out the page (our own rule).",
        fix='Mark the header cells with th, or give a table for layout role="none".',
        check=_without_headers,
        decides=False,
        seen="a table without header cells",
    ),
)
