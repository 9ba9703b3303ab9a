"""Prepares the large data: spellings expanded, patterns and weights laid out for reading in place (`prepared`).

It takes some seconds, and the same sources give the same bytes. `comity_skills_data` writes them down.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from comity_skills.crisis.danger import dangers_of
from comity_skills.crisis.data import DANGERS, LEXICONS, OPINION, RULES, SIGNS
from comity_skills.crisis.lexicon import lexicon_of
from comity_skills.crisis.opinion import opinion_of
from comity_skills.editing import TONE
from comity_skills.editing.tone import tone_of
from comity_skills.prepared import FILES, file_of, written
from comity_skills.reading.latin import latin_of
from comity_skills.supportive_reply.data import ALARM, FIELDS, LATIN, MATTERS, SPOKEN
from comity_skills.supportive_reply.matter import alarm_of, fields_of, matters_of
from comity_skills.supportive_reply.wordings import wordings_of

SOURCES: Final = (
    *LEXICONS,
    *SIGNS,
    *RULES,
    OPINION,
    DANGERS,
    *SPOKEN.values(),
    *FIELDS.values(),
    MATTERS,
    ALARM,
    TONE,
    LATIN,
)
_CODE: Final = (
    "crisis/characters.py", "crisis/context.py", "crisis/danger.py", "crisis/data.py", "crisis/disguise.py",
    "crisis/entries.py", "crisis/folding.py", "crisis/glyphs.py", "crisis/lexicon.py", "crisis/lookup.py", "crisis/opinion.py",
    "crisis/report.py", "editing/tone.py", "prepared.py", "preparing.py", "reading/latin.py", "supportive_reply/data.py",
    "supportive_reply/matter.py", "supportive_reply/wordings.py", "words/tables.py",
)  # fmt: skip


def fingerprint(read: Callable[[str], bytes]) -> bytes:
    """The hash of all that the prepared files are made of. `read` gives a file of the package."""
    whole = sha256()
    for name in (*SOURCES, *_CODE):
        content = read(name)
        whole.update(f"{name} {len(content)}\n".encode() + content)
    return whole.digest()


def prepared(read: Callable[[str], bytes]) -> dict[str, bytes]:
    """Every file, by its name."""
    sources = fingerprint(read)
    by_file: dict[str, dict[str, bytes]] = defaultdict(dict)
    for name, content in _sections(read).items():
        by_file[file_of(name)][name] = content
    return {name: written(by_file[name], sources) for name in FILES}


def _sections(read: Callable[[str], bytes]) -> dict[str, bytes]:
    parts: dict[str, Mapping[str, bytes]] = {
        "crisis/lexicon": lexicon_of([*map(read, LEXICONS)], map(read, SIGNS), *map(read, RULES)),
        "crisis/opinion": opinion_of(read(OPINION)),
        "crisis/danger": dangers_of(read(DANGERS)),
        "supportive_reply/wordings": wordings_of({code: read(name) for code, name in SPOKEN.items()}),
        "supportive_reply/matter": {**matters_of(read(MATTERS)), **alarm_of(read(ALARM))},
        "supportive_reply/fields": {
            f"{part}.{code}": content
            for code, name in FIELDS.items()
            for part, content in fields_of(read(name)).items()
        },
        "editing/tone": tone_of(read(TONE)),
        "reading/latin": latin_of(read(LATIN)),
    }
    return {f"{name}/{part}": content for name, found in parts.items() for part, content in found.items()}
