"""The audit in our own mode: readability, sentence lengths, hard words and rules set off by words, with places.

Choices are counted where they can be counted: lettered or numbered options, items of one list (of a numbered one
only where people are asked to choose), and a stated number. Formulas are no judgement on a few words. Where nothing
was found, the answer says what was not judged. Uncertainty follows the evidence: high for a short text or another
language than English, low only for a text long enough for the formulas.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final

from msgspec import Struct

from comity_skills.cognitive_accessibility_audit import wording
from comity_skills.cognitive_accessibility_audit.markup import without_markup
from comity_skills.reading.foreign import ForeignScore
from comity_skills.reading.measure import Reading, ReadingData, Scores, measure
from comity_skills.skill import SkillOutcome, Uncertainty
from comity_skills.words.phrases import Phrases
from comity_skills.words.rules import Rule, Rules, Trigger, counted, evidence, quoted
from comity_skills.words.spans import MOST_EVIDENCE, span
from comity_skills.words.tokens import Token

_OPTION: Final = re.compile(
    r"\b(?:option|plan|choice|package|tier|item)[ ]([A-Za-z]|\d{1,3})\b", re.IGNORECASE
)
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*•]|(\(?\d{1,3}[.)])|[a-z][.)])[ \t]+\S", re.MULTILINE)
_CHOOSE: Final = re.compile(
    r"\b(?:choose|choice|choices|option|options|select|pick|decide|which|one of)\b", re.IGNORECASE
)
_INTRODUCTION: Final = 200
_STATED: Final = re.compile(
    r"\b(\d{1,4})[ ](?:\w{1,20}[ ])?(?:options|choices|plans|alternatives|packages|categories|settings)\b",
    re.IGNORECASE,
)
_SHOUTS: Final = re.compile(r"!{2,9}")
_MANY: Final = 7
_LONG: Final = 20
_VERY_LONG: Final = 30
_THEN: Final = re.compile(
    r"\b(?:then|after that|afterwards|next|finally|go to|click|tap|press|select|choose|enter|scroll|open|sign)\b",
    re.IGNORECASE,
)
_STEPS: Final = 4
_NUMBERED: Final = "Write what is to be done one after the other as numbered steps, one action each; put an exception before them."
_LABEL: Final = re.compile(r" (?:tab|button|menu|page|field|section|screen|box|link)\b", re.IGNORECASE)
_HARD_WORD: Final = 5
_EASY: Final = 60.0
_NEARLY: Final = 55.0
_LONG_CHARACTERS: Final = 80
_FULL_STOP: Final = re.compile("[。！？]")  # noqa: RUF001 the stops of Chinese and Japanese
_PARAGRAPH: Final = 150
_NAMED: Final = 8
_MEDICAL: Final = "a medical word: say it in everyday words"
_FEW_TO_JUDGE: Final = 10
_ENGLISH_ONLY: Final = "jargon, link texts and time pressure, which are looked for in English only"
_FEW_WORDS, _MANY_WORDS = 30, 100
_FEW_SENTENCES, _MANY_SENTENCES = 3, 5
_SMOG_SENTENCES: Final = 30


class Knowledge(Struct, frozen=True):
    """What the data files hold, compiled."""

    reading: ReadingData
    rules: Rules
    jargon: Phrases[str]
    idioms: Phrases[str]
    double_negatives: Phrases[str]
    known_long_words: frozenset[str]
    terms: wording.Wording


class _Report(Struct):
    findings: list[str]
    advice: list[str]
    evidence: list[dict[str, Any]]


def audit(sent: str, context: str, known: Knowledge) -> SkillOutcome:
    content = without_markup(sent)
    reading = measure(content, known.reading)
    report = _Report([], [], [])
    if reading.spaced:
        _sentences(content, reading, report)
        _paragraphs(content, reading, report)
    else:
        _characters(content, reading, report)
    if reading.scores is not None:
        if len(reading.words) >= _FEW_TO_JUDGE:
            _level(reading.scores, report)
        _hard_words(content, reading, known, report)
    if reading.foreign is not None and len(reading.words) >= _FEW_TO_JUDGE:
        _foreign_level(reading.foreign, report)
    _jargon(content, reading, known, report)
    _abbreviations(content, reading, known, report)
    _negatives(content, reading, known, report)
    _signs(content, report)
    _choices(content, report)
    triggers = _not_mid_sentence(known.rules.triggers(content, reading.tokens), reading.tokens)
    triggers = list(_pressing(triggers, reading.tokens, known))
    report.evidence += evidence(triggers)
    for found in counted(triggers).values():
        _tell(found, report)
    if report.findings and reading.language == "other":
        report.findings.append(
            f"Not judged: {'' if reading.foreign else 'how hard the words are; '}{_ENGLISH_ONLY}."
        )
    return SkillOutcome(
        uncertainty=_uncertainty(reading),
        assumptions=_assumptions(context, reading),
        output={
            "findings": report.findings or [_nothing_found(reading)],
            "recommendations": [
                *dict.fromkeys(report.advice),
                "Try the content with people of different reading habits and cognitive needs.",
            ],
            "readability": _numbers(reading),
            "evidence": [
                {**each, **span(each["issue"], sent[each["start"] : each["end"]], each["start"], each["end"])}
                for each in sorted(report.evidence, key=lambda each: each["start"])[:MOST_EVIDENCE]
            ],
        },
    )


def _not_mid_sentence(triggers: list[Trigger], words: Sequence[Token]) -> list[Trigger]:
    """Without `read more` in `read more books`: words that go on in the sentence are no text of a link."""
    follows = {one.end: two for one, two in pairwise(words)}
    kept = []
    for trigger in triggers:
        after = follows.get(trigger.end)
        goes_on = after is not None and after.joined and not trigger.text.lower().endswith(("here", "link"))
        if trigger.rule.id != "ambiguous_link" or not goes_on:
            kept.append(trigger)
    return kept


def _pressing(triggers: list[Trigger], words: Sequence[Token], known: Knowledge) -> Iterator[Trigger]:
    """Without the haste of a warning: who tells people to leave a burning house at once does not press them."""
    haste = wording.Haste(words, known.terms)
    at = {word.start: place for place, word in enumerate(words)} if triggers else {}
    for trigger in triggers:
        if trigger.rule.id != "time_pressure" or not haste.is_due(trigger.text, at[trigger.start]):
            yield trigger


def _negatives(content: str, reading: Reading, known: Knowledge, report: _Report) -> None:
    found = [(each.start, each.end, each.meaning) for each in known.double_negatives.find(reading.tokens)]
    taken = {end for _, end, _ in found}
    found += [each for each in wording.negatives(reading.tokens) if each[1] not in taken]
    _plainer("double_negative", "Double negatives or conditions turned round", sorted(found), content, report)
    if found:
        report.advice.append("Say it the positive way round: what is so, what to do, and when.")


def _tell(found: list[Trigger], report: _Report) -> None:
    rule: Rule = found[0].rule
    report.findings.append(f"{rule.finding}: {quoted(found)}.")
    report.advice += rule.advice


def _sentences(content: str, reading: Reading, report: _Report) -> None:
    over = [
        (sentence, count)
        for sentence, count in zip(reading.sentences, reading.words_per_sentence, strict=True)
        if count > _LONG
    ]
    if not over:
        return
    longest = max(count for _, count in over)
    very = sum(count > _VERY_LONG for _, count in over)
    if len(over) == 1:
        told = f"has more than {_LONG} words: {longest}"
    else:
        told = f"have more than {_LONG} words{f', {very} of them more than {_VERY_LONG}' if very else ''}; the longest has {longest}"
    report.findings.append(f"{len(over)} of {_sentence_count(reading)} {told}.")
    report.advice.append(f"Split sentences of more than {_LONG} words; one idea in each.")
    if any(len(_THEN.findall(content, one.start, one.end)) >= _STEPS for one, _ in over):
        report.advice.append(_NUMBERED)
    for sentence, count in over[:MOST_EVIDENCE]:
        issue = "very_long_sentence" if count > _VERY_LONG else "long_sentence"
        report.evidence.append(
            span(issue, content[sentence.start : sentence.end], sentence.start, sentence.end)
        )


def _characters(content: str, reading: Reading, report: _Report) -> None:
    """Sentences of a script without spaces, where full stops mark them."""
    if not _FULL_STOP.search(content):
        return
    sizes = [
        sum(letter.isalnum() for letter in content[sentence.start : sentence.end])
        for sentence in reading.sentences
    ]
    over = [
        sentence for sentence, size in zip(reading.sentences, sizes, strict=True) if size > _LONG_CHARACTERS
    ]
    if not over:
        return
    verb = "has" if len(over) == 1 else "have"
    report.findings.append(
        f"{len(over)} of {_sentence_count(reading)} {verb} more than {_LONG_CHARACTERS} characters; the longest has "
        f"{max(sizes)}."
    )
    report.advice.append("Split very long sentences; one idea in each.")
    report.evidence += [
        span("long_sentence", content[one.start : one.end], one.start, one.end)
        for one in over[:MOST_EVIDENCE]
    ]


def _sentence_count(reading: Reading) -> str:
    return "1 sentence" if len(reading.sentences) == 1 else f"{len(reading.sentences)} sentences"


def _level(scores: Scores, report: _Report) -> None:
    if scores.flesch_reading_ease < _EASY:
        begins = (
            "A little harder to read than the aim"
            if scores.flesch_reading_ease >= _NEARLY
            else "Hard to read"
        )
        report.findings.append(
            f"{begins}: Flesch reading ease {scores.flesch_reading_ease} (aim at {_EASY:.0f} or more), "
            f"Flesch-Kincaid grade {scores.flesch_kincaid_grade}."
        )
        report.advice.append("Use shorter words and sentences until the reading ease is 60 or more.")


def _foreign_level(found: ForeignScore, report: _Report) -> None:
    if found.score < found.easy:
        report.findings.append(
            f"Hard to read in {found.language.capitalize()}: {found.formula} {found.score} of 100 (aim at "
            f"{found.easy:.0f} or more)."
        )
        report.advice.append(
            "Use shorter words and sentences, verbs instead of nouns, and one idea in a sentence."
        )


def _nothing_found(reading: Reading) -> str:
    if not any(letter.isalpha() for token in reading.tokens for letter in token.word):
        return "There is nothing to judge: the content holds no words."
    if reading.language == "english":
        return "No barrier was found. That is no proof that there is none."
    if not reading.spaced:
        return (
            "Not judged: how hard the words are, and how long the sentences and blocks are. No formula that is known here fits "
            "the language, and words cannot be counted in a script without spaces."
        )
    if reading.foreign is not None and len(reading.words) >= _FEW_TO_JUDGE:
        return (
            f"No barrier was found by the formula for {reading.foreign.language.capitalize()} and the lengths of sentences "
            f"and blocks. Not judged: {_ENGLISH_ONLY}."
        )
    if reading.language == "unknown":
        why = "the language cannot be told from so little text"
    elif reading.foreign is not None:
        why = "the text is too short for a formula"
    else:
        why = "no formula that is known here fits the text"
    return (
        f"Not judged: how hard the words are ({why}); {_ENGLISH_ONLY}. No sentence has more than {_LONG} words, and no "
        f"block more than {_PARAGRAPH}."
    )


def _hard_words(content: str, reading: Reading, known: Knowledge, report: _Report) -> None:
    hard = [
        word
        for word in reading.words
        if word.syllables >= _HARD_WORD
        and content[word.start : word.end].lower() not in known.known_long_words
    ]
    if not hard:
        return
    names = list(dict.fromkeys(content[word.start : word.end].lower()[:40] for word in hard))
    report.findings.append(f"Words of five or more syllables: {_some(names)}.")
    report.advice.append("Replace very long words, or explain them where they first appear.")
    report.evidence += [
        span("long_word", content[word.start : word.end], word.start, word.end)
        for word in hard[:MOST_EVIDENCE]
    ]


def _jargon(content: str, reading: Reading, known: Knowledge, report: _Report) -> None:
    jargon = [
        (each.start, each.end, each.meaning)
        for each in known.jargon.find(reading.tokens)
        if not _LABEL.match(content, each.end)
    ]
    taken = {start for start, _, _ in jargon}
    if reading.language == "english":
        rare = wording.medical_words(reading.tokens)
        jargon += [(word.start, word.end, _MEDICAL) for word in rare if word.start not in taken]
    _plainer("jargon", "Jargon, with a plainer wording", sorted(jargon), content, report)
    if jargon:
        report.advice.append("Put everyday words in the place of jargon, or explain it in a glossary.")
    idioms = [(each.start, each.end, each.meaning) for each in known.idioms.find(reading.tokens)]
    _plainer("idiom", "Figures of speech, with plain words", idioms, content, report)
    if idioms:
        report.advice.append("Say literally what is meant: not everybody can guess a figure of speech.")


def _plainer(
    issue: str, finding: str, found: Sequence[tuple[int, int, str]], content: str, report: _Report
) -> None:
    if not found:
        return
    plain = {" ".join(content[start:end].lower().split()): meaning for start, end, meaning in found}
    report.findings.append(f"{finding}: {_some([_with(word, said) for word, said in plain.items()])}.")
    report.evidence += [
        {**span(issue, content[start:end], start, end), "suggestion": meaning}
        for start, end, meaning in found[:MOST_EVIDENCE]
    ]


def _abbreviations(content: str, reading: Reading, known: Knowledge, report: _Report) -> None:
    found = wording.abbreviations(content, reading.tokens, known.terms)
    if found:
        names = {content[start:end]: meaning for (start, end), meaning in found}
        listed = [_with(name, meaning) if meaning else name for name, meaning in names.items()]
        report.findings.append(f"Abbreviations that are not spelled out: {_some(listed)}.")
        report.advice.append("Spell an abbreviation out where it first appears.")
    for (start, end), meaning in found[:MOST_EVIDENCE]:
        place = span("abbreviation", content[start:end], start, end)
        report.evidence.append({**place, "suggestion": meaning} if meaning else place)


def _signs(content: str, report: _Report) -> None:
    """Capitals, codes and dates: hard to read in any language."""
    if wording.is_shouted(content):
        report.findings.append("Written in capitals: the shapes of the words are lost.")
        report.advice.append("Write in sentence case; make what matters bold.")
    for issue, finding, advice, places in (
        (
            "code",
            "Codes that tell people nothing",
            "Say in words what happened and what to do next; keep the code for the support team at the end.",
            wording.codes(content),
        ),
        (
            "ambiguous_date",
            "Dates that can be read in two ways",
            "Write the month as a word: 3 April 2025.",
            wording.dates_of_two_readings(content),
        ),
        (
            "exclamation",
            "Rows of exclamation marks",
            "Say calmly what matters, and end with a full stop.",
            [match.span() for match in islice(_SHOUTS.finditer(content), MOST_EVIDENCE)],
        ),
    ):
        if places:
            named = dict.fromkeys(content[start:end] for start, end in places)
            report.findings.append(f"{finding}: {_some(list(named))}.")
            report.advice.append(advice)
            report.evidence += [span(issue, content[start:end], start, end) for start, end in places]


def _with(word: str, plain: str) -> str:
    return f"{word} {plain}" if plain.startswith("(") else f"{word} ({plain})"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _choices(content: str, report: _Report) -> None:
    places = [*_named_options(content), *_long_lists(content), *_stated(content)]
    if not places:
        return
    most = max(count for count, _, _ in places)
    report.findings.append(f"Many choices at once: {most}, more than {_MANY}.")
    report.advice.append(
        f"Show at most {_MANY} choices at a time: group them, recommend one, hide the rare ones."
    )
    report.evidence += [
        span("too_many_choices", content[start:end], start, end) for _, start, end in places[:MOST_EVIDENCE]
    ]


def _named_options(content: str) -> Iterator[tuple[int, int, int]]:
    matches = list(_OPTION.finditer(content))
    count = len({match[1].casefold() for match in matches})
    if count > _MANY:
        yield count, matches[0].start(), matches[-1].end()


def _long_lists(content: str) -> Iterator[tuple[int, int, int]]:
    run: list[re.Match[str]] = []
    for match in _BULLET.finditer(content):
        if run and "\n\n" in content[run[-1].end() : match.start()]:
            yield from _choices_of(run, content)
            run = []
        run.append(match)
    yield from _choices_of(run, content)


def _choices_of(run: list[re.Match[str]], content: str) -> Iterator[tuple[int, int, int]]:
    """A numbered list is a row of steps, unless what stands before it asks to choose."""
    if len(run) <= _MANY:
        return
    before = content[max(0, run[0].start() - _INTRODUCTION) : run[0].start()]
    if not run[0][1] or _CHOOSE.search(before):
        yield len(run), run[0].start(), run[-1].end()


def _stated(content: str) -> Iterator[tuple[int, int, int]]:
    for match in _STATED.finditer(content):
        if int(match[1]) > _MANY:
            yield int(match[1]), match.start(), match.end()


def _paragraphs(content: str, reading: Reading, report: _Report) -> None:
    edges = [0, *(match.end() for match in re.finditer(r"\n\s*\n|\n(?=[ \t]*(?:[-*•]|\d+[.)])\s)", content))]
    at = 0
    for start, end in zip(edges, [*edges[1:], len(content)], strict=True):
        count = 0
        while at < len(reading.words) and reading.words[at].start < end:
            count += 1
            at += 1
        if count > _PARAGRAPH:
            report.findings.append(f"A block of {count} words without a break.")
            report.advice.append("Break long blocks into short paragraphs or lists under headings.")
            report.evidence.append(span("long_block", content[start:end], start, end))
            return


def _uncertainty(reading: Reading) -> Uncertainty:
    words, count = len(reading.words), len(reading.sentences)
    if reading.language == "other" or words < _FEW_WORDS or count < _FEW_SENTENCES:
        return "high"
    settled = reading.language == "english" and words >= _MANY_WORDS and count >= _MANY_SENTENCES
    return "low" if settled else "medium"


def _assumptions(context: str, reading: Reading) -> list[str]:
    lines = [f"Context: {context}", _counted(reading)]
    if reading.foreign is not None:
        lines.append(
            f"The text is {reading.foreign.language.capitalize()}: its own formula ({reading.foreign.formula}) is used; "
            "the word lists hold for English only."
        )
    elif reading.language == "other":
        lines.append("The text is not English: no formula was used, and the word lists are English.")
    elif reading.language == "unknown":
        lines.append("Too little text to tell the language: no formula is used; the word lists are English.")
    if reading.scores is not None and len(reading.sentences) < _SMOG_SENTENCES:
        lines.append("SMOG was made for 30 sentences or more; on fewer it is a rough guide.")
    lines.append("Formulas count; only readers can say whether they understand.")
    return lines


def _counted(reading: Reading) -> str:
    if not reading.spaced:
        return f"{len(reading.sentences)} sentences; words cannot be counted in a script without spaces."
    return f"{len(reading.words)} words in {len(reading.sentences)} sentences."


def _numbers(reading: Reading) -> dict[str, Any]:
    """Null for what cannot be counted."""
    counts, scores, spaced = reading.words_per_sentence, reading.scores, reading.spaced
    return {
        "language": reading.foreign.language if reading.foreign is not None else reading.language,
        "words": len(reading.words) if spaced else None,
        "sentences": len(reading.sentences),
        "words_per_sentence": (
            round(len(reading.words) / max(len(reading.sentences), 1), 1) if spaced else None
        ),
        "sentences_over_20_words": sum(count > _LONG for count in counts) if spaced else None,
        "sentences_over_30_words": sum(count > _VERY_LONG for count in counts) if spaced else None,
        **{name: getattr(scores, name, None) for name in Scores.__struct_fields__},
        **(
            {"formula": reading.foreign.formula, "ease": reading.foreign.score}
            if reading.foreign is not None
            else {}
        ),
    }
