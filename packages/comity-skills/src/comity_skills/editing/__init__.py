"""Changing a few words of somebody's text without changing what it says."""

from typing import Final

TONE: Final = "editing/tone.json"
TONE_WORDS: Final = "editing/tone_words.json"
