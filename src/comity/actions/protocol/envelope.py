"""What a request may look like, and the `issues` of one that does not (actions 1.2 and 1.3).

The shapes, the order of their keys and the sentences are those a client of the recorded server knows.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from comity.actions.protocol.action import Mode

INVALID_ENVELOPE: Final = "Invalid request envelope"
INVALID_PAYLOAD: Final = "Invalid invoke payload"
INVALID_DESCRIBE: Final = "Invalid describe_action payload"
MALFORMED: Final = "Malformed JSON request"
OVERSIZE: Final = "Request exceeds maximum size (512 KB)"

_RECEIVED: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
    type(UNSET): "undefined",
}

Issue = dict[str, Any]


class ModeRules(Struct, frozen=True):
    """What differs between the modes: the types of request, and whether a refused envelope keeps its id."""

    types: tuple[str, ...]
    echoes_ids: bool = False

    @property
    def expected(self) -> str:
        return " | ".join(f"'{name}'" for name in self.types)


_RECORDED: Final = ModeRules(("list_actions", "invoke"))
_OURS: Final = ModeRules(("list_actions", "invoke", "describe_action"), echoes_ids=True)


def rules_of(mode: Mode) -> ModeRules:
    return _OURS if mode == "enhanced" else _RECORDED


def envelope_issues(request: Any, rules: ModeRules) -> list[Issue]:
    """All that is wrong with an envelope, the id before the type."""
    if not isinstance(request, dict):
        return [wrong_type("object", request)]
    issues: list[Issue] = []
    given = request.get("id", UNSET)
    if given is not UNSET and type(given) is not str:
        issues.append(wrong_type("string", given, "id"))
    kind = request.get("type", UNSET)
    if type(kind) is not str:
        issue = wrong_type(rules.expected, kind, "type")
        issues.append({key: issue[key] for key in ("expected", "received", "code", "path", "message")})
    elif kind not in rules.types:
        issues.append(
            {
                "received": kind,
                "code": "invalid_enum_value",
                "options": list(rules.types),
                "path": ["type"],
                "message": f"Invalid enum value. Expected {rules.expected}, received '{kind}'",
            }
        )
    return issues


def invoke_issues(payload: Any) -> list[Issue]:
    """What is wrong with the payload of an invocation."""
    issues = describe_issues(payload)
    if isinstance(payload, dict) and type(given := payload.get("input", UNSET)) is not dict:
        issues.append(wrong_type("object", given, "input"))
    return issues


def describe_issues(payload: Any) -> list[Issue]:
    """The same for one that only names an action."""
    if not isinstance(payload, dict):
        return [wrong_type("object", payload)]
    name = payload.get("action", UNSET)
    if type(name) is not str:
        return [wrong_type("string", name, "action")]
    return [] if name else [_empty("action")]


def wrong_type(expected: str, value: Any, *path: str) -> Issue:
    """`value` is UNSET where there is none."""
    received = _RECEIVED[type(value)]
    said = "Required" if value is UNSET else f"Expected {expected}, received {received}"
    return {
        "code": "invalid_type",
        "expected": expected,
        "received": received,
        "path": list(path),
        "message": said,
    }


def _empty(*path: str) -> Issue:
    return {
        "code": "too_small",
        "minimum": 1,
        "type": "string",
        "inclusive": True,
        "exact": False,
        "message": "String must contain at least 1 character(s)",
        "path": list(path),
    }


def refusal(text: str, issues: Sequence[Issue] = (), *, id_: Any = UNSET) -> dict[str, Any]:
    """An error reply, its keys in order."""
    reply: dict[str, Any] = {} if id_ is UNSET else {"id": id_}
    reply |= {"ok": False, "error": text}
    if issues:
        reply["issues"] = list(issues)
    return reply
