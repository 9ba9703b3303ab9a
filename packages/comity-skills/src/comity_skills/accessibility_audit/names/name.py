"""The accessible name of an element, by the steps of the Accessible Name computation (accname 1.2).

In this order: hidden content, `aria-labelledby`, a control inside a label, `aria-label`, what the element's own
language provides (alt, label, legend, caption, title of a drawing), its content where the role allows it, and
last the tooltip. Content is followed to a depth that no real name reaches.
"""

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.names.roles import NOTHING, Roles
from comity_skills.accessibility_audit.style.cascade import Styles
from comity_skills.accessibility_audit.style.shown import Shown, first_child
from comity_skills.words.tokens import word_set

DEPTH = 60
LENGTH = 4_000

_LABELABLE = frozenset({"input", "select", "textarea", "button", "meter", "output", "progress"})
_BLOCKS = word_set(
    "address article aside blockquote br dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr li main nav ol option p pre section summary table td th tr ul img input select"
)
_SILENT = frozenset(
    {"script", "style", "template", "noscript", "iframe", "audio", "video", "object", "canvas"}
)
_CAPTIONS = {"fieldset": "legend", "table": "caption", "figure": "figcaption", "svg": "title"}
_DEFAULTS = {"submit": "Submit", "reset": "Reset", "image": "Submit"}
_EMBEDDED = frozenset(
    {"textbox", "searchbox", "combobox", "listbox", "slider", "spinbutton", "progressbar", "meter"}
)


def tidy(text: str) -> str:
    return " ".join(text.split())


class Names:
    """Names of elements, kept once computed."""

    def __init__(self, document: Document, styles: Styles, shown: Shown, roles: Roles) -> None:
        self._document = document
        self._styles = styles
        self._shown = shown
        self._roles = roles
        self._known: dict[int, str] = {}
        self._referenced: dict[int, str] = {}
        self._labels = _labels(document)

    def of(self, element: Element) -> str:
        found = self._known.get(element.index)
        if found is None:
            found = tidy(self._compute(element, _Walk()))
            self._known[element.index] = found
        return found

    def labels(self, element: Element) -> list[Element]:
        """The `label` elements of a form control."""
        return self._labels.get(element.index, [])

    def content(self, element: Element) -> str:
        """What the content alone would say."""
        return tidy(self._content(element, _Walk()))

    def seen_text(self, element: Element) -> str:
        """The text inside that is seen, whether told or not."""
        pending: list[Element | str] = [element]
        found: list[str] = []
        room = LENGTH
        while pending and room > 0:
            one = pending.pop()
            if isinstance(one, str):
                found.append(one)
                room -= len(one)
            elif one.tag not in _SILENT and self._shown.displayed(one):
                if not self._shown.seen(one):
                    pending.extend(child for child in reversed(one.children) if isinstance(child, Element))
                    continue
                if self._is_block(one):
                    found.append(" ")
                    pending.append(" ")
                pending.extend(reversed(one.children))
        return tidy("".join(found))

    def _compute(self, element: Element, pipeline: "_Walk") -> str:
        if pipeline.depth > DEPTH or element.index in pipeline.visited:
            return ""
        if not pipeline.hidden_root and not self._shown.told(element):
            return ""
        pipeline.visited.add(element.index)
        named = "" if pipeline.referenced else self._labelled_by(element)
        role = self._roles.of(element)
        if not named and (pipeline.depth or pipeline.referenced) and role in _EMBEDDED:
            value = self._value(element, role)
            if value is not None:
                return value
        named = named or (element.get("aria-label") or "").strip()
        if named:
            return named
        native = self._native(element, role, pipeline)
        if native is not None:
            return native
        if self._by_content(element, pipeline):
            content = self._content(element, pipeline)
            if content.strip():
                return content
        return (element.get("title") or "").strip()

    def _by_content(self, element: Element, pipeline: "_Walk") -> bool:
        facts = self._roles.facts(element)
        allowed = facts is not None and facts.named_by_content
        return bool(
            allowed or pipeline.depth or pipeline.referenced or element.tag in {"label", "legend", "summary"}
        )

    def _labelled_by(self, element: Element) -> str:
        parts = [
            self._said(label, element) for label in self._document.referenced(element, "aria-labelledby")
        ]
        return " ".join(part for part in parts if part.strip())

    def _said(self, label: Element, by: Element) -> str:
        """What a referenced element says; kept, because many may refer to one."""
        if label is by or label.holds(by):
            return self._compute(label, _Walk(referenced=True, hidden_root=not self._shown.told(label)))
        found = self._referenced.get(label.index)
        if found is None:
            pipeline = _Walk(referenced=True, hidden_root=not self._shown.told(label))
            found = self._referenced[label.index] = self._compute(label, pipeline)
        return found

    def _value(self, element: Element, role: str) -> str | None:
        if role in {"textbox", "searchbox"}:
            return element.get("value") if element.tag == "input" else element.text()
        if element.tag == "select":
            options = [one for one in self._document.inside(element, 500) if one.tag == "option"]
            chosen = [one for one in options if one.has("selected")] or options[:1]
            return " ".join(one.text() for one in chosen)
        if role in {"combobox", "listbox"}:
            if element.tag == "input":
                return element.get("value") or ""
            chosen = [
                one for one in self._document.inside(element, 500) if one.get("aria-selected") == "true"
            ]
            return " ".join(one.text() for one in chosen) if chosen else None
        for name in ("aria-valuetext", "aria-valuenow", "value"):
            if element.get(name):
                return element.get(name)
        return None

    def _native(self, element: Element, role: str, pipeline: "_Walk") -> str | None:
        """What the markup language says; None when it says nothing and the content may speak."""
        tag = element.tag
        if tag in {"img", "area"}:
            return "" if role in NOTHING else _first(element, "alt", "title")
        if tag in _LABELABLE:
            return self._control(element, pipeline)
        if element.foreign or tag in _CAPTIONS:
            return self._caption(element, pipeline)
        if tag in {"option", "optgroup"} and element.get("label"):
            return element.get("label")
        return _first(element, "title") if tag in _SILENT else None

    def _control(self, element: Element, pipeline: "_Walk") -> str | None:
        kind = (element.get("type") or "").strip().lower() if element.tag == "input" else ""
        own = {"image": "alt", "button": "value", "submit": "value", "reset": "value"}.get(kind)
        named = _first(element, own) if own else ""
        if not named and not pipeline.depth:
            named = self._from_labels(element)
        if named:
            return named
        if own:
            return _first(element, "title") or _DEFAULTS.get(kind, "")
        if element.tag in {"input", "textarea", "select"}:
            return _first(element, "title", "placeholder", "aria-placeholder")
        return None

    def _caption(self, element: Element, pipeline: "_Walk") -> str | None:
        if element.foreign and element.tag in {"text", "tspan", "a"}:
            return None
        child = first_child(element, _CAPTIONS.get(element.tag, "title"))
        if child is None:
            return None
        return child.text() if element.foreign else self._content(child, pipeline.inside())

    def _from_labels(self, element: Element) -> str:
        parts = []
        for label in self._labels.get(element.index, ()):
            pipeline = _Walk(referenced=True, hidden_root=not self._shown.told(label))
            pipeline.visited.add(element.index)
            parts.append(self._compute(label, pipeline))
        return " ".join(part for part in parts if part.strip())

    def _content(self, element: Element, pipeline: "_Walk") -> str:
        generated = self._styles.generated
        parts = [_quoted(generated.get((element.index, "before"), ""))]
        room = LENGTH
        for child in element.children:
            if room < 0:
                break
            if isinstance(child, str):
                parts.append(child)
                room -= len(child)
                continue
            if child.tag in {"script", "style", "template", "noscript"}:
                continue
            text = self._compute(child, pipeline.inside())
            room -= len(text) + 1
            parts.append(f" {text} " if self._is_block(child) else text)
        parts.append(_quoted(generated.get((element.index, "after"), "")))
        owned = [] if pipeline.referenced else self._document.referenced(element, "aria-owns")
        parts.extend(" " + self._compute(one, pipeline.inside()) for one in owned)
        return "".join(parts)

    def _is_block(self, element: Element) -> bool:
        display = self._styles.display(element)
        return display.startswith(
            ("block", "flex", "grid", "list", "table", "inline-block", "flow-root")
        ) or (not display and element.tag in _BLOCKS)


