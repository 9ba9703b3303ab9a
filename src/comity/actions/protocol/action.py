"""What an action is: a skill as a node calls it, and whether an input fits its contract (actions 1.4).

- *strict* is the wire of 0.1.1, *compat* that of 1.0.8, *enhanced* is ours: it adds evidence under `output`.
- An action is what `comity_skills.skill` describes. A handler of a plugin refuses an input with `ActionError`, whose
  sentence goes on the wire as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from comity.wire.errors import ActionError
from comity.wire.json_schema import complainer
from comity_skills.skill import Mode, Uncertainty
from comity_skills.skill import PagesWanted as Fetch
from comity_skills.skill import Skill as Action
from comity_skills.skill import SkillContract as Contract
from comity_skills.skill import SkillHandler as Handler
from comity_skills.skill import SkillOutcome as Outcome
from comity_skills.skill import WebPage as FetchedPage

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

Check = Callable[[Mapping[str, Any]], list[str]]
"""Returns the faults of an input as sentences."""

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
        """The strings that are valid without another check, or None for every string."""
        if self.types != (str,) or self.shortest or self.longest is not None:
            return ()
        return self.options


def check_for(schema: Mapping[str, Any], mode: Mode) -> Check:
    """Return the validator of an input schema."""
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
    """Return a check of the whole JSON Schema. Raise ConfigError if it is invalid or refers to another document."""
    complain = complainer(plain(schema))

    def check(given: Mapping[str, Any]) -> list[str]:
        try:
            fault = complain(given)
        except (RecursionError, ValueError):  # too deep for the library, or half a surrogate pair in it
            try:
                fault = complain(_without_surrogates(given))
            except (RecursionError, ValueError):
                fault = "the input is nested too deeply"
        return [fault] if fault else []

    return check


def plain(value: Any) -> Any:
    """Return the value made of dicts and lists only, as JSON libraries need it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _without_surrogates(value: Any) -> Any:
    """Return the value without half surrogate pairs, which the library cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
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
    """Compare by type and value: 1 is neither true nor "1"."""
    if type(value) is str:
        return value in options
    return any(type(option) is type(value) and option == value for option in options)


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    """Check the type. A boolean is no number, although it is an int in Python."""
    return isinstance(value, types) and not (type(value) is bool and int in types)
