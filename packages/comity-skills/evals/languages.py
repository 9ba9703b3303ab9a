"""`python -m evals.languages`: works out which letters speak for which language and writes them down.

It learns from one half of the sentences of `evals/training`; the other half measures. What is kept are the three letters
in a row that tell most: common ones that some languages have much more often than others.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from math import log
from pathlib import Path

import comity_skills
from comity_skills.reading.latin import threes
from comity_skills.supportive_reply.data import LATIN
from evals.tables.crisis import Half, half_of
from evals.training.packed import files_of

LANGUAGES = ("en", "es", "fr", "de", "pt", "it", "hi")
"""Hindi as people write it in Latin letters."""
KEPT = 3000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_SEEN_BY_CHANCE = 0.5  # how often is counted for what a language does not have


@cache
def sentences(language: str, half: Half) -> tuple[str, ...]:
    return tuple(
        sentence.strip()
        for folder in ("texts", "long_texts")
        for line in files_of(folder)[language].splitlines()
        for text in [json.loads(line)["text"]]
        if half_of(text) == half and 2 * len(_LATIN.findall(text)) > len(text)
        for sentence in _SENTENCE_END.split(text)
    )


def fitted() -> dict[str, list[int]]:
    counts = [Counter(_threes(language)) for language in LANGUAGES]
    sums = [count.total() for count in counts]
    ranked = []
    for three in set().union(*counts):
        often = [
            (count[three] + _SEEN_BY_CHANCE) / (whole + _SEEN_BY_CHANCE)
            for count, whole in zip(counts, sums, strict=True)
        ]
        mean = sum(map(log, often)) / len(often)
        weights = [log(share) - mean for share in often]
        ranked.append((sum(often) * max(map(abs, weights)), three, [round(10 * one) for one in weights]))
    return {
        three: weights
        for _, three, weights in sorted(sorted(ranked, reverse=True)[:KEPT], key=lambda one: one[1])
    }


def _threes(language: str) -> Iterator[str]:
    for sentence in sentences(language, "tune"):
        yield from threes(sentence)


def main() -> None:
    path = Path(next(iter(comity_skills.__path__))) / LATIN
    rows = [
        f" {json.dumps(three, ensure_ascii=False)}: {json.dumps(weights, separators=(',', ':'))}"
        for three, weights in fitted().items()
    ]
    head = f'{{\n"languages": {json.dumps(LANGUAGES)},\n"weights": {{\n'
    path.write_text(head + ",\n".join(rows) + "\n}\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
