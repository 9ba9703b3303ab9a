"""The facts of WAI-ARIA, read once from `aria.json`: roles with what they inherit, attributes with their values."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Attribute(Struct, frozen=True):
    """`kind` is the type of the value; `values` the words that a token may be."""

    kind: str
    values: frozenset[str] = frozenset()


class Role(Struct, frozen=True, kw_only=True):
    """`kinds` holds the role itself and all it inherits from; `attributes` what it supports beside the global ones."""

    name: str
    kinds: frozenset[str]
    attributes: frozenset[str]
    required: tuple[str, ...]
    context: frozenset[str]
    owned: frozenset[str]
    named_by_content: bool
    unnamed: bool
    presentational_children: bool


class Aria(Struct, frozen=True):
    roles: Mapping[str, Role]
    attributes: Mapping[str, Attribute]
    everywhere: frozenset[str]

    def is_a(self, role: str, kind: str) -> bool:
        known = self.roles.get(role)
        return known is not None and kind in known.kinds


def read_aria(content: bytes) -> Aria:
    told = json.loads(content)
    attributes = {
        name: Attribute(entry["type"], frozenset(entry.get("values", ())))
        for name, entry in told["attributes"].items()
    }
    described: dict[str, dict[str, Any]] = told["roles"]
    roles = {name: _role(name, described) for name, entry in described.items() if "abstract" not in entry}
    return Aria(roles, attributes, frozenset(told["global"]))


def _role(name: str, described: Mapping[str, Mapping[str, Any]]) -> Role:
    kinds = _kinds(name, described)
    entry = described[name]
    return Role(
        name=name,
        kinds=kinds,
        attributes=frozenset(one for kind in kinds for one in described[kind].get("attributes", ())),
        required=tuple(entry.get("required", ())),
        context=frozenset(entry.get("context", ())),
        owned=frozenset(entry.get("owned", ())),
        named_by_content="named_by_content" in entry,
        unnamed="unnamed" in entry,
        presentational_children="presentational_children" in entry,
    )


def _kinds(name: str, described: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    found = {name}
    pending = [name]
    while pending:
        for above in described[pending.pop()].get("is", ()):
            if above not in found:
                found.add(above)
                pending.append(above)
    return frozenset(found)
