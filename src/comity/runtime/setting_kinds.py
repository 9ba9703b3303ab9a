"""The kinds of values that settings have: what each must be, in words, and how text becomes one.

A section of the settings is a Struct. A field that is a number, a text or a list names its kind, as in
`Annotated[int, whole(1, 10)]`; for a bool, a Literal and a Path the type is enough.
"""

import ipaddress
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields


class Kind(NamedTuple):
    """What a value must be, in words; how text becomes one; which values fit. Both raise ValueError."""

    wanted: str
    read: Callable[[str], Any]
    take: Callable[[Any], Any]
    is_path: bool = False


_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})


def _where(
    fits: Callable[[Any], object], convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        if not fits(value):
            raise ValueError
        return convert(value)

    return take


def whole(low: int, high: int) -> Kind:
    return Kind(
        f"a whole number from {low} to {high}",
        _where(lambda text: re.fullmatch("-?[0-9]{1,18}", text), int),
        _where(lambda value: type(value) is int and low <= value <= high),
    )


def number(low: float, high: float) -> Kind:
    return Kind(
        f"a number from {low:.12g} to {high:.12g}",
        _where(lambda text: re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text), float),
        _where(lambda value: type(value) in {int, float} and low <= value <= high, float),
    )


def yes_no() -> Kind:
    return Kind(
        "true or false",
        _where(lambda text: text.lower() in _YES | _NO, lambda text: text.lower() in _YES),
        _where(lambda value: type(value) is bool),
    )


def one_of(*names: str) -> Kind:
    wanted = f"{', '.join(names[:-1])} or {names[-1]}"
    return Kind(
        wanted, str, _where(lambda value: isinstance(value, str) and value.lower() in names, str.lower)
    )


def text(wanted: str, pattern: str) -> Kind:
    return Kind(wanted, str, _where(lambda value: isinstance(value, str) and re.fullmatch(pattern, value)))


def network() -> Kind:
    # to read a network raises ValueError, also for one with bits of a host
    return Kind(
        "an address such as 127.0.0.1 or a network such as 10.1.0.0/16",
        str,
        _where(lambda value: isinstance(value, str) and ipaddress.ip_network(value)),
    )


def list_of(item: Kind) -> Kind:
    return Kind(
        f"a list (in a variable: separated by commas), each {item.wanted}",
        lambda text: [part.strip() for part in text.split(",")],
        _where(lambda value: isinstance(value, list | tuple), lambda value: tuple(map(item.take, value))),
    )


PATH = Kind("a path", str, lambda value: value, is_path=True)
HOST = r"[A-Za-z0-9._%-]{1,253}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]+)?"
NAMED_HOST = r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]"
ADDRESS = r"|https?://[^\s@]+"


def kinds_of(section: type[Struct], but: Collection[str] = ()) -> dict[str, Kind]:
    """The kind of each field, except for those named in `but`."""
    return {
        field.name: _kind(section, field.name, field.type)
        for field in fields(section)
        if field.name not in but
    }


def _kind(section: type[Struct], name: str, declared: Any) -> Kind:
    if get_origin(declared) is Annotated:
        named = next((extra for extra in declared.__metadata__ if isinstance(extra, Kind)), None)
        if named is not None:
            return named
    if declared is bool:
        return yes_no()
    if get_origin(declared) is Literal:
        return one_of(*get_args(declared))
    if declared is Path or declared == Path | None:
        return PATH
    raise TypeError(f"{section.__name__}.{name} needs a kind, as in Annotated[int, whole(1, 10)]")
