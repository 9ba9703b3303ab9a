from hypothesis import given
from hypothesis import strategies as st

from comity_skills.editing.passage import fold, read


def said(text):
    passage = read(text)
    return [text[start:end] for start, end in passage.sentences]


def test_sentences_end_at_stops_and_at_line_breaks():
    assert said("We cannot. Can you?  Yes!\nHi John,\nWe left.") == [
        "We cannot.",
        "Can you?",
        "Yes!",
        "Hi John,",
        "We left.",
    ]


def test_abbreviations_initials_numbers_and_hosts_end_no_sentence():
    assert said("Dr. J. Smith paid 3.50 at shop.example today. Fine.") == [
        "Dr. J. Smith paid 3.50 at shop.example today.",
        "Fine.",
    ]


def test_folding_moves_nothing():
    assert fold("don\u2019t\u00a0go") == "don't go"


def test_quotations_of_every_kind_are_known():
    for text in (
        'He said "you failed" to me',
        "He said \u201cyou failed\u201d to me",
        "He said \u2018you failed\u2019 to me",
        "He said 'you failed' to me",
        "He said \u00abyou failed\u00bb to me",
        "He wrote `you failed` to me",
        "He said 'you've failed' to me",
    ):
        start = text.index("failed")
        assert read(text).is_quoted(start, start + 6), text


def test_code_and_cited_lines_are_somebody_elses_words():
    for text in (
        "See:\n```\nprint('x')\nyou failed\n```\nthere",
        "> you failed\n\nThat was rude.",
        "He wrote:\r\n> > you failed\r\nand left",
        "<code>you failed</code>",
        "<pre class=x>\nyou failed\n</pre>",
    ):
        start = text.index("failed")
        assert read(text).is_quoted(start, start + 6), text
    for text in (
        "```\nx\n```\nyou failed",
        "> x\nyou failed",
        "3 > 2 and you failed",
        "<code>x</code> you failed",
    ):
        start = text.index("failed")
        assert not read(text).is_quoted(start, start + 6), text


def test_the_authors_speak_as_we_as_i_or_not_of_themselves():
    assert read("I left, and my dog too").speaker == "I"
    assert read("I left, we all did").speaker == "we"
    assert read("It is late in the US").speaker == ""


def test_an_apostrophe_opens_no_quotation():
    text = "the students' marks don't say that you failed, John's do"
    start = text.index("failed")
    assert not read(text).is_quoted(start, start + 6)


def test_links_and_addresses_are_known():
    text = "see https://you.example/failed or you@failed.example now, you failed"
    passage = read(text)
    assert [text[start:end] for start, end in passage.links] == [
        "https://you.example/failed",
        "you@failed.example",
    ]
    assert not passage.is_link(text.rindex("failed"), len(text))


@given(st.text(max_size=200))
def test_any_text_is_read_and_its_sentences_are_in_order(text):
    passage = read(text)
    assert len(passage.folded) == len(text)
    ends = [0]
    for start, end in passage.sentences:
        assert ends[-1] <= start < end
        assert text[start:end] == text[start:end].strip()
        ends.append(end)
    assert "".join("".join(text[a:b] for a, b in passage.sentences).split()) == "".join(text.split())


@given(st.text(max_size=80), st.integers(0, 90))
def test_every_place_has_a_sentence(text, place):
    start, end = read(text).sentence_at(place)
    assert 0 <= start <= end <= len(text)
