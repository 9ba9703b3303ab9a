"""What a person looks at: a view is facts, tables and drawn tables about one thing.

- A part declares its views; the page at `/` draws them, and programs read them at `/v1/views`.
- Names, ids, counts, states and hashes are shown. Contents of messages, signals, tokens and invites never are.
- A long table comes in pages: `more` says where the next one begins, and comes back as `after`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

PAGE: Final = 50
MOST: Final = 200

Kind = Literal["", "search", "verify", "try"]


class Fact(Struct, frozen=True, omit_defaults=True):
    """`copy` gives it a button that copies the value."""

    label: str
    value: str
    copy: bool = False
    mark: Literal["", "good", "bad"] = ""


class RowButton(Struct, frozen=True):
    """Each row with a value has a button that posts `{member: value}` to `path`."""

    label: str
    path: str
    member: str
    values: Sequence[str]


class Table(Struct, frozen=True, omit_defaults=True):
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    title: str = ""
    more: str = ""
    empty: str = "nothing yet"
    button: RowButton | None = None


class Matrix(Struct, frozen=True, omit_defaults=True):
    """How often the one of a row was preferred to the one of a column."""

    title: str
    names: Sequence[str]
    cells: Sequence[Sequence[int]]


class ViewPage(Struct, frozen=True, omit_defaults=True):
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    matrices: Sequence[Matrix] = ()


class ViewQuery(Struct, frozen=True):
    after: str = ""
    limit: int = PAGE
    text: str = ""


class View(NamedTuple):
    """`kind` says what else the page offers: a field to search with, a button that verifies, a form to try."""

    name: str
    title: str
    read: Callable[[ViewQuery], Awaitable[ViewPage]]
    kind: Kind = ""


def paged(rows: Sequence[Sequence[str]], query: ViewQuery) -> tuple[Sequence[Sequence[str]], str]:
    """The rows of this page, and where the next one begins. `after` is how many came before."""
    first = int(query.after) if query.after.isdecimal() and len(query.after) < 10 else 0
    last = first + query.limit
    return rows[first:last], str(last) if last < len(rows) else ""
