import pytest
from hypothesis import given

from comity.identity.protocol.uvc import UvcUri, parse_uri, parse_uvc
from comity.wire.errors import InvalidError, MalformedError
from tests.identity.protocol.uvc.tokens import near_tokens, tokens

TOKEN = parse_uvc("family.safe.guide@1.0.0")


@given(tokens)
def test_an_address_reads_back_as_itself(token):
    assert parse_uri(str(UvcUri(token, "tokens.example:8443"))) == UvcUri(token, "tokens.example:8443")


@pytest.mark.parametrize(
    "text",
    [
        "creed://creed.space/family.safe.guide@1.0.0",
        "creed://creed.space/family/safe/guide@1.0.0",
        "vcp://creed.space/family.safe.guide@1.0.0",
        "CREED://Creed.Space/family/safe.guide@1.0.0",
    ],
)
def test_dots_slashes_and_the_other_scheme_are_read(text):
    assert parse_uri(text) == UvcUri(TOKEN)
    assert str(parse_uri(text)) == "creed://creed.space/family.safe.guide@1.0.0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "family.safe.guide",
        "https://creed.space/family.safe.guide",
        "creed:///family.safe.guide",
        "creed://creed.space",
        "creed://creed.space/",
        "creed://creed.space/family.safe",
        "creed://creed.space//family.safe.guide",
        "creed://creed.space/family.safe.guide/",
        "creed://creed.space/family.safe.guide@1/0/0",
        "creed://creed.space/family.safe.guide?x",
        "creed://user@creed.space/family.safe.guide",
        "creed://-x/family.safe.guide",
        "creed://creed.space/family.safe.guide\n",
        "creed://" + "a" * 1000 + "/family.safe.guide",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises((MalformedError, InvalidError)):
        parse_uri(text)


@given(near_tokens)
def test_garbage_is_refused_and_nothing_else_happens(text):
    try:
        parse_uri(f"creed://creed.space/{text}")
        parse_uri(text)
    except (MalformedError, InvalidError):
        pass


def test_a_registry_is_a_host_name():
    with pytest.raises(InvalidError):
        UvcUri(TOKEN, "creed.space/x")
