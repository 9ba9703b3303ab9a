import pytest
from hypothesis import given

from comity.identity.protocol.uvc import Constraint, UvcTier, UvcToken, UvcTokenError, parse_uvc
from comity.wire.errors import InvalidError, MalformedError
from tests.identity.protocol.uvc.tokens import near_tokens, tokens

LONG = "a" * 32


@given(tokens)
def test_a_token_reads_back_as_itself(token):
    assert parse_uvc(str(token)) == token


@given(near_tokens)
def test_whatever_the_text_it_is_a_token_or_refused_with_a_label(text):
    try:
        token = parse_uvc(text)
    except UvcTokenError as refusal:
        assert refusal.label  # noqa: PT017 - a token is the other right answer
    else:
        assert parse_uvc(str(token)) == token


@pytest.mark.parametrize("text", [None, 5, b"family.safe.guide", ["family"]])
def test_what_is_no_text_is_no_token(text):
    with pytest.raises(MalformedError):
        parse_uvc(text)


def test_the_parts_of_a_token_are_named_from_both_ends():
    token = parse_uvc("company.acme.eu.legal.compliance@^1.2.3-beta.1:SEC")
    assert (token.domain, token.path, token.approach, token.role) == (
        "company",
        ("acme", "eu"),
        "legal",
        "compliance",
    )
    assert (token.depth, token.namespace, token.constraint) == (5, "SEC", Constraint.COMPATIBLE)
    assert token.dotted == "company.acme.eu.legal.compliance"
    assert str(token.version) == "^1.2.3-beta.1"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("", "empty_token"),
        (" \t\n", "empty_token"),
        ("one", "too_few_segments"),
        ("one.two", "too_few_segments"),
        ("@1.0.0", "too_few_segments"),
        (":SEC", "too_few_segments"),
        ("a.b.c.d.e.f.g.h.i.j.k", "too_many_segments"),
        ("Family.safe.guide", "invalid_segment"),
        ("family.safe.guide ", "invalid_segment"),
        (" family.safe.guide", "invalid_segment"),
        ("family.safe.guide\n", "invalid_segment"),
        ("family..guide", "invalid_segment"),
        (".family.safe.guide", "invalid_segment"),
        ("family.safe.guide.", "invalid_segment"),
        ("1family.safe.guide", "invalid_segment"),
        ("-family.safe.guide", "invalid_segment"),
        ("family.sa_fe.guide", "invalid_segment"),
        ("family.säfe.guide", "invalid_segment"),
        ("family.*.guide", "invalid_segment"),
        ("family.٣.guide", "invalid_segment"),
        (f"family.{LONG}a.guide", "segment_too_long"),
        ("family.safe." + "a" * 300, "segment_too_long"),
        ("family.safe.guide@", "invalid_version"),
        ("family.safe.guide@1", "invalid_version"),
        ("family.safe.guide@1.2", "invalid_version"),
        ("family.safe.guide@1.2.3.4", "invalid_version"),
        ("family.safe.guide@v1.2.3", "invalid_version"),
        ("family.safe.guide@=1.2.3", "invalid_version"),
        ("family.safe.guide@^^1.2.3", "invalid_version"),
        ("family.safe.guide@^latest", "invalid_version"),
        ("family.safe.guide@newest", "invalid_version"),
        ("family.safe.guide@100000.0.0", "invalid_version"),
        ("family.safe.guide@000001.0.0", "invalid_version"),
        ("family.safe.guide@1.0.٣", "invalid_version"),
        ("family.safe.guide@1.0.0-", "invalid_version"),
        ("family.safe.guide@1.0.0-a..b", "invalid_version"),
        ("family.safe.guide@1.0.0-é", "invalid_version"),
        ("family.safe.guide@1.0.0@1.0.0", "invalid_version"),
        ("family.safe.guide:", "invalid_namespace"),
        ("family.safe.guide:sec", "invalid_namespace"),
        ("family.safe.guide:1SEC", "invalid_namespace"),
        ("family.safe.guide:SE-C", "invalid_namespace"),
        ("family.safe.guide:SEC:SEC", "invalid_namespace"),
        ("family.safe.guide:SEC@1.0.0", "invalid_namespace"),
        ("family.safe.guide:SEC\n", "invalid_namespace"),
        ("family.safe.guide:" + "S" * 33, "invalid_namespace"),
        (".".join([LONG] * 8), "token_too_long"),
        (".".join([LONG] * 7) + "." + "a" * 26, "token_too_long"),
        (".".join([LONG] * 7) + ".aaaa@00000.00000.00000:SEC", "token_too_long"),
        ("one.two@x:sec", "too_few_segments"),
        ("one.two.Three@x:sec", "invalid_segment"),
        ("one.two.three@x:sec", "invalid_version"),
        (f"a.b.c@1.0.0-{'x' * 256}", "token_too_long"),
    ],
)
def test_a_fault_is_told_by_its_label(text, label):
    with pytest.raises(UvcTokenError) as refusal:
        parse_uvc(text)
    assert refusal.value.label == label


