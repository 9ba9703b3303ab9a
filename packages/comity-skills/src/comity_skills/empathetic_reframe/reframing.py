"""What is reworded for which tone, and why: the rationale tells what was really done.

| tone | reworded | flagged in every tone |
|---|---|---|
| warm | refusals and bad news, blame, distance, office wording, claims to know a feeling, orders, a rejection, | hollow empathy, |
| | reproaches that say nothing (`as I already told you`), capitals and marks that shout | blame, orders, swearing, insults, |
| formal | greetings, thanks, apologies, contractions, office wording, blame, orders, reproaches, shouting | contempt, dismissals, grave news, |
| neutral | nothing | reproaches, shouting, `you always` and `you never` |

The recorded modes know no orders, reproaches, shouting, rejections and no condolence: there these stay as they are.

What no rule knows is flagged where it is likely to hurt (`editing.tone`).

A rude word is never replaced: what stands behind it is known to its writer alone. Where no rule finds anything in a
message to somebody, that is told as what it is, and no low uncertainty is claimed.

A message whose writer is in a crisis is not reworded: it has to reach a person, as it was written.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from comity_skills.crisis import CrisisDetector, CrisisReport
from comity_skills.editing.concern import EMERGENCY, NUMBERS, is_concerning, told_at_the_end
from comity_skills.editing.edits import Rewrite, guarded
from comity_skills.editing.evidence import (
    crisis_row,
    edit_rows,
    flag_rows,
    is_doubtful,
    is_foreign,
    uncertainty_of,
)
from comity_skills.editing.passage import Passage, read
from comity_skills.editing.rules import CompiledRule, Finding, find, in_order, proposed
from comity_skills.editing.shortfall import shortfalls
from comity_skills.editing.tone import Tone
from comity_skills.empathetic_reframe.calming import calmed
from comity_skills.empathetic_reframe.softening import condoled, softened
from comity_skills.skill import Mode, SkillOutcome, Uncertainty

REWORDED: Final = {
    "neutral": frozenset[str](),
    "warm": frozenset(("refusal", "shame_blame", "distance", "bureaucratic", "hollow_empathy")),
    "formal": frozenset(("formality", "bureaucratic")),
}
# by the enhanced mode alone
REWORDED_SINCE: Final = {
    "neutral": frozenset[str](),
    "warm": frozenset(("order", "rejection", "bereavement", "reproach", "shouting")),
    "formal": frozenset(("order", "reproach", "shouting", "shame_blame")),
}
FLAGGED: Final = frozenset(
    (
        "shame_blame",
        "hollow_empathy",
        "blame_or_order",
        "swearing",
        "insult",
        "contempt",
        "always_never",
        "dismissal",
        "grave_news",
        "reproach",
        "shouting",
    )
)
_MANNERS: Final = frozenset(("formality", "order", "bureaucratic"))  # a sentence may hurt beside these
_MOST_ORDERS: Final = 2  # a longer list is an instruction: one `please` is enough for it
_HARSH: Final = re.compile(
    r"\b(?:stop|quit|never|nobody|unacceptable|useless|hopeless|pathetic|stupid|idiots?|failures?|losers?|lazy|shame\w{0,4}|ashamed"
    r"|disgust\w{1,4}|disgrace\w{0,3}|incompeten\w{1,3}|worst|terrible|awful|ridiculous|rubbish|garbage|blame\w?|guilty|liars?"
    r"|rejected|denied|refused|declined|dismissed|fired|terminated|evict\w{1,4}|deceased|died|dead|death|cancer|tumou?r"
    r"|still not|yet again|once more|late again|no (?:refunds?|exceptions?|excuses|returns?))\b",
    re.IGNORECASE,
)
_ADDRESSED: Final = re.compile(
    r"\b(?:you|your|yours|yourself|yourselves|you're|you've|you'll|you'd|u|ur)\b"
    r"|(?:^|[.!?\r\n])\s*(?:dear|hey|hi|hello|dude|guys|folks|bro|man|mate|listen|look)\b",
    re.IGNORECASE,
)
_HUMAN: Final = (
    "Send no automatic reply to this message.",
    "Bring it to a person who is trained for such conversations, now.",
)
_TEXT_LINE: Final = "Crisis Text Line (US): text HOME to 741741"
_MENTIONED: Final = (
    "The message speaks of suicide or self-harm without a sign that its writer is in danger; "
    "let a person read it before it is sent."
)


def reframe(
    message: str,
    *,
    tone: str,
    mode: Mode,
    rules: Sequence[CompiledRule],
    detector: CrisisDetector,
    learned: Tone,
) -> SkillOutcome:
    passage = read(message)
    report = detector.detect(message)
    since = mode == "enhanced"
    reworded = REWORDED[tone] | (REWORDED_SINCE[tone] if since else frozenset())
    findings = _findings(passage, rules, tone, reworded, since=since)
    if since and not report.detected and not is_foreign(message):
        said = [finding for finding in findings if finding.category not in _MANNERS]
        findings = _told_once(in_order([*findings, *learned.flagged(passage, said)]))
    wanted = [finding for finding in findings if finding.category in reworded]
    done = guarded(passage, () if report.detected else proposed(wanted))
    output: dict[str, Any] = {
        "reframed_message": done.text,
        "rationale": _rationale(tone, passage, done, findings, mode, report),
        "escalation_guidance": _guidance(message, report, mode),
    }
    if mode == "enhanced":
        output["edits"] = edit_rows(done.edits, applied=True)
        output["flags"] = flag_rows(findings, done)
        output["crisis"] = crisis_row(report)
    return SkillOutcome(
        uncertainty=_uncertainty(passage, findings, done, report, mode),
        assumptions=told_at_the_end(
            (
                f"Tone: {tone}",
                "The facts of the message are right; negations, numbers, names, dates and commitments are kept",
                "The rules read English wording; a person who knows the reader decides whether to send it",
            ),
            report,
            shown=bool(output["escalation_guidance"]),
        ),
        output=output,
    )


def _findings(
    passage: Passage, rules: Sequence[CompiledRule], tone: str, reworded: frozenset[str], *, since: bool
) -> list[Finding]:
    looked_for = FLAGGED | reworded
    found = [
        *find(passage, [rule for rule in rules if rule.rule.category in looked_for]),
        *shortfalls(passage, since=since),
    ]
    if since:
        found += calmed(passage)
    if tone == "warm":
        first = next(condoled(passage), None) if since else None
        first = first or next(softened(passage, since=since), None)
        if first:
            found = [other for other in found if not _gives_way(other, first)]
            found.append(first)
    found = [one for one in found if one.category != "order" or not one.text.isupper()]
    orders = [one for one in found if one.category == "order"]
    if len(orders) > _MOST_ORDERS:
        found = [one for one in found if one not in orders[1:]]
    # a phrase is informal or it is not: where it cannot be reworded there is nothing to say about it
    return _told_once(
        in_order(
            one for one in found if one.category not in {"formality", "order"} or one.replacement is not None
        )
    )


def _told_once(findings: Sequence[Finding]) -> list[Finding]:
    """Without what is only flagged inside something else that is: two kinds of advice for one place contradict."""
    told: list[Finding] = []
    reached = -1
    for finding in findings:
        flagged = finding.replacement is None and not finding.quoted
        if flagged and finding.end <= reached:
            continue
        told.append(finding)
        reached = max(reached, finding.end) if flagged else reached
    return told


def _gives_way(other: Finding, first: Finding) -> bool:
    """Whether what is said first takes the place of the other, or already minds the news that the other flags."""
    if first.category == "bereavement" and other.rule == "death_told":
        return True
    return other.start < first.end and first.start < other.end and other.category != "dismissal"


def _rationale(
    tone: str, passage: Passage, done: Rewrite, findings: Sequence[Finding], mode: Mode, report: CrisisReport
) -> list[str]:
    if mode == "enhanced":
        return _told(passage, done, findings, report)
    reworded = "1 place was reworded" if len(done.edits) == 1 else f"{len(done.edits)} places were reworded"
    lines = [
        f"Tone {tone}: {reworded}; what could not be reworded safely was left alone",
        "What the message refuses, asks or promises is the same as before",
        "Regret is said once and only where the reader gets bad news",
    ]
    return lines[: {"warm": 3, "formal": 2, "neutral": 1}[tone]]


def _told(passage: Passage, done: Rewrite, findings: Sequence[Finding], report: CrisisReport) -> list[str]:
    if report.detected:
        return ["Nothing was reworded: the message speaks of a crisis and has to reach a person as it is"]
    lines = [f'"{edit.original}" became "{edit.replacement}": {edit.reason}' for edit in done.edits]
    places = {(edit.start, edit.end) for edit in done.edits}
    lines += (
        f'"{finding.text}" was left as it is: {finding.reason}'
        for finding in findings
        if (finding.start, finding.end) not in places
    )
    if lines:
        return lines
    if is_foreign(passage.text):
        return ["Nothing was reworded: the message is not in English and was not read"]
    nothing = "Nothing was reworded: no rule of this tone applies to the message"
    unsure = "; that does not show how it reads to the person it is written to"
    return [nothing + unsure if _may_hurt(passage) else nothing]


def _guidance(message: str, report: CrisisReport, mode: Mode) -> list[str]:
    if not is_concerning(message, report, mode):
        return []
    if mode == "strict":
        return [*_HUMAN, NUMBERS]
    if mode == "compat" or report.detected:
        return [*_HUMAN, EMERGENCY, NUMBERS, _TEXT_LINE]
    return [_MENTIONED, NUMBERS]


def _uncertainty(
    passage: Passage, findings: Sequence[Finding], done: Rewrite, report: CrisisReport, mode: Mode
) -> Uncertainty:
    if mode != "enhanced":
        return "low" if mode == "strict" else "medium"
    if report.detected:
        return "high"
    unseen = not findings and _may_hurt(passage)
    return uncertainty_of(passage.text, doubtful=report.mention or unseen or is_doubtful(findings, done))


def _may_hurt(passage: Passage) -> bool:
    """Whether the message is to somebody, or has words in it that no rule judged and that may be hard to read."""
    return bool(_ADDRESSED.search(passage.folded) or _HARSH.search(passage.folded))
