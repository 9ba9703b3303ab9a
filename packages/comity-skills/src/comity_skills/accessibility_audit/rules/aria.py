"""Roles, states and properties are ones that exist, belong where they are, and are complete."""

import re
from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.names.aria import Attribute
from comity_skills.accessibility_audit.names.roles import NOTHING
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    judge,
)

_DIGITS = 60
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAMING = frozenset({"aria-label", "aria-labelledby", "aria-braillelabel"})
# Elements without a role of their own that must not be named (ARIA in HTML).
_UNNAMED = frozenset({"abbr", "cite", "kbd", "label", "legend", "mark", "var", "rt", "rp"})
# What the markup language says by itself, so that the ARIA attribute is not needed.
_NATIVE_STATE = {"aria-checked": ("checkbox", "radio"), "aria-valuenow": ("range", "number")}


def _aria_attributes(subject: Subject) -> Iterator[tuple[Element, str, str]]:
    for element in subject.document.elements:
        for name, value in element.attributes.items():
            if name.startswith("aria-"):
                yield element, name, value


def _exists(subject: Subject) -> Iterator[Finding]:
    for element, name, _ in _aria_attributes(subject):
        known = name in subject.aria.attributes
        yield judge(element, "" if known else f"There is no attribute {name[:60]}.")


def _valid_value(subject: Subject) -> Iterator[Finding]:
    for element, name, value in _aria_attributes(subject):
        attribute = subject.aria.attributes.get(name)
        if attribute is None or not value.strip():
            continue
        if attribute.kind == "id" and len(value.split()) > 1:
            yield failed(element, f"{name} takes the id of one element.")
        elif attribute.kind in {"id", "ids"} and not subject.document.referenced(element, name):
            yield cannot_tell(element, f"{name} names an element that is not on the page now.")
        else:
            yield judge(element, "" if _fits(attribute, value) else f"{value[:40]!r} is no value for {name}.")


def _fits(attribute: Attribute, value: str) -> bool:
    word = value.strip().lower()
    if attribute.kind in {"integer", "number"} and len(word) > _DIGITS:
        return False
    if attribute.kind == "boolean":
        return word in {"true", "false"}
    if attribute.kind == "optional-boolean":
        return word in {"true", "false", "undefined"}
    if attribute.kind == "tristate":
        return word in {"true", "false", "mixed", "undefined"}
    if attribute.kind == "token":
        return word in attribute.values
    if attribute.kind == "tokens":
        return all(part in attribute.values for part in word.split())
    if attribute.kind == "integer":
        return _INTEGER.fullmatch(word) is not None
    return attribute.kind != "number" or _NUMBER.fullmatch(word) is not None


def _permitted(subject: Subject) -> Iterator[Finding]:
    for element, name, value in _aria_attributes(subject):
        if name not in subject.aria.attributes or not subject.shown.told(element):
            continue
        role = subject.roles.facts(element)
        if role is not None and role.name in NOTHING and name != "aria-hidden":
            continue
        if name in subject.aria.everywhere:
            named = name in _NAMING and bool(value.strip())
            if named and role is None and element.tag in _UNNAMED:
                yield failed(element, f"{name} is not allowed on {element.tag}.")
            else:
                prohibited = named and role is not None and role.unnamed
                yield judge(
                    element, f"{name} is not allowed on the role {role.name}." if prohibited and role else ""
                )
        elif role is None:
            known = _roleless_permits(element, name)
            yield judge(element, "" if known else f"{name} is not supported on {element.tag} without a role.")
        else:
            supported = name in role.attributes or _native_permits(element, name)
            yield judge(element, "" if supported else f"{name} is not supported by the role {role.name}.")


def _roleless_permits(element: Element, name: str) -> bool:
    if element.tag == "input":
        return name in {"aria-required", "aria-readonly", "aria-placeholder", "aria-autocomplete"}
    if element.tag == "summary":
        return name in {"aria-expanded", "aria-pressed"}
    return element.foreign or "-" in element.tag


def _native_permits(element: Element, name: str) -> bool:
    return element.tag == "input" and element.get("type") == "checkbox" and name == "aria-pressed"


def _role_exists(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("role"):
        if element.tokens("role") and subject.shown.told(element):
            known = subject.roles.explicit(element) is not None
            yield judge(element, "" if known else f"There is no role {(element.get('role') or '')[:60]!r}.")


def _complete(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("role"):
        role = subject.roles.facts(element)
        given = subject.roles.explicit(element)
        if role is None or role.name != given or not subject.shown.told(element):
            continue
        needed = list(role.required)
        if role.name == "separator" and subject.shown.focusable(element):
            needed = ["aria-valuenow"]
        if role.name == "combobox" and (element.get("aria-expanded") or "").strip() == "true":
            needed.append("aria-controls")
        if not needed and role.name != "separator":
            continue
        if subject.roles.implicit(element) == role.name:
            continue
        missing = [
            name
            for name in needed
            if not (element.get(name) or "").strip() and not _native_state(element, name)
        ]
        yield judge(element, f"The role {role.name} needs {' and '.join(missing)}." if missing else "")


def _native_state(element: Element, name: str) -> bool:
    if name == "aria-level":
        return element.tag in {"h1", "h2", "h3", "h4", "h5", "h6"}
    kind = (element.get("type") or "").strip().lower()
    return element.tag == "input" and kind in _NATIVE_STATE.get(name, ())


def _required_references(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("aria-controls"):
        role = subject.roles.of(element)
        expanded = (element.get("aria-expanded") or "").strip() == "true"
        if not subject.shown.told(element) or not element.tokens("aria-controls"):
            continue
        if role == "scrollbar" or (role == "combobox" and expanded):
            found = subject.document.referenced(element, "aria-controls")
            yield judge(element, "" if found else "aria-controls names no element of the page.")


RULES = (
    Rule(
        id="5f99a7",
        name="ARIA attribute exists",
        criteria=("4.1.2",),
        how="Every attribute that begins with aria- is one of WAI-ARIA.",
        fix="Correct the spelling of the attribute or remove it.",
        check=_exists,
    ),
    Rule(
        id="6a7281",
        name="ARIA attribute has a valid value",
        criteria=("4.1.2",),
        how="Every ARIA attribute with a value; the value is of the attribute's type. References may lead to elements that come later.",
        fix="Use one of the values that the attribute knows.",
        check=_valid_value,
    ),
    Rule(
        id="5c01ea",
        name="ARIA attribute is permitted",
        criteria=("4.1.2",),
        how="Every ARIA attribute is global or supported by the element's role, and not prohibited on it.",
        fix="Remove the attribute, or give the element a role that supports it.",
        check=_permitted,
    ),
    Rule(
        id="674b10",
        name="Role exists",
        criteria=("4.1.2",),
        how="Every role attribute holds at least one role that exists and is not abstract.",
        fix="Use a role of WAI-ARIA.",
        check=_role_exists,
    ),
    Rule(
        id="4e8ab6",
        name="Role has its required states and properties",
        criteria=("1.3.1", "4.1.2"),
        how="Every element that was given a role has the states and properties which that role requires.",
        fix="Add the required attributes and keep them up to date.",
        check=_complete,
    ),
    Rule(
        id="in6db8",
        name="Required references lead somewhere",
        criteria=("1.3.1", "4.1.2"),
        how="The aria-controls that a scrollbar or an open combobox requires names an element of the page.",
        fix="Let aria-controls hold the id of the controlled element.",
        check=_required_references,
    ),
)
