from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.entries import Entries, index_in
from comity_skills.crisis.folding import Folded, fold


def index(entries, clues=()):
    return index_in(entries.index(dict(clues)).get)


def folded(text):
    return fold(text, Vocabulary(()))


def test_a_spaced_entry_is_found_between_blanks_only():
    entries = Entries()
    entries.add(["die"], (0, 7), spaced=True)
    ((last, (_, before, behind, concepts, *_)),) = index(entries).everyday.find(folded("to die diet"))
    assert (last + before, last + behind) == (4, 7)
    assert concepts == {0: (7,)}


def test_an_entry_without_blanks_is_found_anywhere():
    entries = Entries()
    entries.add(["死 了"], (6, 7), spaced=False)
    entries.add(["www"], (6, 8), spaced=False)
    ((last, (_, before, behind, *_)),) = index(entries).unspaced.find(folded("我死了"))
    assert (last + before, last + behind) == (2, 4)
    assert [
        concepts
        for _, (_, _, _, concepts, *_) in index(entries).everyday.find(Folded(" awwwb ", (), (), None))
    ] == [{6: (8,)}]


def test_entries_with_clues_are_found_first():
    entries = Entries()
    entries.add(["die"], (0, 7), spaced=True)
    entries.add(["die"], (1, 3), spaced=True)
    entries.add(["want"], (0, 5), spaced=True)
    need = entries.bits([(0, 5)])
    clue = (0, 0, need, ())
    found = index(entries, {(0, 7): [clue]}.items())
    ((_, (*_, concepts, clues, telling, _)),) = found.telling.find(folded("want die"))
    ((_, (*_, everyday, _)),) = found.everyday.find(folded("want die"))
    assert concepts == {0: (7,), 1: (3,)}
    assert clues == (clue,)
    assert everyday & need
    assert not telling & need


def test_short_words_are_common():
    entries = Entries()
    entries.add(["i"], (0, 0), spaced=True)
    entries.add(["overwhelmed"], (0, 1), spaced=True)
    assert entries.commonness((0, 0)) > entries.commonness((0, 1))


def test_an_empty_lexicon_finds_nothing():
    found = index(Entries())
    assert not list(found.telling.find(folded("a")))
    assert not list(found.everyday.find(folded("a")))
    assert not list(found.unspaced.find(folded("死")))
