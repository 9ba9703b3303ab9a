"""Fields say what they collect, and what is written on a control is part of its name."""

import re
from bisect import bisect
from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.names.name import tidy
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    judge,
    passed,
)
from comity_skills.accessibility_audit.style.shown import first_child, is_disabled
from comity_skills.words.tokens import word_set

_PURPOSES = word_set(
    "name honorific-prefix given-name additional-name family-name honorific-suffix nickname username new-password "
    "current-password one-time-code organization-title organization street-address address-line1 address-line2 "
    "address-line3 address-level4 address-level3 address-level2 address-level1 country country-name postal-code "
    "cc-name cc-given-name cc-additional-name cc-family-name cc-number cc-exp cc-exp-month cc-exp-year cc-csc "
    "cc-type transaction-currency transaction-amount language bday bday-day bday-month bday-year sex url "
    "photo"
)
_CONTACT_PURPOSES = word_set(
    "tel tel-country-code tel-national tel-area-code tel-local tel-local-prefix tel-local-suffix tel-extension "
    "email impp"
)
_PLACES = frozenset({"home", "work", "mobile", "fax", "pager"})
_NOT_TYPED = frozenset({"hidden", "button", "submit", "reset", "image", "checkbox", "radio", "file"})
_VAGUE_LABELS = frozenset({"menu", "label", "field", "input", "text", "form", "select", "here", "value"})
_WORDS = re.compile(r"[^\W_]+")


