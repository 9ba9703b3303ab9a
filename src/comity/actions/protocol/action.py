"""What an action is: its contract in each mode of the wire, and a pure function of its input.

- *strict* is the wire of 0.1.1, *compat* that of 1.0.8, *enhanced* is ours: it adds evidence under `output`.
- A handler reads no file and opens no socket. Its data files are handed to `prepare`, once; a page that has
  to be fetched is asked for by answering `Fetch`, and the work goes on with what came back.
- A handler gets input that has passed the validation of its mode's contract, and still trusts no value in
  it: what it cannot work with it refuses with `ActionError`, whose sentence goes on the wire as it is.
- Every mode keeps what safety demands: a detected crisis raises the risk, a rewriter never changes the
  meaning, no text of the user is repeated in the reply.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from comity.wire.errors import ActionError
from comity.wire.json_schema import complainer

__all__ = [
    "Action",
    "ActionError",
    "Contract",
    "Fetch",
    "FetchedPage",
    "Handler",
    "Mode",
    "Outcome",
    "Uncertainty",
]  # fmt: skip

Mode = Literal["strict", "compat", "enhanced"]
Uncertainty = Literal["low", "medium", "high"]


class Contract(Struct, frozen=True, kw_only=True):
    """What `list_actions` says of an action, and the schemas that its input and output keep.
    The order of `required` and `properties` is the order of the messages about a bad input.
    """

    skill: str
    boundary: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    description: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """The order of the keys in `output` is the order on the wire. A `shared` outcome is returned again and again as the same object, so its encoded form can be cached."""

    uncertainty: Uncertainty
    assumptions: Sequence[str]
    output: Mapping[str, Any]
    shared: bool = False


class FetchedPage(Struct, frozen=True, kw_only=True):
    """A page that was fetched. `failure` says in a sentence why there is no text."""

    url: str
    html: str = ""
    failure: str = ""


class Fetch(Struct, frozen=True):
    """These pages are needed before the work can go on, in this order."""

    urls: tuple[str, ...]
    resume: Callable[[Sequence[FetchedPage]], Outcome]


Handler = Callable[[Mapping[str, Any], Mode], Outcome | Fetch]


class Action(Struct, frozen=True, kw_only=True):
    """`contracts` has an entry for each mode that lists the action. `data` names the files that `prepare`
    needs, as paths beside its module. `slow` work runs in a worker with a deadline.
    """

    name: str
    contracts: Mapping[Mode, Contract]
    prepare: Callable[[Mapping[str, bytes]], Handler]
    data: tuple[str, ...] = ()
    slow: bool = False


# Whether an input keeps its contract, and the exact sentences when it does not (actions 1.4).


Check = Callable[[Mapping[str, Any]], list[str]]
"""What is wrong with an input, in sentences; nothing when it can be used."""

_KINDS: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "string": ("a string", (str,)),
    "number": ("a number", (int, float)),
    "boolean": ("a boolean", (bool,)),
    "array": ("an array", (list,)),
    "object": ("an object", (dict,)),
}
_ABSENT: Final = object()
_ANY: Final = ("", (object,))


class _Property(Struct, frozen=True, kw_only=True):
    name: str
    options: tuple[Any, ...] | None
    kind: str
    types: tuple[type, ...]
    strings: bool
    shortest: int
    longest: int | None

    @property
    def texts(self) -> Sequence[Any] | None:
        """The strings that will do without a closer look, None for every string."""
        if self.types != (str,) or self.shortest or self.longest is not None:
            return ()
        return self.options


def check_for(schema: Mapping[str, Any], mode: Mode) -> Check:
    """The validator of an input schema."""
    required = tuple(schema.get("required", ()))
    properties = tuple(
        _property(name, rule, thorough=mode != "strict")
        for name, rule in schema.get("properties", {}).items()
    )

    rules = tuple((rule.name, rule.texts, rule) for rule in properties)

    def check(given: Mapping[str, Any]) -> list[str]:
        faults = []
        for name in required:
            value = given.get(name)
            if value is None or value == "":
                faults.append(f"Required field '{name}' is missing or empty")
        for name, texts, rule in rules:
            value = given.get(name, _ABSENT)
            if value is _ABSENT or (type(value) is str and (texts is None or value in texts)):
                continue
            _judge(rule, value, faults)
        return faults

    if mode != "enhanced":
        return check
    rest = schema_check(schema)
    return lambda given: check(given) or rest(given)


def schema_check(schema: Mapping[str, Any]) -> Check:
    """The JSON Schema as a whole. ConfigError when it is none, or points outside itself."""
    complain = complainer(plain(schema))

    def check(given: Mapping[str, Any]) -> list[str]:
        try:
            said = complain(given)
        except (RecursionError, ValueError):  # too deep for the library, or half a surrogate pair in it
            try:
                said = complain(_spelled(given))
            except (RecursionError, ValueError):
                said = "the input is nested too deeply"
        return [said] if said else []

    return check


def plain(value: Any) -> Any:
    """The same value made of dicts and lists only, as every JSON library takes it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _spelled(value: Any) -> Any:
    """The same without half surrogate pairs, which the library cannot spell."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_spelled(key): _spelled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    return value


def _property(name: str, rule: Mapping[str, Any], *, thorough: bool) -> _Property:
    kind = rule.get("type")
    sentence, types = _KINDS.get(kind, _ANY) if isinstance(kind, str) else _ANY
    items = rule.get("items", {})
    return _Property(
        name=name,
        options=tuple(rule["enum"]) if "enum" in rule else None,
        kind=sentence,
        types=types,
        strings=thorough and kind == "array" and isinstance(items, Mapping) and items.get("type") == "string",
        shortest=rule.get("minLength", 0) if thorough and kind == "string" else 0,
        longest=rule.get("maxLength") if thorough and kind == "string" else None,
    )


def _judge(rule: _Property, value: Any, faults: list[str]) -> None:
    name = rule.name
    if rule.options is not None and not _is_one_of(value, rule.options):
        faults.append(f"'{name}' must be one of: {', '.join(map(str, rule.options))}")
    elif not _is_of(value, rule.types):
        faults.append(f"'{name}' must be {rule.kind}")
    elif rule.strings:
        faults.extend(
            f"'{name}[{index}]' must be a string"
            for index, item in enumerate(value)
            if not isinstance(item, str)
        )
    elif rule.shortest or rule.longest is not None:
        units = len(value) + sum(character > "\uffff" for character in value)
        if units < rule.shortest:
            faults.append(f"'{name}' must be at least {rule.shortest} characters")
        if rule.longest is not None and units > rule.longest:
            faults.append(f"'{name}' must be at most {rule.longest} characters")


def _is_one_of(value: Any, options: Sequence[Any]) -> bool:
    """By type and value: 1 is neither true nor "1"."""
    if type(value) is str:
        return value in options
    return any(type(option) is type(value) and option == value for option in options)


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    """A boolean is no number, whatever the interpreter says."""
    return isinstance(value, types) and not (type(value) is bool and int in types)
