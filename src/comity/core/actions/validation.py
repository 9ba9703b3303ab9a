"""Whether an input keeps its contract, and the exact sentences when it does not (actions 1.4).

- First the required fields in the order of `required`, then what is there in the order of `properties`.
  Absent, null and "" are missing; null is also of the wrong type. What the schema does not name passes.
- *strict* looks at enums and types; *compat* also at the items of lists of strings and at lengths, which
  count UTF-16 units as JavaScript does.
- *enhanced* says the same in the same words, and then asks the whole JSON Schema for what is left.
- A schema is read once, into a function. One that points outside itself is refused: nothing is fetched.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from comity.core.actions.action import Mode
from comity.core.errors import ConfigError

Check = Callable[[Mapping[str, Any]], list[str]]
"""What is wrong with an input, in sentences; nothing when it can be used."""

_KINDS: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "string": ("a string", (str,)),
    "number": ("a number", (int, float)),
    "boolean": ("a boolean", (bool,)),
    "array": ("an array", (list,)),
    "object": ("an object", (dict,)),
}
_ANY: Final = ("", (object,))
_SCHEMA_FAULTS: Final = 5
_FAULT_LENGTH: Final = 200


class _Property(Struct, frozen=True, kw_only=True):
    name: str
    options: tuple[Any, ...] | None
    kind: str
    types: tuple[type, ...]
    strings: bool
    shortest: int
    longest: int | None


def check_for(schema: Mapping[str, Any], mode: Mode) -> Check:
    """The validator of an input schema."""
    required = tuple(schema.get("required", ()))
    properties = tuple(
        _property(name, rule, thorough=mode != "strict")
        for name, rule in schema.get("properties", {}).items()
    )

    def check(given: Mapping[str, Any]) -> list[str]:
        faults = [
            f"Required field '{name}' is missing or empty"
            for name in required
            if (value := given.get(name)) is None or value == ""
        ]
        for rule in properties:
            if rule.name in given:
                _judge(rule, given[rule.name], faults)
        return faults

    if mode != "enhanced":
        return check
    rest = schema_check(schema)
    return lambda given: check(given) or rest(given)


def schema_check(schema: Mapping[str, Any]) -> Check:
    """The JSON Schema as a whole. ConfigError when it is none, or points outside itself."""
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(plain(schema), retriever=_fetch_nothing, mask="it")
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as fault:
        why = str(getattr(fault, "message", fault))[:_FAULT_LENGTH]
        raise ConfigError(f"its JSON Schema cannot be used: {why}") from None

    def check(given: Mapping[str, Any]) -> list[str]:
        if validator.is_valid(given):
            return []
        errors = list(validator.iter_errors(given))
        return [_sentence(error.instance_path, error.message) for error in errors[:_SCHEMA_FAULTS]]

    return check


def plain(value: Any) -> Any:
    """The same value made of dicts and lists only, as every JSON library takes it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
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
    return any(type(option) is type(value) and option == value for option in options)


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    """A boolean is no number, whatever the interpreter says."""
    return isinstance(value, types) and not (type(value) is bool and int in types)


def _sentence(path: Sequence[str | int], message: str) -> str:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    said = f"'{where}': {message}" if where else message
    return said if len(said) <= _FAULT_LENGTH else f"{said[:_FAULT_LENGTH]}…"


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"it points to {uri[:_FAULT_LENGTH]}, and nothing is fetched for a schema")
