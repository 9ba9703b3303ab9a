"""Notes for whoever carries on the conversation: they speak about the person who wrote, never to them. Those about a loss
are for messages that are about a death.
"""

import re
from typing import Final

BY_MODE: Final[dict[str, tuple[str, str, str]]] = {
    "presence": (
        "Stay with the feeling; silence and short answers are fine.",
        "Do not steer towards solutions unless they are asked for.",
        "Say the name of the person who died if it was given, and follow the mourner's own words for the death.",
    ),
    "practical": (
        "Offer one concrete step at a time and ask before adding another.",
        "Name what can wait; few things must be decided in the first days.",
        "Offer to make lists or to draft messages, so that little has to be remembered.",
    ),
    "reflection": (
        "Ask open questions about the person and let memories take their own order.",
        "Allow mixed feelings: relief, anger and love may stand beside each other.",
        "Do not look for a lesson in the loss; meaning is the mourner's to find.",
    ),
}
WITHOUT_A_DEATH: Final[dict[str, tuple[str, str, str]]] = {
    "presence": (
        "Stay with what is told; silence and short answers are fine.",
        "Do not steer towards solutions unless they are asked for.",
        "Use the writer's own words for what happened and for how they feel.",
    ),
    "practical": (
        "Offer one concrete step at a time and ask before adding another.",
        "Name what can wait; few things must be decided at once.",
        "Offer to make lists or to draft messages, so that little has to be remembered.",
    ),
    "reflection": (
        "Ask open questions and let the story take its own order.",
        "Allow mixed feelings: relief, anger, joy and fear may stand beside each other.",
        "Do not look for a lesson in it; meaning is the writer's to find.",
    ),
}
CONSOLATIONS: Final = "Avoid consolations that explain it away or say when it has to be over."
HABITS: Final = (
    "How people speak of such things differs by culture, faith and family; ask rather than assume."
)
PLATITUDES: Final = "Avoid consolations that explain the loss away or put an end date on grief."
CUSTOMS: Final = "Mourning customs differ by culture, faith and family; ask rather than assume."
HEARD_PLATITUDES: Final = (
    "The message repeats consolations that others gave; do not agree with them on the mourner's behalf.",
    "Acknowledge that well-meant phrases can hurt.",
)
HEARD_CONSOLATIONS: Final = (
    "The message repeats consolations that others gave; do not agree with them on the writer's behalf.",
    "Acknowledge that well-meant phrases can hurt.",
)
CRISIS_FIRST: Final = "The message speaks of a danger to life: see to safety before anything else."
CRISIS_AFTER: Final = (
    "Ask directly and calmly about thoughts of dying; asking does not plant the idea.",
    "Hand over to a person: do not leave the conversation to an automatic reply.",
)

# actions 2.3: what 1.0.8 takes for a platitude, by substring
_HEARD: Final = (
    "better place", "time heals all wounds", "i know how you feel", "at least", "should be over it",
    "be strong", "move on", "it could be worse", "they lived a long life", "god has a plan",
    "everything happens for a reason",
)  # fmt: skip

# the same, as others say it to somebody who mourns; what they say of themselves (`I cannot move on`) is no platitude
_HEARD_BY_WORD: Final = re.compile(
    r"\b(?:in an? (?:much )?better place|time (?:heals|will heal)|knows? (?:exactly |just )?how (?:you|i) feel"
    r"|at least (?:you|he|she|it|they|we)|should be over it|be strong|(?:(?:told|tell|tells|telling) me to|should|must|just"
    r"|time to) move on|could (?:be|have been) worse|lived a (?:long|full|good) life|god has a plan|happens for a reason)\b"
)


def care_notes(mode: str, message: str, *, crisis: bool, death: bool, by_word: bool = False) -> list[str]:
    """1.0.8 hears a platitude inside other words too (`remove one`); `by_word` hears the phrase alone."""
    notes = [*BY_MODE[mode], PLATITUDES, CUSTOMS] if death else [*WITHOUT_A_DEATH[mode], CONSOLATIONS, HABITS]
    lowered = message.lower()
    if _HEARD_BY_WORD.search(lowered) if by_word else any(phrase in lowered for phrase in _HEARD):
        notes += HEARD_PLATITUDES if death else HEARD_CONSOLATIONS
    return [CRISIS_FIRST, *notes, *CRISIS_AFTER] if crisis else notes


def style(mode: str, *, death: bool) -> str:
    """The name of the reply in the style of a mode."""
    return mode if death else f"{mode}_open"
