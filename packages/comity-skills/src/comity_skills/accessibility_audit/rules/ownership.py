"""Which elements stand in which: items in their lists, and nothing operable where it cannot be reached."""

from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.names.roles import NOTHING
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    judge,
    passed,
)

_LIST_CHILDREN = frozenset({"li", "script", "template", "style", "noscript"})
_DL_CHILDREN = frozenset({"dt", "dd", "div", "script", "template", "style", "noscript"})
_OWNED_LIMIT = 2_000


def _owner(document: Document) -> dict[int, Element]:
    """Who claims an element by aria-owns."""
    found: dict[int, Element] = {}
    for element in document.with_attribute("aria-owns"):
        for owned in document.referenced(element, "aria-owns"):
            if not owned.holds(element):
                found.setdefault(owned.index, element)
    return found


def _transparent(subject: Subject, element: Element) -> bool:
    """Elements that assistive technology looks through."""
    role = subject.roles.of(element)
    if role in NOTHING:
        return True
    if role not in {"generic", ""} or element.tag in {"svg", "iframe", "video", "audio", "canvas"}:
        return False
    return not any(
        name in subject.aria.everywhere for name in element.attributes
    ) and not subject.shown.tabbable(element)


def _parent_role(
    subject: Subject, element: Element, owners: dict[int, Element]
) -> tuple[Element | None, str]:
    above = owners.get(element.index) or element.parent
    for _ in range(200):
        if above is None or above.tag in {"body", "html"}:
            return None, ""
        if not _transparent(subject, above):
            return above, subject.roles.of(above)
        above = owners.get(above.index) or above.parent
    return None, ""


def _in_context(subject: Subject) -> Iterator[Finding]:
    owners = _owner(subject.document)
    for element in subject.document.with_attribute("role"):
        role = subject.roles.facts(element)
        if role is None or not role.context or subject.roles.explicit(element) != role.name:
            continue
        if not subject.shown.told(element) or subject.roles.implicit(element) == role.name:
            continue
        above, found = _parent_role(subject, element, owners)
        fits = found in role.context
        if fits and found == "group" and above is not None:
            above, found = _parent_role(subject, above, owners)
            fits = found in role.context or found == role.name
        yield judge(element, "" if fits else f"A {role.name} has to stand in {_one_of(role.context)}.")