class _Walk:
    """How the computation came to a node."""

    __slots__ = ("depth", "hidden_root", "referenced", "visited")

    def __init__(
        self,
        *,
        depth: int = 0,
        referenced: bool = False,
        hidden_root: bool = False,
        visited: set[int] | None = None,
    ) -> None:
        self.depth = depth
        self.referenced = referenced
        self.hidden_root = hidden_root
        self.visited: set[int] = set() if visited is None else visited

    def inside(self) -> "_Walk":
        return _Walk(
            depth=self.depth + 1,
            referenced=self.referenced,
            hidden_root=self.hidden_root,
            visited=self.visited,
        )


def _labels(document: Document) -> dict[int, list[Element]]:
    found: dict[int, list[Element]] = {}
    for label in document.tagged("label"):
        if label.has("for"):
            control = document.by_id.get(label.get("for") or "")
        else:
            control = next((one for one in document.inside(label, 200) if _labelable(one)), None)
        if control is not None and _labelable(control):
            found.setdefault(control.index, []).append(label)
    return found


def _first(element: Element, *names: str) -> str:
    """The first of these attributes that says something."""
    return next((text for name in names if (text := (element.get(name) or "").strip())), "")


def _labelable(element: Element) -> bool:
    if element.tag not in _LABELABLE:
        return False
    return (element.get("type") or "").strip().lower() != "hidden"


def _quoted(css: str) -> str:
    """The strings of a `content` value; pictures say nothing."""
    parts = css.replace("'", '"').split('"')
    return "".join(parts[1::2])