@pytest.mark.parametrize(
    "text",
    [
        "a.b.c",
        "a.b.c.d.e.f.g.h.i.j",
        f"{LONG}.{LONG}.{LONG}",
        "a-.b--c.d0",
        "a.b.c:S",
        "a.b.c:" + "S" * 32,
        "a.b.c@99999.0.0",
        "a.b.c@latest:SEC",
        "a.b.c@~1.2.3-RC-1",
        ".".join([LONG] * 7) + "." + "a" * 25,
    ],
)
def test_the_limits_themselves_are_allowed(text):
    assert str(parse_uvc(text)) == text


def test_a_token_cannot_be_made_past_its_rules():
    for wrong in [("a", "b"), ("A", "b", "c"), ("a", "b", "c.d")]:
        with pytest.raises(UvcTokenError):
            UvcToken(wrong)
    with pytest.raises(UvcTokenError):
        UvcToken(("a", "b", "c"), None, "sec")
    with pytest.raises(UvcTokenError, match="256"):
        UvcToken((LONG,) * 8)


class TestHierarchy:
    @given(tokens)
    def test_a_parent_is_one_shorter_and_an_ancestor(self, token):
        parent = token.parent()
        if token.depth == 3:
            assert parent is None
        else:
            assert parent.segments == token.segments[:-1]
            assert parent.is_ancestor_of(token)
            assert token.is_descendant_of(parent)
            assert not token.is_ancestor_of(parent)

    def test_a_parent_inherits_neither_version_nor_namespace(self):
        assert str(parse_uvc("a.b.c.d@1.0.0:SEC").parent()) == "a.b.c"

    def test_nobody_is_their_own_ancestor_and_a_sibling_is_none(self):
        token = parse_uvc("company.acme.legal")
        assert not token.is_ancestor_of(token)
        assert not token.is_ancestor_of(parse_uvc("company.acme.legally.bound"))
        assert not parse_uvc("company.acme.tax.bound").is_descendant_of(token)


@pytest.mark.parametrize(
    ("text", "tier", "namespace"),
    [
        ("family.safe.guide", UvcTier.CORE, "family"),
        ("legal.safe.guide", UvcTier.CORE, "legal"),
        ("company.acme.guide", UvcTier.ORGANISATION, "company.acme"),
        ("ngo.acme.guide", UvcTier.ORGANISATION, "ngo.acme"),
        ("religion.rite.guide", UvcTier.COMMUNITY, "religion.rite"),
        ("user.ada.guide", UvcTier.PERSONAL, "user.ada"),
        ("elsewhere.ada.guide", None, "elsewhere.ada"),
    ],
)
def test_the_first_segment_says_whose_name_it_is(text, tier, namespace):
    token = parse_uvc(text)
    assert (token.tier, token.tier_namespace) == (tier, namespace)


def test_governance_is_asked_only_when_wanted():
    assert parse_uvc("elsewhere.safe.guide")
    with pytest.raises(InvalidError, match="first segment"):
        parse_uvc("elsewhere.safe.guide", strict_governance=True)
    assert parse_uvc("family.safe.guide@1.0.0:SEC", strict_governance=True)
