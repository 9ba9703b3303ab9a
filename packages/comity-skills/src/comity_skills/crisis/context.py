"""The concepts that say something about a match. They have the same numbers in every language, before all others.

`I`, `THEY` and inside a match `MINE` tell who it is about. `NEG` denies before or inside a match, `NEG_FAR` reaches
over a new subject ("I don't think I ..."), `NEG_AFTER` stands behind; `BUT` ends a negation. `PAST`, `NOW`,
`RECOVERY`, `PASTVERB`, `WELL` and `BACK` tell when. `FRAME` is fiction, news, study, prevention, `SAY` the speech of
others, `WHYQ` a question about them. An `IDIOM` hides what it covers. `HYPERBOLE` stands right behind a match (what
one dies of in jest), `JEST` in the sentence of a mere wish or lament; an `IF` with a `LAUGH` and no `NOJOKE` is a
joke. `OBJECT` is a thing that a method is asked for, `WAYOUT` what a worn-out person looks for. `MEANS` and `TIME`
make a danger immediate.
"""

CONTEXT = (
    "I", "MINE", "THEY", "NEG", "NEG_FAR", "NEG_AFTER", "BUT", "PAST", "NOW", "RECOVERY", "FRAME", "SAY", "IDIOM",
    "HYPERBOLE", "JEST", "MEANS", "TIME", "PASTVERB", "WELL", "BACK", "IF", "LAUGH", "NOJOKE", "OBJECT", "WHYQ",
    "WAYOUT",
)  # fmt: skip

I, MINE, THEY, NEG, NEG_FAR, NEG_AFTER, BUT, *_MORE = range(len(CONTEXT))  # noqa: E741 - the data's own name
PAST, NOW, RECOVERY, FRAME, SAY, IDIOM, HYPERBOLE, JEST, MEANS, *_MORE = _MORE
TIME, PASTVERB, WELL, BACK, IF, LAUGH, NOJOKE, OBJECT, WHYQ, WAYOUT = _MORE


def bits(*concepts: int) -> int:
    """A set of concepts as one number."""
    return sum(1 << concept for concept in concepts)


# Without these, and NEG, nothing lowers a match. Of the pairs it takes both; laughter can also be seen.
LOWERING = frozenset({THEY, NEG_FAR, NEG_AFTER, PAST, FRAME, SAY, HYPERBOLE, JEST, OBJECT, WHYQ, WAYOUT})
LOWERING_PAIRS = ((PASTVERB, WELL), (IF, LAUGH))
