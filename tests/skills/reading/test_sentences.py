import json
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.skills.reading.measure import english
from comity.skills.reading.sentences import sentences

CASES = {
    "Dr. Smith paid $3.50 for 3.5 kg. He left.": ["Dr. Smith paid $3.50 for 3.5 kg.", "He left."],
    "Use fruit, e.g. apples. Not nuts.": ["Use fruit, e.g. apples.", "Not nuts."],
    "It ends at 5 p.m. Then we go.": ["It ends at 5 p.m.", "Then we go."],
    "It ends at 5 p.m. sharp.": ["It ends at 5 p.m. sharp."],
    "1. Enter name. 2. Click save.": ["1. Enter name.", "2. Click save."],
    "See p. 3. No. Really?": ["See p. 3.", "No.", "Really?"],
    "It is No. 5 now. Fine.": ["It is No. 5 now.", "Fine."],
    "J. K. Rowling wrote it. So do I. Good.": ["J. K. Rowling wrote it.", "So do I.", "Good."],
    'He said "Stop!" and left. We did too.': ['He said "Stop!" and left.', "We did too."],
    '"Stop!" He left.': ['"Stop!"', "He left."],
    "Open example.com/a.html. Then wait... maybe. Wait... What?": [
        "Open example.com/a.html.",
        "Then wait... maybe.",
        "Wait...",
        "What?",
    ],
    "Title here\nThis is text that\nwraps lines.\n\nNext": [
        "Title here",
        "This is text that\nwraps lines.",
        "Next",
    ],
    "You need:\n- milk\n- two eggs\n* salt": ["You need:", "- milk", "- two eggs", "* salt"],
    "今日は晴れです。明日は雨です\uff01": ["今日は晴れです。", "明日は雨です\uff01"],
    "هل أنت هنا؟ نعم.": ["هل أنت هنا؟", "نعم."],
    "नमस्ते। आप कैसे हैं?": ["नमस्ते।", "आप कैसे हैं?"],
    "What?! No!!! Yes.": ["What?!", "No!!!", "Yes."],
    "no end here": ["no end here"],
    "all in small letters. like this! or this": ["all in small letters.", "like this!", "or this"],
    " ... ! ": [],
    "": [],
}


@pytest.fixture(scope="module")
def abbreviations():
    data = json.loads(files("comity.skills").joinpath("reading/english.json").read_bytes())
    return english(data).abbreviations


def test_sentences_end_where_a_reader_ends_them(abbreviations):
    found = {text: [text[one.start : one.end] for one in sentences(text, abbreviations)] for text in CASES}
    assert {text: got for text, got in found.items() if got != CASES[text]} == {}


@given(st.text(alphabet="aA1 .!?\n-\"'。؟e", max_size=60))
def test_sentences_lie_in_order_and_hold_every_letter(abbreviations, text):
    found = sentences(text, abbreviations)
    ends = [0]
    for one in found:
        assert ends[-1] <= one.start < one.end <= len(text)
        ends.append(one.end)
    kept = "".join(text[one.start : one.end] for one in found)
    assert [c for c in kept if c.isalnum()] == [c for c in text if c.isalnum()]
