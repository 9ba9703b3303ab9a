"""Sound and film: what the markup decides, and what a person has to hear and see."""

import re
from collections.abc import Callable, Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    passed,
)

_FRAGMENT = re.compile(r"#t=(?:npt:)?([\d.:]*)(?:,([\d.:]+))?")
_SHORT = 3.0
_BY_ITSELF = "a film or sound that starts by itself"
_CONTROL = re.compile(r"pause|stop|mute|play|sound|audio|volume", re.IGNORECASE)


def _sources(element: Element) -> list[str]:
    own = [element.get("src") or ""]
    own.extend(one.get("src") or "" for one in element.elements() if one.tag == "source")
    return [address for address in own if address]


def _cut_short(element: Element) -> bool | None:
    """Whether the address itself limits how long it plays; None when it says only where to begin."""
    answers = set[bool | None]()
    for address in _sources(element):
        found = _FRAGMENT.search(address)
        begins, ends = (_seconds(found[1] or "0"), _seconds(found[2] or "")) if found else (0.0, None)
        answers.add(None if ends is None and found else ends is not None and ends - (begins or 0.0) <= _SHORT)
    return answers.pop() if len(answers) == 1 else None


def _seconds(text: str) -> float | None:
    try:
        total = 0.0
        for part in text.split(":"):
            total = total * 60 + float(part)
    except ValueError:
        return None
    return total


def _plays_by_itself(subject: Subject) -> Iterator[Finding]:
    stoppable: bool | None = None  # looked for once, and only where it matters
    for element in subject.document.tagged("audio", "video"):
        if not element.has("autoplay") or element.has("muted") or not _sources(element):
            continue
        short = _cut_short(element)
        if stoppable is None:
            stoppable = _has_control(subject)
        if (element.has("controls") and subject.shown.seen(element)) or short:
            yield passed(element)
        elif short is None or element.has("controls") or stoppable:
            yield cannot_tell(
                element, "Listen whether it sounds for more than three seconds and can be stopped."
            )
        elif element.tag == "video":
            yield cannot_tell(element, "The film starts by itself; listen whether it has sound.")
        else:
            yield failed(element, "The sound starts by itself and there is nothing to stop it.")


def _film_moves(subject: Subject) -> Iterator[Finding]:
    films = [
        element
        for element in subject.document.tagged("video")
        if element.has("autoplay") and not element.has("controls") and subject.shown.seen(element)
    ]
    if not films or _has_control(subject):
        return
    for element in films:
        if _sources(element) and not _cut_short(element):
            again = " over and over" if element.has("loop") else ""
            yield cannot_tell(
                element,
                f"The film plays by itself{again} without controls; see that it can be paused or ends within five seconds.",
            )


def _has_control(subject: Subject) -> bool:
    return any(
        _CONTROL.search(subject.names.of(element))
        for element in subject.roles.with_role("button", "link", "checkbox", "switch", "slider")
    )


def _look(tag: str, question: str) -> Callable[[Subject], Iterator[Finding]]:
    def check(subject: Subject) -> Iterator[Finding]:
        for element in subject.document.tagged(tag):
            heard = element.has("autoplay") or (element.has("controls") and subject.shown.seen(element))
            if heard and subject.shown.rendered(element):
                yield cannot_tell(element, question)

    return check


RULES = (
    Rule(
        id="80f0bf",
        name="Sound that starts by itself can be stopped",
        criteria=("1.4.2",),
        how="Sound that plays automatically is muted, limited to three seconds by its address, or has controls.",
        fix="Let people start the sound, or show controls for it.",
        check=_plays_by_itself,
        seen=_BY_ITSELF,
    ),
    Rule(
        id="film-stops",
        name="Film that starts by itself can be stopped",
        criteria=("2.2.2",),
        how="Where a film plays automatically and nothing to stop it is seen, a person looks (our own rule).",
        fix="Let people start the film, or show controls for it.",
        check=_film_moves,
        decides=False,
        seen=_BY_ITSELF,
    ),
    Rule(
        id="e7aa44",
        name="Sound has a text alternative",
        criteria=("1.2.1",),
        how="Every audio element that can be heard; a person compares it with its transcript.",
        fix="Write a transcript beside the sound.",
        check=_look("audio", "See that a transcript says what is heard."),
        decides=False,
    ),
    Rule(
        id="c3232f",
        name="Film without sound has an alternative",
        criteria=("1.2.1",),
        how="Every video element that can be seen; a person compares it with its alternative.",
        fix="Describe the film in text or in a sound track.",
        check=_look("video", "If the film is silent, see that text or sound tells what it shows."),
        decides=False,
    ),
    Rule(
        id="eac66b",
        name="Film has captions",
        criteria=("1.2.2",),
        how="Every video element that can be seen; a person compares its sound with the captions.",
        fix="Add a track of captions.",
        check=_look("video", "See that captions tell what is heard."),
        decides=False,
    ),
    Rule(
        id="c5a4ea",
        name="Film has an audio description or alternative",
        criteria=("1.2.3",),
        how="Every video element that can be seen; a person looks for what is shown but not said.",
        fix="Describe in sound or text what is only shown.",
        check=_look("video", "See that what is only shown is also described."),
        decides=False,
    ),
    Rule(
        id="1ec09b",
        name="Film has an audio description",
        criteria=("1.2.5",),
        how="Every video element that can be seen; a person looks for what is shown but not said.",
        fix="Describe in the sound track what is only shown.",
        check=_look("video", "See that the sound describes what is only shown."),
        decides=False,
    ),
)
