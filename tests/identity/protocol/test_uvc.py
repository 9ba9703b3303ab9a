import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.uvc import (
    RESERVED_WORDS,
    TIER_OF,
    AliasVersion,
    Constraint,
    NumberedVersion,
    UvcTier,
    UvcToken,
    UvcTokenError,
    UvcUri,
    canonicalise,
    check_governance,
    hash_form,
    matches,
    parse_uri,
    parse_uvc,
    read_version,
    same_token,
)
from comity.wire.errors import InvalidError, MalformedError
from tests.identity.protocol.uvc_tokens import near_tokens, tokens, versions

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


@given(versions)
def test_a_version_reads_back_as_itself(version):
    assert read_version(str(version)) == version


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("1.2.0", Constraint.EXACT),
        ("^1.2.0", Constraint.COMPATIBLE),
        ("~1.2.0", Constraint.APPROXIMATE),
        ("latest", Constraint.ALIAS),
        ("canary", Constraint.ALIAS),
    ],
)
def test_the_sign_tells_the_constraint(text, constraint):
    assert read_version(text).constraint is constraint


def test_leading_zeros_are_read_and_never_written():
    assert read_version("00012.02.00000") == NumberedVersion(12, 2, 0)
    assert str(read_version("^01.2.0-RC.1")) == "^1.2.0-RC.1"


def test_a_version_cannot_be_made_past_its_rules():
    for wrong in [
        lambda: NumberedVersion(100_000, 0, 0),
        lambda: NumberedVersion(0, -1, 0),
        lambda: NumberedVersion(0, 0, 0, ""),
        lambda: NumberedVersion(0, 0, 0, "a..b"),
        lambda: NumberedVersion(0, 0, 0, None, Constraint.ALIAS),
        lambda: AliasVersion("newest"),
    ]:
        with pytest.raises(MalformedError):
            wrong()


def checked(text):
    check_governance(text, text.partition("@")[0].split("."))


@pytest.mark.parametrize("first", TIER_OF)
def test_every_known_first_segment_is_allowed(first):
    checked(f"{first}.safe.guide")


def test_the_limits_of_governance_are_allowed():
    checked("family.b.c.d.e.f.g.h")
    longest = "family.safe.guide@1.0.0-"
    checked(longest + "x" * (128 - len(longest)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("family.b.c.d.e.f.g.h.i", "8 segments"),
        ("family.safe.guide@1.0.0-" + "x" * 105, "128 characters"),
        ("family.safe-.guide", "hyphen"),
        ("family.sa--fe.guide", "hyphen"),
        ("elsewhere.safe.guide", "elsewhere is not a known first segment"),
        *((f"family.{word}.guide", "reserved") for word in sorted(RESERVED_WORDS)),
        ("family.safe.root", "reserved"),
    ],
)
def test_what_is_not_registered_is_told_why(text, complaint):
    with pytest.raises(InvalidError, match=complaint):
        checked(text)


@given(near_tokens)
def test_doing_it_twice_changes_nothing(text):
    try:
        once = canonicalise(text)
    except UvcTokenError:
        return
    assert once.isascii()
    assert canonicalise(once) == once


@given(tokens, st.integers(0, 4**600))
def test_spaces_dots_and_case_do_not_make_another_token(token, choices):
    named, colon, namespace = str(token).partition(":")
    loose = ""
    for letter in named.replace(".", ".."):
        choices, choice = divmod(choices, 4)
        loose += (letter, letter.upper(), f" {letter}", f"{letter}\t")[choice]
    canonical = canonicalise(f" .{loose}{colon}{namespace} ")
    assert canonical == canonicalise(str(token))
    assert parse_uvc(canonical).segments == token.segments
    assert parse_uvc(canonical).namespace == token.namespace


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  family.safe.guide  ", "family.safe.guide"),
        ("family . safe\u2003.gu ide", "family.safe.guide"),
        ("..family...safe.guide..", "family.safe.guide"),
        ("\uff26\uff21MILY\uff0esafe.guide", "family.safe.guide"),
        ("\ufb01nance.safe.guide", "finance.safe.guide"),
        ("family.safe.guide@01.002.00000", "family.safe.guide@1.2.0"),
        ("family.safe.guide@^01.2.0-RC.1", "family.safe.guide@^1.2.0-rc.1"),
        ("Family.Safe.Guide@LATEST", "family.safe.guide@latest"),
        ("family.safe.guide\uff201.2.0\uff1aSEC", "family.safe.guide@1.2.0:SEC"),
        ("FAMILY.SAFE.GUIDE.: SEC ", "family.safe.guide:SEC"),
        ("family.safe.guide:sec", "family.safe.guide:sec"),
        ("family.safe.guide@not.a.Version", "family.safe.guide@not.a.version"),
        ("", ""),
        (" . ", ""),
    ],
)
def test_each_step_in_its_order(text, canonical):
    assert canonicalise(text) == canonical


@pytest.mark.parametrize("text", ["family.säfe.guide", "family.safe\u200b.guide", "fam\u0131ly.safe.guide"])
def test_what_is_not_ascii_after_folding_has_no_canonical_form(text):
    with pytest.raises(UvcTokenError):
        canonicalise(text)


def test_a_text_too_long_is_not_worked_on():
    assert canonicalise(" " * 1024) == ""
    with pytest.raises(UvcTokenError):
        canonicalise(" " * 1025)


def test_equal_means_equal_canonical_forms():
    assert same_token(" Family.Safe.Guide@1.02.0:SEC", "family.safe.guide@1.2.0:SEC")
    for other in ["family.safe.guides", "family.safe.guide@1.2.0", "family.safe.guide:SEC"]:
        assert not same_token("family.safe.guide", other)


def test_the_hash_is_of_the_canonical_form():
    expected = "sha256:" + hashlib.sha256(b"family.safe.guide").hexdigest()
    assert hash_form(" FAMILY.safe.guide ") == expected


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


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("family.*.guide", "family.safe.guide", True),
        ("family.*.policy", "family.safe.guide", False),
        ("family.*", "family.safe.guide", False),
        ("*.*.*", "family.safe.guide", True),
        ("*.*.*.*", "family.safe.guide", False),
        ("company.**", "company.acme.legal.compliance", True),
        ("**", "family.safe.guide", True),
        ("family.safe.guide.**", "family.safe.guide", True),
        ("**.guide", "family.safe.guide", True),
        ("**.safe.**", "family.safe.guide", True),
        ("**.**", "family.safe.guide", True),
        ("family.**.safe", "family.safe.guide", False),
        ("a.**.b.*", "a.b.b.c", True),
        ("a.**.b", "a.b.b.c", False),
        ("family.safe.guide", "family.safe.guide@1.0.0:SEC", True),
        ("family.safe", "family.safe.guide", False),
    ],
)
def test_a_star_is_one_segment_and_two_are_any_number(pattern, text, expected):
    assert matches(pattern, parse_uvc(text)) is expected


@given(tokens, st.data())
def test_a_token_matches_every_loosening_of_itself(token, data):
    parts = [data.draw(st.sampled_from([segment, "*", "**"])) for segment in token.segments]
    assert matches(token.dotted, token)
    assert len(".".join(parts)) > 256 or matches(".".join(parts), token)


@pytest.mark.parametrize(
    "pattern", ["", ".", "family.", "fam*.safe.guide", "***", "Family.*", "a.b.c@1.0.0", "a." * 128 + "*"]
)
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(MalformedError):
        matches(pattern, parse_uvc("family.safe.guide"))


def test_the_longest_pattern_is_still_read():
    assert not matches("a." * 127 + "**", parse_uvc("family.safe.guide"))
