"""Everything that is operated, embedded or looked at has a name."""

from collections.abc import Callable, Iterable, Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    judge,
    passed,
)
from comity_skills.words.tokens import word_set

_FIELDS = word_set(
    "checkbox combobox listbox menuitemcheckbox menuitemradio radio searchbox slider spinbutton switch textbox"
)
_FIELDS_WITHOUT_ROLE = frozenset(
    {"color", "date", "datetime-local", "file", "month", "password", "time", "week"}
)
_TEXT_RESOURCES = (".html", ".htm", ".txt", ".xhtml", ".php", ".aspx", ".md")
_MEDIA_RESOURCES = (
    *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif", ".bmp", ".ico"),
    *(".mp3", ".mp4", ".webm", ".ogg", ".wav", ".mov", ".m4a", ".swf"),
)


def _told(subject: Subject, elements: Iterable[Element]) -> Iterator[Element]:
    return (element for element in elements if subject.shown.told(element))


def _nameless(
    wanted: Callable[[Subject], Iterable[Element]], what: str
) -> Callable[[Subject], Iterator[Finding]]:
    def check(subject: Subject) -> Iterator[Finding]:
        for element in _told(subject, wanted(subject)):
            yield judge(element, "" if subject.names.of(element) else f"The {what} has no accessible name.")

    return check


def _kind(element: Element) -> str:
    return (element.get("type") or "").strip().lower()


def _buttons(subject: Subject) -> Iterable[Element]:
    return (
        element
        for element in subject.roles.with_role("button")
        if element.tag != "input" or (element.get("type") or "").strip().lower() != "image"
    )


def _links(subject: Subject) -> Iterable[Element]:
    return (element for element in subject.document.elements if subject.roles.is_a(element, "link"))


def _fields(subject: Subject) -> Iterable[Element]:
    for element in subject.document.elements:
        if subject.roles.of(element) in _FIELDS or (
            element.tag == "input"
            and not subject.roles.of(element)
            and _kind(element) in _FIELDS_WITHOUT_ROLE
        ):
            yield element


def _frames(subject: Subject) -> Iterable[Element]:
    for element in subject.document.tagged("iframe", "frame"):
        unreached = (element.get("tabindex") or "").strip().startswith("-")
        if not unreached and subject.roles.explicit(element) not in {"none", "presentation"}:
            yield element


def _summaries(subject: Subject) -> Iterable[Element]:
    for element in subject.document.tagged("summary"):
        if subject.shown.focusable(element) and not element.has("role"):
            yield element


def _images(subject: Subject) -> Iterator[Finding]:
    for element in _told(subject, subject.roles.with_role("img", "image")):
        if element.foreign or (element.tag == "input"):
            continue
        if subject.names.of(element):
            yield passed(element)
        elif element.tag == "img" and element.get("alt") == "":
            yield cannot_tell(element, "Marked as decorative, yet told to assistive technology.")
        else:
            yield failed(element, "The image has no text alternative.")


def _drawings(subject: Subject) -> Iterator[Finding]:
    for element in _told(subject, subject.document.elements):
        given = subject.roles.explicit(element)
        if element.foreign and given in {"img", "image", "graphics-document", "graphics-symbol"}:
            note = (
                ""
                if subject.names.of(element)
                else f"The drawing with the role {given} has no accessible name."
            )
            yield judge(element, note)


def _image_buttons(subject: Subject) -> Iterator[Finding]:
    for element in _told(subject, subject.document.tagged("input")):
        if (element.get("type") or "").strip().lower() != "image":
            continue
        written = any((element.get(name) or "").strip() for name in ("alt", "aria-label", "title"))
        name = subject.names.of(element)
        named = name and (written or name not in {"Submit", "Submit Query"})
        yield judge(element, "" if named else "The image button has no text alternative.")


