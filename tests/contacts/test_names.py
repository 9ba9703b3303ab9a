"""Names of contacts: what is refused, and which two are one name."""

import pytest

from comity.contacts.protocol.contact import (
    BLOCKED,
    MAX_NAME,
    Contact,
    ContactRights,
    checked_addresses,
    checked_name,
    checked_pins,
    folded,
    raises,
    rights_in_words,
)
from comity.wire.errors import InvalidError


@pytest.mark.parametrize(
    "name",
    ["anna", "Anna B.", "Jörg", "李雷", "ольга", "o'neill", "a", "n" * MAX_NAME, "anna-2", "Ελένη", "नेहा"],
)
def test_names_of_people_are_taken(name):
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a" * (MAX_NAME + 1),
        "anna\n",
        "an\x1b[31mna",
        "anna\u202etxt",
        "an\u200bna",
        "an\u2066na",
        "anna\u3164",
        "anna\ufe0f",
        "anna\u2800",
        "anna\U000e0041",
        " anna",
        "anna ",
        "-anna",
        "--yes",
        "anna,ben",
        "anna=ben",
        "https://anna.example",
        "anna:8420",
        "../anna",
        "<script>",
        "аnna",  # noqa: RUF001 - the first letter is Cyrillic
        "annα",  # noqa: RUF001 - the last letter is Greek
        "0123456789abcdef" * 4,
        "ABCDEF012345",
        None,
    ],
)
def test_a_name_that_hides_or_imitates_something_is_refused(name):
    with pytest.raises(InvalidError):
        checked_name(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("anna", "ANNA"),
        ("straße", "STRASSE"),
        ("jörg", "jo\u0308rg"),
        ("anna", "ａｎｎａ"),  # noqa: RUF001 - wide letters
        ("ace", "асе"),  # noqa: RUF001 - all letters of the second are Cyrillic
        ("anna b", "anna  b"),
        ("o'neill", "o’neill"),  # noqa: RUF001 - a typographic apostrophe
    ],
)
def test_names_that_look_alike_are_one_name(one, other):
    assert folded(one) == folded(other)


def test_a_right_is_raised_when_less_is_asked_than_before():
    held = ContactRights(call="hold")
    assert raises(held, ContactRights(call="accept"))
    assert raises(BLOCKED, ContactRights(call="hold", room="refuse", file="refuse", see="refuse"))
    assert not raises(held, BLOCKED)
    assert not raises(held, held)


def test_rights_are_told_in_words():
    assert rights_in_words(BLOCKED) == "blocked"
    words = rights_in_words(ContactRights(call="hold"))
    assert words == "accept room, file, see; hold call; refuse wake"


@pytest.mark.parametrize(
    "addresses", [["a b"], ["https://é.example"], ["x" * 513], ["a\nb"], list("abcdefghijklmnopq")]
)
def test_an_address_that_is_no_address_is_refused(addresses):
    with pytest.raises(InvalidError):
        checked_addresses(addresses)


def test_the_addresses_of_a_contact_are_called_with_its_pins():
    one, two, own = "1" * 64, "2" * 64, "3" * 64
    addresses = ("https://anna.example:8421/x", f"https://{own}@192.0.2.7", "http://127.0.0.1:8420")
    anna = Contact(id="a" * 64, name="anna", addresses=addresses, pins=(one, two))
    assert anna.urls() == [
        f"https://{one}@anna.example:8421/x",
        f"https://{two}@anna.example:8421/x",
        *addresses[1:],
    ]
    assert Contact(id="a" * 64, name="anna", addresses=addresses).urls() == list(addresses)


def test_a_pin_is_a_fingerprint_in_lower_case():
    assert checked_pins(["ab" * 32, "ab" * 32]) == ("ab" * 32,)
    for wrong in ("AB" * 32, "ab", 5):
        with pytest.raises(InvalidError):
            checked_pins([wrong])
