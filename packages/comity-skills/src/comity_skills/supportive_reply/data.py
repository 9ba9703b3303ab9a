"""The names of the data files, apart from the code that reads them."""

from typing import Final

from comity_skills.crisis.data import LANGUAGES

SPOKEN: Final = {code: f"supportive_reply/languages/{code}.json" for code in LANGUAGES}
FIELDS: Final = {code: f"supportive_reply/fields/{code}.json" for code in LANGUAGES}
MATTERS: Final = "supportive_reply/matters.json"
ALARM: Final = "supportive_reply/alarm.json"
LATIN: Final = "reading/latin.json"
