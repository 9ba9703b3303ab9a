"""JSON Schema for the arguments and the results of tools: 2020-12 by default, compiled once, never fetched.

A complaint names the place by its JSON pointer and says what is wrong there, in one short line; values are
not repeated in it. For an unknown argument it also names the known ones.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from comity.wire.errors import ConfigError

Complain = Callable[[Any], str | None]
"""None for a value that fits."""

_MAX_LENGTH: Final = 300
_MAX_FAULTS: Final = 3


def complainer(schema: Mapping[str, Any]) -> Complain:
    """Return a check for values. Raise ConfigError for an invalid schema, or one that would have to be fetched."""
    import jsonschema_rs  # noqa: PLC0415 - for the first schema

    try:
        validator = jsonschema_rs.validator_for(dict(schema), mask="the value", retriever=_never)
    except (jsonschema_rs.ValidationError, ValueError, jsonschema_rs.ReferencingError) as fault:
        raise ConfigError(f"a schema cannot be used: {str(fault)[:_MAX_LENGTH]}") from None
    fits, errors = validator.is_valid, validator.iter_errors
    known = ", ".join(schema.get("properties", ()))

    def complain(value: Any) -> str | None:
        try:
            if fits(value):
                return None
            faults = list(itertools.islice(errors(value), _MAX_FAULTS))
        except ValueError:
            return "the arguments: nested too deeply, or with a number too large to be checked; send less"
        found = [f"{_pointer(fault.instance_path)}: {fault.message}"[:_MAX_LENGTH] for fault in faults]
        if known and any(fault.schema_path == ["additionalProperties"] for fault in faults):
            found.append(f"allowed are {known}"[:_MAX_LENGTH])
        return "; ".join(found)

    return complain


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path) or "the arguments"


def _never(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema, and schemas are never fetched")
