"""What is shown can be reached and seen without a mouse."""

import re
from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element, parse
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    judge,
    passed,
)
from comity_skills.accessibility_audit.style.sheet import Declarations
from comity_skills.accessibility_audit.style.shown import tab_index

_TAKES_BACK = re.compile(r"(?:\bthis|[tT]arget)\.focus\(")
_SCROLLS = frozenset({"auto", "scroll"})
_AFTER_ALL = 10**9
_CHARACTER = 0.5
_LINE = 1.2
_CLEARLY = 1.3
_INDICATORS = (
    "border",
    "box-shadow",
    "background",
    "color",
    "text-decoration",
    "filter",
    "transform",
    "opacity",
)
_NO_OUTLINE = re.compile(r"^(?:none|0(?:px)?|hidden|transparent)\b|\b(?:none|transparent)\b", re.IGNORECASE)


def _scrollable(subject: Subject) -> Iterator[Finding]:
    styles = subject.styles
    for element in subject.document.elements:
        axes = {(styles.get(element, axis) or "").lower() for axis in ("overflow-x", "overflow-y")}
        if (
            not axes & _SCROLLS
            or not subject.shown.seen(element)
            or element.tag in {"html", "body", "textarea"}
        ):
            continue
        reached = subject.shown.tabbable(element) or any(
            subject.shown.tabbable(one) for one in subject.document.inside(element, 2_000)
        )
        overflows = _overflows(subject, element)
        if overflows is False:
            continue
        if reached:
            yield passed(element)
        elif overflows:
            yield failed(element, "The scrollable part cannot be reached with the tab key.")
        else:
            yield cannot_tell(element, "Whether this part scrolls depends on its size on the screen.")


def _overflows(subject: Subject, element: Element) -> bool | None:
    """From the text and the declared size; None when these do not decide."""
    styles = subject.styles
    height, width = styles.pixels(element, "height"), styles.pixels(element, "width")
    height = height if height is not None else styles.pixels(element, "max-height")
    text = subject.names.seen_text(element)
    media = [
        one for one in subject.document.inside(element, 500) if one.tag in {"img", "video", "canvas", "svg"}
    ]
    if not text and not media:
        return False
    size = styles.of(element).size or 16.0
    if media and (styles.get(element, "white-space") or "") == "nowrap" and width is not None:
        total = sum(styles.pixels(one, "width") or _attribute(one, "width") or 0.0 for one in media)
        return True if total > width else None
    if height is None:
        return None
    line = (width or 1280.0) / (size * _CHARACTER)
    needed = max(1.0, len(text) / line) * size * _LINE
    if needed > height * _CLEARLY:
        return True
    return False if not media and needed * 1.6 < height else None


def _attribute(element: Element, name: str) -> float | None:
    text = (element.get(name) or "").removesuffix("px")
    return float(text[:6]) if text.isdigit() else None


def _focus_seen(subject: Subject) -> Iterator[Finding]:
    if subject.styles.external:
        if any(subject.shown.tabbable(element) for element in subject.document.elements):
            yield cannot_tell(
                subject.document.root, "The focus may be styled by sheets that are not at hand."
            )
        return
    focus: dict[int, list[Declarations]] = {}
    for reached, declarations in subject.styles.focus_rules:
        for element in reached:
            focus.setdefault(element.index, []).append(declarations)
    for element in subject.document.elements:
        if not subject.shown.tabbable(element):
            continue
        rules = focus.get(element.index, [])
        outline = _outline(
            subject.styles.get(element, "outline"), subject.styles.get(element, "outline-style")
        )
        for declarations in rules:
            found = _outline(
                *(declarations.get(name, (None, False))[0] for name in ("outline", "outline-style"))
            )
            outline = outline if found is None else found
        marked = any(name.startswith(_INDICATORS) for declarations in rules for name in declarations)
        scripted = subject.scripted and (element.has("onfocus") or element.has("class"))
        if marked or outline is not False:
            yield passed(element)
        elif scripted:
            yield cannot_tell(element, "A script may mark the focus.")
        else:
            yield failed(element, "The outline is taken away and nothing else marks the focus.")


def _outline(*values: str | None) -> bool | None:
    """Whether an outline is drawn; None when nothing is said."""
    for value in values:
        if value is not None:
            return _NO_OUTLINE.search(value.strip()) is None
    return None


