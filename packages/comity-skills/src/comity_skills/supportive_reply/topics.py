"""Which topic a message is about.

- A *loss*, an *event* (a relapse, an eviction, a quarrel) and a *feeling* speak for themselves. A *situation* (work, an
  exam, money) asks for support only beside one of them, or said twice. A loss outweighs the others.
- A relative alone is no topic: illness beside one is that of the relative, a quarrel beside one is one in the family. A
  death that follows an animal is that of the animal.
- Joy, pride and thanks are the writer's own: they are not read from quotations, from a sentence with a doubt, from what a
  `but` takes back. News is joy where it is celebrated. Joy gives way to trouble, unless more words speak of joy.
- An illness that is over (`the biopsy was benign`) is relief, and the words of illness beside it are no trouble.
- What is denied (`not sad`) is no topic. A year without any person is history.
"""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from comity_skills.supportive_reply.wordings import Mark, Marks, Said, last_before

DEATHS: Final = ("child_loss", "grief", "pet_loss")
GLAD: Final = ("relief", "joy", "pride", "thanks")
LIGHT: Final = (*GLAD, "small_talk")
SITUATIONS: Final = ("job", "exam", "money")
_LOSSES: Final = (*DEATHS, "harmed", "breakup", "job_loss")
_ENDINGS: Final = frozenset(("breakup", "job_loss"))
_EVENTS: Final = (
    "relapse", "coming_out", "bullied", "burnout", "home", "sick_child", "own_illness", "ill_relative", "health_worry",
    "unrequited", "failure", "family", "quarrel",
)  # fmt: skip
ILL: Final = frozenset(("illness", "own_illness", "ill_relative", "health_worry", "sick_child"))
_FEELINGS: Final = (
    "jealous", "lonely", "moving", "overwhelmed", "anxious", "angry", "tired", "ashamed", "sad",
)  # fmt: skip
_PEOPLE: Final = ("self", "we", "family", "friends")
_CHEERFUL: Final = re.compile("[🎉🥳🎊🎈🍾🙌😍🤩😊😁💃🎓😂🤣😄😃😀😆]")
_CELEBRATED: Final = re.compile("!!|！！|[🎉🥳🎊🎈🍾🙌😍🤩😊😁💃🎓]")  # noqa: RUF001
_WEPT: Final = re.compile("[😭😢💔😞😔🥺😥😿]|[ㅠㅜ]{2}")
_QUOTED: Final = re.compile(
    "|".join(
        f"{first}[^{first}{last}]{{0,500}}{last}"
        for first, last in ('""', "“”", "„“", "„”", "«»", "»«", "「」", "『』")
    )
)
_LAUGHS: Final = re.compile(
    r"\b(?:(?:ha|ja|he|rs|hi){2,}[hj]?|k{3,}|lol|lmao|rofl|mdr|ptdr|xd)\b|哈哈|ㅋㅋ|ㅎㅎ|[wｗ]{3}(?!\.)|[(（]笑|ههه|हाहा|[😂🤣]",  # noqa: RUF001
    re.IGNORECASE,
)
_MUCH: Final = re.compile(
    r"\b(?!(?:19|20)\d\d\b)\d{4,7}\b|\b\d{1,3}[., ]\d{3}\b|\b\d{1,3} ?(?:k|grand|thousand|tausend|mil|mila|mille|lakh|lac|हज़ार|हजार|लाख|ألف|آلاف)\b"
)
_YEAR: Final = re.compile(r" (?:1\d\d\d|20[01]\d) ")
_TWICE: Final = 2  # what happened counts more than the fear before it, or what is to be paid
_REACH: Final = 200  # characters that one word of joy speaks for
_FAR: Final = 30  # characters that are more than two words

Counts = dict[str, int]


def is_celebrated(text: str) -> bool:
    return _CELEBRATED.search(text) is not None


def has_cheerful_sign(text: str) -> bool:
    return _CHEERFUL.search(text) is not None


def is_laughing(text: str) -> bool:
    return _LAUGHS.search(text) is not None


def is_wept(text: str) -> bool:
    return _WEPT.search(text) is not None


