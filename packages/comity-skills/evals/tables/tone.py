"""Which sentences that may hurt are flagged, of authors from whom nothing was learned; `evals.tone` measures it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from evals.table import Table

FIGURES = Path(__file__).resolve().parents[1] / "training" / "tone_figures.json"
_WHO = {
    "all": "all authors",
    "a": "who looked for new ways to say it",
    "b": "who wrote as most people do",
    "c": "the same, later",
    "e": "asked for what outsiders had found missing",
}


def tables() -> Sequence[Table]:
    return list(_tables())


def _tables() -> Iterator[Table]:
    figures = json.loads(FIGURES.read_bytes())
    for group, who in _WHO.items():
        counts = figures[group]
        yield Table(
            name=f"tone_{group}",
            title=f"Sentences that may hurt: {who}",
            columns=["", "n", "flagged", "rate", "as what it is"],
            rows=[
                [name, n, flagged, flagged / n, None if name == "fine" else right]
                for name in ("fine", "hurtful", *sorted(counts.keys() - {"fine", "hurtful"}))
                for flagged, right, n in (counts[name],)
            ],
            notes=["without the rules, which find an eighth of them"] if group == "all" else [],
        )