def _frame_reached(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("iframe"):
        unreached = (element.get("tabindex") or "").strip().startswith("-")
        if not unreached or not subject.shown.seen(element):
            continue
        inner = element.get("srcdoc")
        if inner is None:
            yield cannot_tell(element, "See that nothing in this frame has to be operated.")
        elif _shows_something(inner):
            yield failed(element, "The frame is out of the tab order, but holds something to operate.")
        else:
            yield passed(element)


def _shows_something(html: str) -> bool:
    """A control that is hidden, or taken out of the tab order itself, is nothing to operate."""
    for one in parse(html[:20_000]).elements:
        operable = (
            one.tag in {"button", "select", "textarea", "input"} or one.has("href") or one.has("tabindex")
        )
        hidden = one.has("hidden") or "display:none" in (one.get("style") or "").replace(" ", "")
        if operable and not hidden and not (one.get("tabindex") or "").strip().startswith("-"):
            return True
    return False


def _moving_text(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("marquee", "blink"):
        if subject.shown.seen(element):
            yield judge(element, f"{element.tag} moves by itself and cannot be stopped.")


def _server_map(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("img"):
        if element.has("ismap") and element.closest("a") is not None and subject.shown.rendered(element):
            yield failed(element, "Where a server-side image map leads depends on the mouse.")


def _trap(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.elements:
        if not subject.shown.tabbable(element):
            continue
        blur = element.get("onblur") or ""
        if "focus" not in blur.lower():
            continue
        keys = any(name.startswith("onkey") for above in element.lineage() for name in above.attributes)
        if _TAKES_BACK.search(blur) and not keys:
            yield failed(element, "The element takes the focus back when it is left.")
        else:
            yield cannot_tell(element, "A script moves the focus; see that the keyboard can leave.")


def _tab_order(subject: Subject) -> Iterator[Finding]:
    reached = [element for element in subject.document.elements if subject.shown.tabbable(element)]
    # the tab key goes to the positive numbers first, from the lowest up, then to the rest as it stands
    in_turn = sorted(reached, key=lambda element: tab_index(element) or _AFTER_ALL)
    early = next((one for one, other in zip(in_turn, reached, strict=True) if one is not other), None)
    if early is not None:
        yield cannot_tell(
            early,
            f"tabindex {tab_index(early)} sends the tab key here before what stands above; see that the order makes sense.",
        )


RULES = (
    Rule(
        id="0ssw9k",
        name="Scrollable part is reached by keyboard",
        criteria=("2.1.1", "2.1.3"),
        how="Parts that scroll, by declared size and amount of text, take focus or hold something that does.",
        fix='Add tabindex="0" to the scrollable part.',
        check=_scrollable,
    ),
    Rule(
        id="oj04fd",
        name="Focus is seen",
        criteria=("2.4.7",),
        how="Where the outline is removed, a rule for the focus changes something else that is seen.",
        fix="Leave the outline, or give the focused element another clear mark.",
        check=_focus_seen,
    ),
    Rule(
        id="akn7bn",
        name="Frame out of the tab order holds nothing to operate",
        criteria=("2.1.1",),
        how="The content given in srcdoc is searched; frames that are loaded need a look.",
        fix='Remove tabindex="-1" from the frame.',
        check=_frame_reached,
    ),
    Rule(
        id="efbfc7",
        name="Moving text can be stopped",
        criteria=("2.2.2",),
        how="marquee and blink fail; movement by scripts needs a look.",
        fix="Let the text stand still, or give people a way to stop it.",
        check=_moving_text,
    ),
    Rule(
        id="server-map",
        name="Image maps work by keyboard",
        criteria=("2.1.1",),
        how="Images with ismap inside a link fail (our own rule).",
        fix="Use a client-side map with area elements, or separate links.",
        check=_server_map,
    ),
    Rule(
        id="tab-order",
        name="Tab key follows the page",
        criteria=("2.4.3",),
        how="Where tabindex makes an order other than that of the page, a person looks (our own rule).",
        fix='Leave out positive tabindex, or use "0", and bring the markup into the order wanted.',
        check=_tab_order,
        decides=False,
        seen="a tabindex that changes the order of the tab key",
    ),
    Rule(
        id="80af7b",
        name="Keyboard is not trapped",
        criteria=("2.1.2",),
        how="Elements that take the focus back when they lose it fail, unless keys are handled; other scripts need a look.",
        fix="Let the tab key leave every element.",
        check=_trap,
    ),
)