def _owns(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("role"):
        role = subject.roles.facts(element)
        if role is None or not role.owned or subject.roles.explicit(element) != role.name:
            continue
        busy = (element.get("aria-busy") or "").strip().lower() == "true"
        if busy or not subject.shown.told(element):
            continue
        owned = _owned(subject, element, role.owned)
        wrong = next((one for one in owned if subject.roles.of(one) not in role.owned), None)
        if wrong is not None:
            what = subject.roles.of(wrong) or wrong.tag
            yield judge(element, f"A {role.name} may hold {_one_of(role.owned)}, but not {what}.")
        elif not owned:
            yield judge(element, f"A {role.name} has to hold {_one_of(role.owned)}.")
        else:
            yield passed(element)


def _owned(subject: Subject, element: Element, allowed: frozenset[str]) -> list[Element]:
    """The nearest elements below that have a role, groups opened."""
    found: list[Element] = []
    seen: set[int] = set()
    pending = list(reversed(list(element.elements())))
    pending.extend(subject.document.referenced(element, "aria-owns"))
    while pending and len(seen) < _OWNED_LIMIT:
        one = pending.pop()
        if one.index in seen or not subject.shown.told(one):
            continue
        seen.add(one.index)
        role = subject.roles.of(one)
        if _transparent(subject, one) or (role == "group" and "group" in allowed):
            pending.extend(reversed(list(one.elements())))
            pending.extend(subject.document.referenced(one, "aria-owns"))
        else:
            found.append(one)
    return found


def _one_of(roles: frozenset[str]) -> str:
    return " or ".join(sorted(roles))


_THINGS = {"a": "link", "input": "field", "textarea": "field", "select": "list", "iframe": "frame"}


def _nothing_to_focus(subject: Subject, element: Element) -> Element | None:
    inside = subject.document.inside(element, _OWNED_LIMIT)
    return next((one for one in inside if subject.shown.tabbable(one)), None)


def _presentational_children(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.elements:
        role = subject.roles.facts(element)
        if role is None or not role.presentational_children or not subject.shown.told(element):
            continue
        inner = _nothing_to_focus(subject, element)
        note = (
            f"The {role.name} holds a focusable {inner.tag}, which is not told." if inner is not None else ""
        )
        yield judge(element, note)


def _hidden_focus(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("aria-hidden"):
        if (element.get("aria-hidden") or "").strip().lower() != "true":
            continue
        inner = element if subject.shown.tabbable(element) else _nothing_to_focus(subject, element)
        if inner is not None and subject.scripted and not subject.shown.seen(inner):
            yield cannot_tell(element, "An unseen element takes focus; see that a script passes it on.")
            continue
        thing = _THINGS.get(inner.tag, inner.tag) if inner is not None else ""
        yield judge(
            element, thing and f"The tab key reaches a {thing} that aria-hidden keeps from screen readers."
        )


def _list_children(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("ul", "ol", "dl"):
        if element.has("role") or not subject.shown.told(element):
            continue
        allowed = _DL_CHILDREN if element.tag == "dl" else _LIST_CHILDREN
        wrong = next(
            (
                one
                for one in element.elements()
                if one.tag not in allowed and subject.roles.of(one) != "listitem" and subject.shown.told(one)
            ),
            None,
        )
        yield judge(
            element, f"{element.tag} holds {wrong.tag}, which is no item of it." if wrong is not None else ""
        )


def _orphans(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("li", "dt", "dd"):
        if element.has("role") or not subject.shown.told(element):
            continue
        holders = {"ul", "ol", "menu"} if element.tag == "li" else {"dl"}
        above = element.parent
        if element.tag != "li" and above is not None and above.tag == "div":
            above = above.parent
        fits = above is not None and (above.tag in holders or subject.roles.of(above) == "list")
        yield judge(element, "" if fits else f"{element.tag} stands outside of a list.")


def _hidden_page(subject: Subject) -> Iterator[Finding]:
    for body in subject.document.tagged("body"):
        if body.has("aria-hidden"):
            hidden = (body.get("aria-hidden") or "").strip().lower() == "true"
            yield judge(body, "The whole page is hidden from assistive technology." if hidden else "")


RULES = (
    Rule(
        id="ff89c9",
        name="Role stands in its required context",
        criteria=("1.3.1",),
        how="Every element that was given a role which needs one around it; elements without meaning are looked through.",
        fix="Put the element into an element with the role it belongs to.",
        check=_in_context,
    ),
    Rule(
        id="bc4a75",
        name="Role owns only what it may",
        criteria=("1.3.1",),
        how="Every element that was given a role with required children has some, and no others; groups are opened.",
        fix="Give the children the roles that belong to the parent.",
        check=_owns,
    ),
    Rule(
        id="307n5z",
        name="Presentational children take no focus",
        criteria=("4.1.2",),
        how="In buttons, checkboxes, images and the like nothing is reached by the tab key.",
        fix="Take the inner control out of the outer one.",
        check=_presentational_children,
    ),
    Rule(
        id="6cfa84",
        name="Hidden content takes no focus",
        criteria=("4.1.2",),
        how="Inside aria-hidden nothing is reached by the tab key.",
        fix="Remove aria-hidden, or take the content out of the tab order.",
        check=_hidden_focus,
    ),
    Rule(
        id="list-children",
        name="Lists hold only their items",
        criteria=("1.3.1",),
        how="Native lists without a role hold no child but their items (our own rule, HTML content model).",
        fix="Put li, dt or dd elements into the list.",
        check=_list_children,
    ),
    Rule(
        id="list-items",
        name="List items stand in lists",
        criteria=("1.3.1",),
        how="Native items without a role have a list around them (our own rule, HTML content model).",
        fix="Put the item into ul, ol or dl.",
        check=_orphans,
    ),
    Rule(
        id="hidden-page",
        name="Page is told",
        criteria=("1.3.1", "4.1.2"),
        how="The body element is not hidden with aria-hidden (our own rule).",
        fix="Remove aria-hidden from the body.",
        check=_hidden_page,
    ),
)