def _objects(subject: Subject) -> Iterator[Finding]:
    for element in _told(subject, subject.document.tagged("object")):
        kind = (element.get("type") or "").strip().lower()
        resource = (element.get("data") or "").split("#")[0].split("?")[0].lower()
        if not resource or subject.roles.presentational(element):
            continue
        media = kind.startswith(("image/", "audio/", "video/")) or resource.endswith(_MEDIA_RESOURCES)
        if kind.startswith("text/") or resource.endswith(_TEXT_RESOURCES):
            continue
        if subject.names.of(element):
            yield passed(element)
        elif not media:
            yield cannot_tell(element, "What the object shows cannot be told from its address.")
        else:
            yield failed(element, "The object has no text alternative.")


RULES = (
    Rule(
        id="97a4e1",
        name="Button has a name",
        criteria=("4.1.2",),
        how="Every button told to assistive technology; the computed accessible name is not empty.",
        fix="Give the button text, or an aria-label.",
        check=_nameless(_buttons, "button"),
    ),
    Rule(
        id="c487ae",
        name="Link has a name",
        criteria=("2.4.4", "2.4.9", "4.1.2"),
        how="Every link told to assistive technology; the computed accessible name is not empty.",
        fix="Put text into the link, or an image with alternative text.",
        check=_nameless(_links, "link"),
    ),
    Rule(
        id="e086e5",
        name="Form field has a name",
        criteria=("4.1.2",),
        how="Every field by its role, and fields such as passwords that have none; the name is not empty.",
        fix="Connect a label element to the field, or use aria-label.",
        check=_nameless(_fields, "form field"),
    ),
    Rule(
        id="m6b1q3",
        name="Menu item has a name",
        criteria=("4.1.2",),
        how="Every element with the role menuitem; the computed accessible name is not empty.",
        fix="Give the menu item text, or an aria-label.",
        check=_nameless(lambda subject: subject.roles.with_role("menuitem"), "menu item"),
    ),
    Rule(
        id="cae760",
        name="Frame has a name",
        criteria=("4.1.2",),
        how="Every frame that the tab key may enter; the computed accessible name is not empty.",
        fix="Say in the title attribute what the frame holds.",
        check=_nameless(_frames, "frame"),
    ),
    Rule(
        id="2t702h",
        name="Summary has a name",
        criteria=("4.1.2",),
        how="The summary that opens a details element; the computed accessible name is not empty.",
        fix="Put text into the summary.",
        check=_nameless(_summaries, "summary"),
    ),
    Rule(
        id="range-name",
        name="Progress bar or meter has a name",
        criteria=("1.1.1",),
        how="Every progressbar and meter told to assistive technology; the name is not empty (our own rule).",
        fix="Say with a label or aria-label what is measured.",
        check=_nameless(
            lambda subject: subject.roles.with_role("progressbar", "meter"), "progress bar or meter"
        ),
    ),
    Rule(
        id="ffd0e9",
        name="Heading has a name",
        criteria=(),
        how="Every heading told to assistive technology; the computed accessible name is not empty.",
        fix="Put text into the heading or remove it.",
        check=_nameless(lambda subject: subject.roles.with_role("heading"), "heading"),
    ),
    Rule(
        id="23a2a8",
        name="Image has a text alternative",
        criteria=("1.1.1",),
        how="Every image told to assistive technology has a name or is marked as decorative.",
        fix='Describe the image in its alt attribute, or write alt="" if it only decorates.',
        check=_images,
    ),
    Rule(
        id="7d6734",
        name="Drawing with a role has a name",
        criteria=("1.1.1",),
        how="Every SVG element that was given the role of an image or graphic; its name is not empty.",
        fix="Add a title element as first child of the drawing, or an aria-label.",
        check=_drawings,
    ),
    Rule(
        id="59796f",
        name="Image button has a text alternative",
        criteria=("1.1.1", "4.1.2"),
        how="Every image input has a name of its own; the browser's default does not count.",
        fix="Say in the alt attribute what the button does.",
        check=_image_buttons,
    ),
    Rule(
        id="8fc3b6",
        name="Object has a text alternative",
        criteria=("1.1.1",),
        how="Every object element whose address or type names a picture, sound or film; its name is not empty.",
        fix="Describe the content in the title or aria-label of the object.",
        check=_objects,
    ),
)
