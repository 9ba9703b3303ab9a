"""VCP-X-Intent: what a person probably wants, and the person's correction (vcp 6.5).

- Rules over effective personal signals and the situation give categories with a confidence. The best one is
  the primary; at most three others are alternatives. Equal confidence keeps the order of the rules.
- Without VCP-X-Personal only the situation is used, which gives lower confidence.
- A correction is stored beside the inferred intent and becomes the effective one. `crisis_support` is a signal for the
  host; nothing here acts on it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol import personal
from comity.extensions.protocol.calls import OperationCall, OperationOutcome, showing
from comity.vcp.protocol.extension_calls import ExtensionOperation, invalid
from comity.vcp.protocol.messages import INTENT, PERSONAL
from comity.vcp.protocol.registry import Dependency, Extension, StateSlot
from comity.vcp.protocol.resource_addresses import VcpAddress
from comity.vcp.protocol.signals import Categorical, Signal

CATEGORIES: Final = (
    "professional_inquiry",
    "urgent_task",
    "personal_exploration",
    "emotional_processing",
    "health_check",
    "casual_conversation",
    "crisis_support",
    "creative_work",
    "learning",
    "routine_check",
)
MAX_ALTERNATIVES: Final = 3
MAX_REASONING_LENGTH: Final = 200

WORKPLACE: Final = "workplace"
HOME: Final = "home"
COLLEAGUES: Final = "colleagues"
EVENING: Final = "evening"
MORNING: Final = "morning"

_SIGNALS: Final[Mapping[str, str]] = {
    "workplace": WORKPLACE,
    "office": WORKPLACE,
    "🏢": WORKPLACE,
    "home": HOME,
    "🏠": HOME,
    "🏡": HOME,
    "colleagues": COLLEAGUES,
    "👔": COLLEAGUES,
    "evening": EVENING,
    "🌅": EVENING,
    "🌆": EVENING,
    "morning": MORNING,
    "🌄": MORNING,
}
# vcp 6.5: a sunrise means the morning on the wires, and the evening in the extension's own list
_TIMES_ON_THE_WIRE: Final[Mapping[str, str]] = {"🌆": EVENING, "🌅": MORNING, "🌄": MORNING}
_PRESENTATION: Final = str.maketrans("", "", "\ufe0f")


class InferredIntent(Struct, frozen=True, kw_only=True):
    category: str
    confidence: float
    reasoning: str
    contributing_dimensions: tuple[str, ...]


class IntentState(Struct, frozen=True):
    correction: str | None = None


class IntentReport(Struct, frozen=True, kw_only=True):
    """`effective` is the correction where there is one."""

    primary: InferredIntent
    alternatives: tuple[InferredIntent, ...]
    user_correction: str | None
    effective: str


class IntentForModel(Struct, frozen=True, kw_only=True):
    """What a model may see of an intent (ruling 49). A correction by the person is certain."""

    category: str
    confidence: float


class _Rule(NamedTuple):
    category: str
    confidence: float
    reasoning: str
    dimensions: tuple[str, ...]


def read_words(given: Iterable[str]) -> frozenset[str]:
    """Return the known words and symbols of a situation. Others are ignored."""
    return frozenset(
        _SIGNALS[word] for one in given if (word := one.translate(_PRESENTATION).lower()) in _SIGNALS
    )


def words_of(categorical: Categorical | None) -> frozenset[str]:
    """Return what the categorical wire says about the situation."""
    if categorical is None:
        return frozenset()
    words = read_words(part for part in (categorical.setting, categorical.audience) if part is not None)
    time = _TIMES_ON_THE_WIRE.get((categorical.time or "").translate(_PRESENTATION))
    return words if time is None else words | {time}


def infer(
    personal: Mapping[str, Signal], situation: Collection[str]
) -> tuple[InferredIntent, tuple[InferredIntent, ...]]:
    """Return the primary intent and its alternatives. `personal` holds effective intensities."""
    found: dict[str, _Rule] = {}
    for rule in _rules(personal, frozenset(situation)):
        if rule.category not in found or found[rule.category].confidence < rule.confidence:
            found[rule.category] = rule
    for rule in _rules_if_little_is_known(personal, found):
        found[rule.category] = rule
    if not found:
        found["routine_check"] = _Rule("routine_check", 0.3, "nothing points to anything in particular", ())
    best = sorted(found.values(), key=lambda rule: -rule.confidence)[: 1 + MAX_ALTERNATIVES]
    primary, *others = (
        InferredIntent(
            category=rule.category,
            confidence=rule.confidence,
            reasoning=rule.reasoning[:MAX_REASONING_LENGTH],
            contributing_dimensions=rule.dimensions,
        )
        for rule in best
    )
    return primary, tuple(others)


def correct(category: str | None) -> IntentState:
    if category is None:
        return IntentState()
    word = category.lower()
    if word not in CATEGORIES:
        raise invalid(f"category must be one of {', '.join(CATEGORIES)}, or null", "category")
    return IntentState(word)


def report(state: IntentState, personal: Mapping[str, Signal], situation: Collection[str]) -> IntentReport:
    primary, alternatives = infer(personal, situation)
    return IntentReport(
        primary=primary,
        alternatives=alternatives,
        user_correction=state.correction,
        effective=state.correction or primary.category,
    )


def for_model(found: IntentReport) -> IntentForModel:
    if found.user_correction is not None:
        return IntentForModel(category=found.user_correction, confidence=1.0)
    return IntentForModel(category=found.primary.category, confidence=found.primary.confidence)


def _says(personal: Mapping[str, Signal], dimension: str, *categories: str, at_least: int = 0) -> bool:
    signal = personal.get(dimension)
    return signal is not None and signal.category in categories and signal.intensity >= at_least


_URGENCY, _BODY, _TONE, _MIND = "perceived_urgency", "body_signals", "emotional_tone", "cognitive_state"


def _rules(personal: Mapping[str, Signal], situation: frozenset[str]) -> Iterator[_Rule]:
    says = partial(_says, personal)
    at_work = WORKPLACE in situation
    if says(_URGENCY, "critical", at_least=4):
        yield _Rule("crisis_support", 0.9, "urgency is critical and strong", (_URGENCY,))
    if says(_URGENCY, "pressured"):
        yield (
            _Rule("urgent_task", 0.75, "under pressure at work", (_URGENCY, "space"))
            if at_work
            else _Rule("urgent_task", 0.6, "under pressure", (_URGENCY,))
        )
    if says(_BODY, "pain", "unwell", at_least=3):
        yield _Rule("health_check", 0.75, "the body tells of pain or illness", (_BODY,))
    if says(_TONE, "frustrated", "tense", at_least=4):
        yield _Rule("emotional_processing", 0.7, "strong tension or frustration", (_TONE,))
    if at_work or COLLEAGUES in situation:
        where = ("space",) if at_work else ("company",)
        yield (
            _Rule("professional_inquiry", 0.85, "focused, in a professional situation", (*where, _MIND))
            if says(_MIND, "focused")
            else _Rule("professional_inquiry", 0.7, "a professional situation", where)
        )
    if HOME in situation or EVENING in situation:
        where = ("space",) if HOME in situation else ("time",)
        calm = says(_TONE, "calm")
        if calm and says(_MIND, "reflective"):
            yield _Rule(
                "personal_exploration", 0.75, "calm and reflective in private", (*where, _TONE, _MIND)
            )
        elif calm:
            yield _Rule("personal_exploration", 0.7, "calm in private", (*where, _TONE))
        else:
            yield _Rule("personal_exploration", 0.55, "a private situation", where)
    if says(_TONE, "uplifted"):
        yield _Rule("creative_work", 0.55, "an uplifted mood", (_TONE,))


def _rules_if_little_is_known(personal: Mapping[str, Signal], found: Mapping[str, _Rule]) -> Iterator[_Rule]:
    best = max((rule.confidence for rule in found.values()), default=0.0)
    if _says(personal, _MIND, "focused") and best < 0.7:
        yield _Rule("learning", 0.5, "focused, and nothing stronger is known", (_MIND,))
    unhurried = _URGENCY not in personal or _says(personal, _URGENCY, "unhurried")
    # a workplace needs no mention here: its own rule is stronger than that
    if unhurried and best < 0.6:
        yield _Rule("casual_conversation", 0.4, "no hurry, and nothing stronger is known", (_URGENCY,))


# The extension.


STATE: Final = StateSlot("session", "intent", IntentState())


class CorrectArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    category: str | None


def intent_view(call: OperationCall) -> IntentReport | IntentForModel:
    # vcp 1.5: the dependency has to be active in this session
    signals = (
        personal.effective_signals(personal.STATE.of(call.state), call.rules.personal, call.now)
        if PERSONAL in call.facts.active
        else {}
    )
    found = report(STATE.of(call.state), signals, words_of(call.facts.categorical))
    return for_model(found) if call.facts.audience == "model" else found


def _correct(call: OperationCall, args: CorrectArguments) -> OperationOutcome:
    after = replace(call, state=STATE.put(call.state, correct(args.category)))
    return after.state, intent_view(after)


EXTENSION: Final = Extension(
    id=INTENT,
    capability=lambda: {
        "categories": [
            "PROFESSIONAL_INQUIRY",
            "URGENT_TASK",
            "PERSONAL_EXPLORATION",
            "EMOTIONAL_PROCESSING",
            "HEALTH_CHECK",
            "CASUAL_CONVERSATION",
            "CRISIS_SUPPORT",
            "CREATIVE_WORK",
            "LEARNING",
            "ROUTINE_CHECK",
        ],
        "max_alternatives": MAX_ALTERNATIVES,
        "user_correction": True,
    },
    dependencies=(Dependency(PERSONAL, "personal_signals", when_active=True),),
    state=(STATE,),
    view=intent_view,
    unchanged_for=personal.seconds_unchanged,
    remedy="correct an intent with intent.correct",
    resource=VcpAddress(
        host="intent",
        parameter="session_id",
        title="Intent",
        description="What the person in a session seems to be after, with alternatives",
        extension=INTENT,
    ),
    operations=(
        ExtensionOperation(
            "intent.infer",
            "vcp_infer_intent",
            "What the person probably wants",
            run=showing(intent_view),
            tool_members=("session_id",),
        ),
        ExtensionOperation(
            "intent.correct",
            "vcp_correct_intent",
            "Set the right category; null removes the correction",
            CorrectArguments,
            run=_correct,
            writes=("session",),
            tool_members=("session_id",),
            described={"category": {"enum": [*CATEGORIES, None]}},
        ),
    ),
)
