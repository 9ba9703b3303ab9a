"""JSON Schema for the arguments and the results of tools: 2020-12 by default, compiled once, never fetched.

A complaint names the place by its JSON pointer and says what is wrong there, in one short line; values are
not repeated in it.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from comity.core.errors import ConfigError

Complain = Callable[[Any], str | None]
"""None for a value that fits."""

_LONGEST: Final = 300
_MOST: Final = 3


def complainer(schema: Mapping[str, Any]) -> Complain:
    """Raises ConfigError for what is no schema, and for one that would have to be fetched."""
    import jsonschema_rs  # rooms load when first used

    try:
        validator = jsonschema_rs.validator_for(dict(schema), mask="the value", retriever=_never)
    except (jsonschema_rs.ValidationError, ValueError, jsonschema_rs.ReferencingError) as fault:
        raise ConfigError(f"a schema cannot be used: {str(fault)[:_LONGEST]}") from None
    fits, errors = validator.is_valid, validator.iter_errors

    def complain(value: Any) -> str | None:
        try:
            if fits(value):
                return None
            found = [
                f"{_pointer(error.instance_path)}: {error.message}"[:_LONGEST]
                for error in itertools.islice(errors(value), _MOST)
            ]
        except ValueError:
            return "the arguments: nested too deeply, or with a number too large to be checked; send less"
        return "; ".join(found)

    return complain


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path) or "the arguments"


def _never(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema, and schemas are never fetched")
