"""What a message is about, as far as its words tell: a topic or a feeling, and in which language.

- A *feeling* (fear, anger, shame, tiredness, loneliness, sadness, joy) and the great losses speak for themselves. A
  *situation* (work, an exam, money, illness, the family) asks for support only beside a feeling, or said twice.
- Joy gives way to any other feeling in the same message.
- The words are data. All languages are looked up in one pass over the folded text.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from comity.skills.crisis.disguise import Vocabulary
from comity.skills.crisis.folding import fold, fold_phrase, has_unspaced
from comity.skills.crisis.lexicon import expand
from comity.skills.crisis.lookup import Lookup

_FEELINGS: Final = ("grief", "breakup", "job_loss", "lonely", "anxious", "angry", "tired", "ashamed", "sad")
_SITUATIONS: Final = ("job", "exam", "money", "illness", "family")
_NO_WORDS: Final = Vocabulary(())


class Topic(Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]
    reply: str


class TopicsFile(Struct, frozen=True, forbid_unknown_fields=True):
    written: str
    languages: Mapping[str, Mapping[str, Topic]]


class About(NamedTuple):
    language: str
    topic: str


class Topics:
    def __init__(self, file: bytes) -> None:
        self._content = file

    @cached_property
    def _file(self) -> TopicsFile:
        return msgspec.json.decode(self._content, type=TopicsFile)

    @cached_property
    def _words(self) -> Lookup[tuple[str, Sequence[About]]]:
        meanings: dict[str, set[About]] = defaultdict(set)
        for language, topics in self._file.languages.items():
            for name, topic in topics.items():
                for wording in (one for phrase in topic.words for one in expand(phrase)):
                    words = fold_phrase(wording)
                    unspaced = has_unspaced(words)
                    meanings[words.replace(" ", "") if unspaced else f" {words} "].add(About(language, name))
        return Lookup({pattern: (pattern, tuple(sorted(found))) for pattern, found in meanings.items()})

    def about(self, text: str) -> About | None:
        """The topic that most words speak of, in the language that most of them are in."""
        said: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for _, (pattern, found) in self._words.find(fold(text, _NO_WORDS)):
            for language, name in found:
                said[language][name].add(pattern)
        if not said:
            return None
        language = max(said, key=lambda one: sum(map(len, said[one].values())))
        topic = _chosen({name: len(words) for name, words in said[language].items()})
        return About(language, topic) if topic else None

    def reply(self, language: str, topic: str) -> str:
        return (self._file.languages.get(language) or self._file.languages["en"])[topic].reply


def _chosen(counts: Mapping[str, int]) -> str | None:
    felt = [name for name in _FEELINGS if name in counts]
    named = [name for name in _SITUATIONS if counts.get(name, 0) > (0 if felt else 1)]
    if not felt and not named:
        return "joy" if "joy" in counts else None
    if "joy" in counts and counts["joy"] > sum(counts[name] for name in felt):
        return "joy"
    # the situation says more than the mere feeling; among equals the first listed
    losses = [name for name in ("grief", "breakup", "job_loss") if name in felt]
    return max([*losses, *named, *felt], key=counts.__getitem__)