def _autocomplete(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("autocomplete"):
        value = (element.get("autocomplete") or "").strip().lower()
        if element.tag not in {"input", "select", "textarea"} or not value or value in {"on", "off"}:
            continue
        if (element.get("type") or "").strip().lower() in _NOT_TYPED or _out_of_use(subject, element):
            continue
        yield judge(
            element, "" if _known_purpose(value.split()) else f"autocomplete does not know {value[:60]!r}."
        )


def _out_of_use(subject: Subject, element: Element) -> bool:
    if (
        is_disabled(element)
        or element.has("readonly")
        or (element.get("aria-disabled") or "").strip().lower() == "true"
    ):
        return True
    if not subject.shown.seen(element) and not subject.shown.told(element):
        return True
    unreached = (element.get("tabindex") or "").strip().startswith("-")
    return unreached and not subject.roles.is_a(element, "widget")


def _known_purpose(words: list[str]) -> bool:
    rest = list(words)
    if rest and rest[0].startswith("section-") and len(rest) > 1:
        rest.pop(0)
    if rest and rest[0] in {"shipping", "billing"}:
        rest.pop(0)
    if len(rest) > 1 and rest[-1] == "webauthn":
        rest.pop()
    if len(rest) == 2 and rest[0] in _PLACES:
        return rest[1] in _CONTACT_PURPOSES
    return len(rest) == 1 and rest[0] in _PURPOSES | _CONTACT_PURPOSES


def _label_in_name(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.elements:
        role = subject.roles.facts(element)
        if role is None or "widget" not in role.kinds or not role.named_by_content:
            continue
        labelled = (element.get("aria-label") or "").strip() or element.tokens("aria-labelledby")
        if not labelled or not subject.shown.told(element):
            continue
        written = subject.names.seen_text(element)
        words = _WORDS.findall(written.lower())
        if not words or (element.tag == "input" and not written):
            continue
        if len("".join(words)) == 1 or _in_symbols(subject, element):
            yield passed(element)
            continue
        named = _WORDS.findall(subject.names.of(element).lower())
        inside = f" {' '.join(words)} " in f" {' '.join(named)} "
        yield judge(element, "" if inside else f"The name does not hold the written words {written[:60]!r}.")


def _in_symbols(subject: Subject, element: Element) -> bool:
    """Whether the letters are drawn as signs by an icon font."""
    for one in (element, *subject.document.inside(element, 20)):
        fonts = (subject.styles.get(one, "font-family") or "").lower()
        if "icon" in fonts or "symbol" in fonts or "awesome" in fonts:
            return True
    return False


def _label_describes(subject: Subject) -> Iterator[Finding]:
    groups: dict[tuple[str, int, int], int] = {}
    headings = [one.index for one in subject.roles.with_role("heading") if subject.shown.seen(one)]
    for element in subject.document.tagged("input", "select", "textarea"):
        if not subject.shown.told(element) or not subject.roles.is_a(element, "input"):
            continue
        labels = [label for label in subject.names.labels(element) if subject.shown.seen(label)]
        labels += [
            label
            for label in subject.document.referenced(element, "aria-labelledby")
            if subject.shown.seen(label)
        ]
        for label in labels:
            words = tidy(label.text()).lower().strip(" :*")
            if not words:
                continue
            place = (words, _group(subject, element), bisect(headings, element.index))
            groups[place] = groups.get(place, 0) + 1
            if words in _VAGUE_LABELS:
                yield failed(label, f"{words[:40]!r} does not say what to enter.")
            elif groups[place] > 1:
                yield failed(label, f"{words[:40]!r} labels two fields of the same group.")
            else:
                yield cannot_tell(label, "Whether the label describes the field is for a person to judge.")


def _group(subject: Subject, field: Element) -> int:
    """The nearest group that a person can tell from others: with a legend or name, or a row of a table."""
    for above in field.ancestors():
        legend = first_child(above, "legend") if above.tag == "fieldset" else None
        if legend is not None and subject.shown.seen(legend):
            return above.index
        if above.tag in {"section", "form", "tr", "li", "article"} or subject.roles.of(above) == "group":
            return above.index
    return 0


_ERROR_WORDS = re.compile(
    r"\b(invalid|error|incorrect|must be|cannot be empty|please (?:fill|enter|correct))\b", re.IGNORECASE
)


def _errors_told(subject: Subject) -> Iterator[Finding]:
    """A message that is only seen or only told leaves somebody out."""
    described = {
        name
        for element in subject.document.with_attribute("aria-describedby")
        for name in element.tokens("aria-describedby")
    }
    for element in subject.document.elements:
        mark = f"{element.get('id') or ''} {element.get('class') or ''}".lower()
        if "error" not in mark or not _ERROR_WORDS.search(element.text()[:400]):
            continue
        seen, told = subject.shown.seen(element), subject.shown.told(element)
        if seen and not told:
            yield failed(element, "The error message is seen, but not told to assistive technology.")
        elif not seen and not told and element.get("id") in described:
            yield cannot_tell(element, "An error message is hidden now; see that it is shown with its error.")
        elif seen:
            yield cannot_tell(element, "See that the message names the field, the cause and the remedy.")


RULES = (
    Rule(
        id="73f2c2",
        name="autocomplete is valid",
        criteria=("1.3.5",),
        how="The words of every autocomplete attribute in use are in the order and list that HTML defines.",
        fix="Use the purposes that HTML defines, such as name, email or postal-code.",
        check=_autocomplete,
    ),
    Rule(
        id="2ee8b8",
        name="Written label is part of the name",
        criteria=("2.5.3",),
        how="Where a control is named by an attribute, its seen words stand together in the name.",
        fix="Begin the aria-label with the words that are written on the control.",
        check=_label_in_name,
    ),
    Rule(
        id="cc0f0a",
        name="Label of a field describes it",
        criteria=("2.4.6",),
        how="Labels that say nothing fail; the rest is for a person to judge.",
        fix="Say in the label what is to be entered.",
        check=_label_describes,
    ),
    Rule(
        id="36b590",
        name="Error message is told",
        criteria=("3.3.1",),
        how="A message marked as error that is seen is also told; whether it helps is for a person to judge.",
        fix="Take aria-hidden off the message and connect it to its field with aria-describedby.",
        check=_errors_told,
    ),
)