def unquoted(text: str) -> str:
    """Without what others say; a text that is nothing but a quotation stays."""
    rest = _QUOTED.sub(" ", text)
    return rest if any(map(str.isalnum, rest)) else text


def topic_of(said: Said, own: Said, language: str, text: str) -> str | None:
    """`own` is what was found in the text without its quotations."""
    marks = said.marks(language)
    if not any(marks.get(name) for name in (*_PEOPLE, "owing", "healed")) and (
        marks.get("matters") or _YEAR.search(said.text)
    ):
        return None
    glad = _glad(own, own.marks(language), celebrated=is_celebrated(text))
    troubles = _troubles(said, marks, turned=_turn(marks) if glad else 0, much=_MUCH.search(text) is not None)
    if glad and troubles.keys() == {"sad"} and is_celebrated(text):
        troubles = {}  # tears of joy
    healed = glad.pop("healed", 0)
    if healed and not any(name in troubles for name in _LOSSES):
        troubles = {name: count for name, count in troubles.items() if name not in ILL}
        glad["relief"] = glad.get("relief", 0) + _TWICE * healed
    topic = _chosen(troubles, glad)
    return "sad" if topic is None and is_wept(text) and not is_celebrated(text) else topic


def speaks_of_death(said: Said, language: str) -> bool:
    marks = said.marks(language)
    history = _YEAR.search(said.text) and not any(marks.get(name) for name in _PEOPLE)
    return not history and bool(_counts(said, marks, DEATHS))


def _chosen(troubles: Counts, glad: Counts) -> str | None:
    happy = {name: count for name, count in glad.items() if name != "thanks"}
    felt = [name for name in (*_LOSSES, *_EVENTS, *_FEELINGS) if name in troubles]
    named = [name for name in (*SITUATIONS, "illness") if troubles.get(name, 0) > (0 if felt else 1)]
    if not felt and not named:
        return max(glad, key=glad.__getitem__, default=None)
    if happy and _ENDINGS.intersection(felt) and _ENDINGS.issuperset(felt):
        return "relief"
    if sum(happy.values()) > sum(troubles[name] for name in felt):
        return max(happy, key=happy.__getitem__)
    losses = [name for name in _LOSSES if name in troubles]
    # what happened says more than the mere feeling; among equals the first listed
    rest = [name for name in (*_EVENTS, *named, *_FEELINGS) if name in troubles]
    topic = losses[0] if losses else max(rest, key=troubles.__getitem__)
    return "illness" if topic == "own_illness" else topic


def _troubles(said: Said, marks: Marks, *, turned: int, much: bool) -> Counts:
    """Feelings that a turn to joy leaves behind, and those of other people, do not count. `much` says that there is a large
    number: who owes so much has debts.
    """
    relatives, friends = marks.get("family", ()), marks.get("friends", ())
    people = sorted([*relatives, *friends, *marks.get("others", ())], key=attrgetter("end"))
    felt = {
        name: [
            mark
            for mark in marks.get(name, ())
            if mark.start >= turned and not _is_of_another(said, mark, people, marks.get("self", ()))
        ]
        for name in _FEELINGS
    }
    worries = marks.get("health_worry", ())
    theirs = {mark for mark in worries if _is_of_another(said, mark, people, marks.get("self", ()))}
    kept = {
        **marks,
        **felt,
        "health_worry": [mark for mark in worries if mark not in theirs],
        "ill_relative": [*marks.get("ill_relative", ()), *theirs],
        **_deaths(said, marks),
    }
    names = (*_LOSSES, *_EVENTS, *SITUATIONS, "illness", *_FEELINGS)
    counts = _counts(said, kept, names)
    if _counts(said, marks, ("owing",)) or (much and marks.get("owes")):
        counts["money"] = counts.get("money", 0) + _TWICE
    ill, quarrel = marks.get("illness", ()), marks.get("quarrel", ())
    counts.pop("family", None)
    if (
        ill
        and "own_illness" not in counts
        and _are_near(said, ill, [*relatives, *friends, *marks.get("pets", ())])
    ):
        counts["ill_relative"] = counts.get("ill_relative", 0) + counts.pop("illness", 0)
    if "quarrel" in counts and _are_near(said, quarrel, relatives):
        counts["family"] = counts.pop("quarrel")
    return {name: count for name, count in counts.items() if count}


