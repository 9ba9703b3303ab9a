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


def whole(low: int, high: int) -> Kind:
    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise ValueError
        return int(text)

    def take(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError
        return value

    return Kind(f"a whole number from {low} to {high}", read, take)


def number(low: float, high: float) -> Kind:
    def read(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            raise ValueError
        return float(text)

    def take(value: Any) -> float:
        if type(value) not in {int, float} or not low <= value <= high:
            raise ValueError
        return float(value)

    return Kind(f"a number from {low:.12g} to {high:.12g}", read, take)


def yes_no() -> Kind:
    def read(text: str) -> bool:
        if text.lower() in {"true", "yes", "on", "1"}:
            return True
        if text.lower() in {"false", "no", "off", "0"}:
            return False
        raise ValueError

    def take(value: Any) -> bool:
        if type(value) is not bool:
            raise ValueError
        return value

    return Kind("true or false", read, take)


def one_of(*names: str) -> Kind:
    def take(value: Any) -> str:
        if not isinstance(value, str) or value.lower() not in names:
            raise ValueError
        return value.lower()

    return Kind(f"{', '.join(names[:-1])} or {names[-1]}", str, take)


def text(wanted: str, pattern: str) -> Kind:
    def take(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError
        return value

    return Kind(wanted, str, take)


def network() -> Kind:
    def take(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError  # noqa: TRY004 - one refusal for all that does not fit
        ipaddress.ip_network(value)  # raises ValueError, also for a network with bits of a host
        return value

    return Kind("an address such as 127.0.0.1 or a network such as 10.1.0.0/16", str, take)


def list_of(item: Kind) -> Kind:
    def read(text: str) -> list[str]:
        return [part.strip() for part in text.split(",")]

    def take(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError  # noqa: TRY004 - one refusal for all that does not fit
        return tuple(item.take(part) for part in value)

    return Kind(f"a list (in a variable: separated by commas), each {item.wanted}", read, take)


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
