"""Rules about wording, written as data: what is looked for, when it counts, and what stands in its place.

- `match` is an expression on the folded text, without regard to capitals; it names whole words by itself.
- A rule counts only where its context allows: `needs` and `unless` look at the sentence around the match,
  `before`, `unless_before` and `unless_after` at the words next to it.
- A rule without `replace` only flags, and offers its `alternative` to whoever edits the text by hand. So does one whose neighbours are not those that `reword_before` and
  `reword_after` ask for: there the replacement would not be grammatical, or would say more. `{1}` in a replacement
  or an alternative stands for the first group as it was written.
- In a quotation a rule flags with severity low and proposes nothing: the words are somebody else's.
- Where the sentence has rejected the wording before it comes (`don't tell them to cheer up`), the rules of the
  categories in `rejectable` that only flag are silent: it is not what the writer says.
- A rule marked `clinical: skip` is silent when the text is of a clinical domain, where its words are terms.
- Each rule reports at most `FINDINGS_PER_RULE` places, which keeps an answer smaller than a hostile question.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, json

from comity_skills.editing.edits import Edit, Severity, match_case
from comity_skills.editing.passage import Passage

FINDINGS_PER_RULE = 50

_BESIDE = 48
_AROUND = 300
_TERM = re.compile(r"%(\w+)%")
_NOTHING = re.compile(r"(?!)")
_GROUP = re.compile(r"\{(\d)\}")
_CLINICAL = re.compile(
    r"\b(?:clinical|clinic|clinician|medical|medicine|hospital|psychiatr\w{0,4}|nursing|pharmac\w{0,6}|diagnostic)",
    re.IGNORECASE,
)


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    category: str
    severity: Severity
    match: str
    reason: str
    replace: str | None = None
    alternative: str = ""
    needs: str = ""
    unless: str = ""
    before: str = ""
    unless_before: str = ""
    unless_after: str = ""
    reword_before: str = ""
    reword_after: str = ""
    clinical: Literal["keep", "skip"] = "keep"


class Ruleset(Struct, frozen=True, kw_only=True):
    """A data file of rules. `sources` says where the wording comes from, `written` when it was last changed.
    `%name%` in an expression stands for the expression that `terms` gives under the name.
    """

    sources: Sequence[str]
    written: str
    rules: Sequence[Rule]
    terms: Mapping[str, str] = {}
    rejected: str = ""
    rejectable: Sequence[str] = ()


class Finding(Struct, frozen=True, kw_only=True):
    """A place that a rule found. Without `replacement` it is a matter for a person."""

    rule: str
    category: str
    severity: Severity
    start: int
    end: int
    text: str
    reason: str
    quoted: bool = False
    replacement: str | None = None
    alternative: str = ""


class CompiledRule(Struct, frozen=True, kw_only=True):
    rule: Rule
    match: re.Pattern[str]
    needs: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    before: re.Pattern[str] | None
    unless_before: re.Pattern[str] | None
    unless_after: re.Pattern[str] | None
    reword_before: re.Pattern[str] | None
    reword_after: re.Pattern[str] | None
    rejected: re.Pattern[str] | None


def ruleset(data: bytes) -> Ruleset:
    return json.decode(data, type=Ruleset)


def compiled(rules: Ruleset) -> tuple[CompiledRule, ...]:
    def expression(source: str, shape: str = "{}") -> re.Pattern[str] | None:
        if not source:
            return None
        whole = _TERM.sub(lambda name: rules.terms[name[1]], source)
        return re.compile(shape.format(whole), re.IGNORECASE)

    rejected = expression(rules.rejected)
    return tuple(
        CompiledRule(
            rule=rule,
            match=expression(rule.match) or _NOTHING,
            needs=expression(rule.needs),
            unless=expression(rule.unless),
            before=expression(rule.before, r"(?:{})\s*$"),
            unless_before=expression(rule.unless_before, r"(?:{})\s*$"),
            unless_after=expression(rule.unless_after, r"\s*(?:{})"),
            reword_before=expression(rule.reword_before, r"(?:{})\s*$"),
            reword_after=expression(rule.reword_after, r"\s*(?:{})"),
            rejected=rejected if rule.replace is None and rule.category in rules.rejectable else None,
        )
        for rule in rules.rules
    )


def is_clinical(domain: str) -> bool:
    return bool(_CLINICAL.search(domain))


def find(passage: Passage, rules: Iterable[CompiledRule], *, clinical: bool = False) -> list[Finding]:
    """What the rules find, in the order of the text."""
    found: list[Finding] = []
    for rule in rules:
        if clinical and rule.rule.clinical == "skip":
            continue
        places = 0
        for match in rule.match.finditer(passage.folded):
            start, end = match.span()
            if passage.is_link(start, end) or not _applies(rule, passage, start, end):
                continue
            found.append(_finding(rule, passage, match))
            places += 1
            if places == FINDINGS_PER_RULE:
                break
    return in_order(found)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """In the order of the text. What lies inside another finding of its category is not told twice."""
    told: list[Finding] = []
    reached: dict[str, int] = {}
    for finding in sorted(findings, key=lambda finding: (finding.start, -finding.end)):
        if finding.end > reached.get(finding.category, -1):
            told.append(finding)
            reached[finding.category] = finding.end
    return told


def proposed(findings: Iterable[Finding]) -> list[Edit]:
    """The edits that findings propose."""
    return [
        Edit(
            start=finding.start,
            end=finding.end,
            original=finding.text,
            replacement=finding.replacement,
            reason=finding.reason,
            category=finding.category,
            severity=finding.severity,
        )
        for finding in findings
        if finding.replacement is not None and finding.replacement != finding.text
    ]


def _applies(rule: CompiledRule, passage: Passage, start: int, end: int) -> bool:
    text = passage.folded
    first, last = passage.sentence_at(start)
    if rule.rejected and rule.rejected.search(text[max(first, start - _AROUND) : start]):
        return False
    if rule.needs or rule.unless:
        sentence = text[max(first, start - _AROUND) : min(max(last, end), end + _AROUND)]
        if rule.needs and not rule.needs.search(sentence):
            return False
        if rule.unless and rule.unless.search(sentence):
            return False
    if rule.before or rule.unless_before:
        earlier = text[max(0, start - _BESIDE) : start]
        if rule.before and not rule.before.search(earlier):
            return False
        if rule.unless_before and rule.unless_before.search(earlier):
            return False
    return not (rule.unless_after and rule.unless_after.match(text, end, end + _BESIDE))


def _finding(compiled_rule: CompiledRule, passage: Passage, match: re.Match[str]) -> Finding:
    rule = compiled_rule.rule
    start, end = match.span()
    text = passage.text[start:end]
    quoted = passage.is_quoted(start, end)
    replacement = None
    if rule.replace is not None and not quoted and _rewords(compiled_rule, passage.folded, start, end):
        replacement = match_case(text, _filled(rule.replace, passage, match))
    return Finding(
        rule=rule.id,
        category=rule.category,
        severity="low" if quoted else rule.severity,
        start=start,
        end=end,
        text=text,
        reason=rule.reason,
        quoted=quoted,
        replacement=replacement,
        alternative=_filled(rule.alternative or rule.replace or "", passage, match),
    )


def _filled(template: str, passage: Passage, match: re.Match[str]) -> str:
    """The replacement with the words of the text in it, whether or not it is applied."""
    return _GROUP.sub(
        lambda group: _group(passage.text, match, int(group[1]), leads=group.start() == 0), template
    )


def _rewords(rule: CompiledRule, text: str, start: int, end: int) -> bool:
    if rule.reword_before and not rule.reword_before.search(text[max(0, start - _BESIDE) : start]):
        return False
    return not rule.reword_after or rule.reword_after.match(text, end) is not None


def _group(text: str, match: re.Match[str], number: int, *, leads: bool) -> str:
    """The group as it was written; what opened the match and no longer does loses the capital of its place."""
    start, end = match.span(number)
    group = text[start:end] if start >= 0 else ""
    if start == match.start() and not leads and group[1:].islower():
        return group.lower()
    return group
