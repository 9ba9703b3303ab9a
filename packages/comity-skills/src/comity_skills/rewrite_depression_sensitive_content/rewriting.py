"""What is found in a text, what is reworded, and what is said about it.

- The recorded modes reword what the recorded servers reword (blame, urgency, load), as far as it can be done
  without changing what the text says; the enhanced mode also rewords stigma and framing.
- An order (`you must`), a deadline and a warning keep their words: they bind somebody. They are flagged.
- People who speak of their own crisis are not corrected: nothing is reworded, a human has to read it.
- Where no rule finds anything and words stand that may be hard to read, that is said, and nobody claims to be sure.
- A text in another language was not read: that is said, and a person is asked to read it.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from comity_skills.crisis import CrisisDetector, CrisisReport
from comity_skills.editing.concern import RESOURCES, is_concerning, told_at_the_end
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
from comity_skills.editing.rules import CompiledRule, Finding, find, in_order, is_clinical, proposed
from comity_skills.editing.shortfall import shortfalls
from comity_skills.editing.tone import LEARNED, Tone
from comity_skills.rewrite_depression_sensitive_content.recorded import recorded_flags
from comity_skills.skill import Mode, SkillOutcome, Uncertainty

LABELS: Final = {
    "shame_blame": "Shame/blame language detected",
    "urgency_pressure": "Urgency pressure detected",
    "cognitive_load": "High cognitive load pattern detected",
    "stigma": "Stigmatizing language detected",
    "medical_claim": "Potential medical claim detected",
    "minimizing": "Minimizing/invalidating language detected",
    "judgmental": "Judgmental language detected",
    "framing": "Stigmatizing framing detected",
    "hopeless": "Hopeless wording detected",
    "suicide_wording": "Crisis language framing detected",
    "reproach": "Possible reproach",
    "fed_up": "Possible anger at the reader",
    "belittling": "Possible belittling of what is hard for the reader",
    "contempt": "Possible contempt",
    "brush_off": "Possible brush-off",
    "pressure": "Possible pressure",
    "cold_news": "Hard news without care",
    "willpower": "Possible claim that illness is a matter of will",
    "cure": "Possible false promise of healing",
    "no_hope": "Possibly hopeless wording",
    "shaming": "Possible shaming of the reader",
}
_REWORDED_BY_THE_RECORDED: Final = frozenset(("shame_blame", "urgency_pressure", "cognitive_load"))
# words that may hurt, where no rule has judged them
_HARSH: Final = re.compile(
    r"\b(?:failures?|losers?|quitters?|weak(?:er|ness|ling)?|pathetic|useless|worthless|hopeless|asham\w{1,4}|shame\w{0,4}|guilt\w{0,4}|blam\w{1,4}"
    r"|fault|stupid|idiots?|dumb|morons?|disgust\w{1,4}|disgrac\w{1,4}|ugly|hate[ds]?|burden|unlovable|cowards?|excuses|freaks?|monsters?"
    r"|ruin(?:ed|s)?|give up|gave up|regret|punish\w{0,4}|or else|insan\w{1,3}|psycho\w{0,3}|schizo|mad(?:man|ness)|maniacs?|lunatics?"
    r"|disappoint\w{1,5}|embarrass\w{1,5}|reject(?:ed|s)?|unwanted|incompetent|selfish|ungrateful|nobody (?:cares|likes|wants|loves)"
    r"|no one (?:cares|likes|wants|loves)|hurry|too late|die alone|you(?:'re| are)(?: getting)? (?:so |too )?(?:old|fat|thin|skinny))\b",
    re.IGNORECASE,
)
_NOT_READ: Final = "Not read: the text is not in English; a person has to read it"
_PLAIN_LABEL: Final = re.compile(r"[\w][\w &/+.-]{0,39}")


def rewrite(
    text: str,
    *,
    asked: str,
    domain: str,
    mode: Mode,
    rules: Sequence[CompiledRule],
    detector: CrisisDetector,
    learned: Tone,
) -> SkillOutcome:
    passage = read(text)
    report = detector.detect(text)
    findings = _findings(passage, rules, domain, mode)
    unread = mode == "enhanced" and is_foreign(text)
    if mode == "enhanced" and not report.detected and not unread:
        findings = in_order([*findings, *learned.flagged(passage, findings)])
    done = guarded(passage, () if report.detected else proposed(findings))
    resources = list(RESOURCES) if is_concerning(text, report, mode) else []
    flags = _flags(text, findings, report, resources, mode)
    unjudged = mode == "enhanced" and not findings and _HARSH.search(passage.folded) is not None
    output: dict[str, Any] = {
        "result": done.text if asked == "rewrite" else _summary(len(flags), unread=unread),
        "safety_flags": [*flags, _NOT_READ] if unread else flags,
        "pattern_count": len(flags),
        "review_recommended": bool(flags) or unread,
    }
    if mode != "strict":
        output["crisis_resources"] = resources
    if mode == "enhanced":
        output["edits"] = edit_rows(done.edits, applied=asked == "rewrite")
        # an audit applies nothing, so nothing is reworded in it
        output["flags"] = flag_rows(findings, done if asked == "rewrite" else structs.replace(done, edits=()))
        output["crisis"] = crisis_row(report)
    return SkillOutcome(
        uncertainty="medium"
        if mode != "enhanced"
        else _uncertainty(text, findings, done, report, unjudged=unjudged),
        assumptions=told_at_the_end(
            _assumptions(asked, domain, mode, report, unread=unread, unjudged=unjudged),
            report,
            shown=bool(output.get("crisis_resources")),
        ),
        output=output,
    )


def _findings(passage: Passage, rules: Sequence[CompiledRule], domain: str, mode: Mode) -> list[Finding]:
    if mode != "enhanced":
        rules = [rule for rule in rules if rule.rule.category in _REWORDED_BY_THE_RECORDED]
    return in_order(
        [*find(passage, rules, clinical=is_clinical(domain)), *shortfalls(passage, since=mode == "enhanced")]
    )


def _flags(
    text: str, findings: Sequence[Finding], report: CrisisReport, resources: Sequence[str], mode: Mode
) -> list[str]:
    if mode == "enhanced":
        flags = list(dict.fromkeys(f'{_label(found)}: "{found.text.lower()}"' for found in findings))
    else:
        flags = recorded_flags(text, mode)
    # 0.1.1 has no such flag: there it is raised for a crisis alone, because safety outranks parity
    if report.detected or (mode == "compat" and resources):
        signs = dict.fromkeys(signal.category for signal in report.signals)
        flags.append(f"Crisis indicators detected: {', '.join(signs) or 'wording of distress'}")
    return flags


def _label(found: Finding) -> str:
    return (
        "Possible stigma" if (found.rule, found.category) == (LEARNED, "stigma") else LABELS[found.category]
    )


def _summary(count: int, *, unread: bool) -> str:
    if unread and not count:
        return "Nothing was audited: the text is not in English and was not read. A person has to read it."
    if not count:
        return "Audit complete: no sensitive wording was found. A person should still read the text in its place."
    found = "1 place" if count == 1 else f"{count} places"
    return f"Audit complete: {found} to review before this text is used. See safety_flags."


def _assumptions(
    asked: str, domain: str, mode: Mode, report: CrisisReport, *, unread: bool, unjudged: bool
) -> list[str]:
    shown = domain if _PLAIN_LABEL.fullmatch(domain) else "as given by the caller"
    lines = [
        f"Mode: {asked}",
        f"Domain: {shown}",
        "The rules read English wording; they do not know the person who will read the text",
        "Negations, numbers, names, dates and commitments are kept; what would touch them is only flagged",
    ]
    if unread:
        lines.append("The text is not in English: its wording was not read")
    if unjudged:
        lines.append(
            "Some of its words may be hard to read and no rule judges them here: a person should read it"
        )
    if mode != "strict":
        lines.append(
            "Signs of a crisis were found: a person has to read this before anything is sent"
            if report.detected
            else "Signs of a crisis were looked for; a text without them proves nothing"
        )
    return lines


def _uncertainty(
    text: str, findings: Sequence[Finding], done: Rewrite, report: CrisisReport, *, unjudged: bool
) -> Uncertainty:
    if report.detected:
        return "high"
    return uncertainty_of(text, doubtful=report.mention or unjudged or is_doubtful(findings, done))