def _deaths(said: Said, marks: Marks) -> dict[str, Sequence[Mark]]:
    """Of people, and of animals: a death is that of the one named last before it, else of the one that its sentence names."""
    pets = marks.get("pets", ())
    if not pets:
        return {}
    named = sorted((*marks.get("family", ()), *marks.get("friends", ())), key=attrgetter("end"))
    with_people, with_pets = ({said.sentence(mark) for mark in some} for some in (named, pets))

    def is_of_pet(mark: Mark) -> bool:
        place = said.sentence(mark)
        pet, person = last_before(pets, mark.start), last_before(named, mark.start)
        if pet is None or said.sentence(pet) != place:
            return place in with_pets and place not in with_people
        return person is None or person.end < pet.end

    people: list[Mark] = []
    animals = list(marks.get("pet_loss", ()))
    for mark in marks.get("grief", ()):
        (animals if is_of_pet(mark) else people).append(mark)
    return {"grief": people, "pet_loss": animals}


def _glad(own: Said, marks: Marks, *, celebrated: bool) -> Counts:
    turn = _turn(marks)
    doubted = {own.sentence(mark) for mark in marks.get("doubts", ())}
    kept: dict[str, Sequence[Mark]] = {
        name: [
            mark for mark in marks.get(name, ()) if mark.start >= turn and own.sentence(mark) not in doubted
        ]
        for name in (*GLAD, "news", "healed")
    }
    kept["healed"] = [mark for mark in kept["healed"] if not own.asks(mark)]
    counts = _counts(own, {**kept, "nots": marks.get("nots", ())}, tuple(kept))
    news = counts.pop("news", 0)
    if news and (celebrated or "joy" in counts):
        counts["joy"] = counts.get("joy", 0) + news
    # one word of thanks in a long letter is not what the letter is about
    return counts if sum(counts.values()) * _REACH >= len(own.text) else {}


def _turn(marks: Marks) -> int:
    """Where the last `but` ends."""
    return max((mark.end for mark in marks.get("but", ())), default=0)


def _counts(said: Said, marks: Marks, names: Sequence[str]) -> Counts:
    """How many different wordings of each there are that nothing denies."""
    denials = marks.get("nots", ())
    counts = {
        name: len(
            {
                mark.wording
                for mark in _outer(marks.get(name, ()))
                if not _is_just_before(said, last_before(denials, mark.start), mark, 1)
            }
        )
        for name in names
    }
    return {name: count for name, count in counts.items() if count}


def _outer(marks: Sequence[Mark]) -> list[Mark]:
    """Without those that lie within another one (`crying` in `can't stop crying`)."""
    kept: list[Mark] = []
    for mark in sorted(marks, key=lambda one: (-one.end, one.start)):
        if not kept or mark.start < kept[-1].start:
            kept.append(mark)
    return kept


def _is_of_another(said: Said, mark: Mark, people: Sequence[Mark], own: Sequence[Mark]) -> bool:
    """`my sister is sad`, and not `I told her I am sad`."""
    other, writer = last_before(people, mark.start), last_before(own, mark.start)
    if other is None or (writer is not None and writer.end > other.end):
        return False
    return _is_just_before(said, other, mark, 2)


def _is_just_before(said: Said, before: Mark | None, mark: Mark, most: int) -> bool:
    """With at most so many words between (or characters, where there are no blanks), and no stop."""
    if before is None:
        return False
    between = said.text[before.end : mark.start][:_FAR]
    if len(between) == _FAR or any(stop in between for stop in ",.!?;:\n"):
        return False
    return len(between.split()) <= most if " " in between else len(between) <= most


def _are_near(said: Said, some: Sequence[Mark], others: Sequence[Mark]) -> bool:
    """In one sentence or in the next."""
    places = {said.sentence(mark) for mark in others}
    return any(places & {at - 1, at, at + 1} for at in map(said.sentence, some))
