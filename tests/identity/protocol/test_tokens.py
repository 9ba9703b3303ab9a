import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.keys import SigningKey, signature_bytes, verify
from comity.identity.protocol.revocation import Denylist, RevocationStatus, Source, Status, revocation_status
from comity.identity.protocol.tokens import (
    IdentityMode,
    Issuer,
    IssuerRegistry,
    SharedKey,
    SignatureKey,
    SignedToken,
    StampedToken,
    TokenKind,
    TokenRefusal,
    Validity,
    issue_a,
    issue_b,
    log_prefix,
    parse_identity,
    parse_signed,
    token_id,
    verify_identity,
)
from comity.wire.errors import InvalidError, MalformedError

NOW = 1_767_225_600
KEY = SigningKey.from_seed(bytes(range(32)))
OTHER = SigningKey.from_seed(bytes(32))
SECRET = b"a shared secret of enough bytes"
A = issue_a(KEY, issuer="creed", kind="user", subject="u_1")
B = issue_b(SECRET, issuer="creed", subject="u_1", issued_at=NOW)
U = "family.safe.guide@1.0.0"


def issuer(**settings):
    settings = {
        "name": "creed",
        "signature_keys": (SignatureKey(KEY.vacant_id.public),),
        "shared_keys": (SharedKey(SECRET),),
    } | settings
    return Issuer(**settings)


def verified(text, now=NOW, **settings):
    return verify_identity(
        text, mode=IdentityMode.VERIFIED, issuers=IssuerRegistry([issuer(**settings)]), now=now
    )


def structural(text):
    return verify_identity(text, mode=IdentityMode.STRUCTURAL, issuers=IssuerRegistry(), now=NOW)


def stamped(seconds, **fields):
    return issue_b(SECRET, **({"issuer": "creed", "subject": "u_1"} | fields), issued_at=seconds)


class TestWhoItIs:
    def test_a_signed_token_names_its_owner_with_the_kind(self):
        verdict = verified(A)
        assert verdict.ok
        assert (verdict.kind, verdict.issuer, verdict.subject) == (TokenKind.SIGNED_A, "creed", "u_1")
        assert verdict.owner == "creed:user:u_1"

    def test_a_stamped_token_names_its_owner(self):
        verdict = verified(B)
        assert verdict.ok
        assert (verdict.kind, verdict.owner) == (TokenKind.SIGNED_B, "creed:u_1")

    @pytest.mark.parametrize("text", [A, B, U, "vcp:i:creedspace:user_42:1709136000:abc123def456"])
    def test_by_structure_alone_everybody_is_anonymous(self, text):
        verdict = structural(text)
        assert verdict.ok
        assert verdict.owner is None

    def test_a_value_token_is_no_identity_where_proof_is_demanded(self):
        assert structural(U).kind is TokenKind.UVC
        refused = verified(U)
        assert not refused.ok
        assert refused.refusal is TokenRefusal.BAD_SIGNATURE

    def test_the_id_is_the_hash_of_the_token(self):
        for text in (A, B, U):
            assert structural(text).token_id == hashlib.sha256(text.encode()).hexdigest()
        assert verified(B).token_id == token_id(B)


class TestProof:
    def test_every_changed_character_of_a_token_is_noticed(self):
        for text in (A, B):
            for at in range(len(text)):
                for put in "0aA:":
                    changed = text[:at] + put + text[at + 1 :]
                    assert changed == text or not verified(changed).ok, changed
                assert not verified(text[:at] + text[at + 1 :]).ok

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (A.replace("creed", "creeds"), TokenRefusal.UNKNOWN_ISSUER),
            (A.replace(":user:", ":admin:"), TokenRefusal.BAD_SIGNATURE),
            (A.replace("u_1", "u_2"), TokenRefusal.BAD_SIGNATURE),
            (A.replace("ed25519", "none"), TokenRefusal.MALFORMED),
            (A[:-1], TokenRefusal.BAD_SIGNATURE),
            (A + "A", TokenRefusal.BAD_SIGNATURE),
            (A.rpartition(":")[0] + ":" + "A" * 86, TokenRefusal.BAD_SIGNATURE),
            (issue_a(OTHER, issuer="creed", kind="user", subject="u_1"), TokenRefusal.BAD_SIGNATURE),
            (issue_a(KEY, issuer="nobody", kind="user", subject="u_1"), TokenRefusal.UNKNOWN_ISSUER),
            (B.replace("creed", "creeds"), TokenRefusal.UNKNOWN_ISSUER),
            (B.replace("u_1", "u_2"), TokenRefusal.BAD_SIGNATURE),
            (B.replace(f":{NOW}:", f":{NOW + 1}:"), TokenRefusal.BAD_SIGNATURE),
            (B.replace(f":{NOW}:", f":0{NOW}:"), TokenRefusal.BAD_SIGNATURE),
            (B.upper(), TokenRefusal.MALFORMED),
            (B + "0", TokenRefusal.MALFORMED),
            (B.rpartition(":")[0] + ":" + "0" * 64, TokenRefusal.BAD_SIGNATURE),
            (
                issue_b(b"another secret of 23 by", issuer="creed", subject="u_1", issued_at=NOW),
                TokenRefusal.BAD_SIGNATURE,
            ),
            ("", TokenRefusal.MALFORMED),
            ("Bearer abc", TokenRefusal.MALFORMED),
            ("\ud800", TokenRefusal.MALFORMED),
            (None, TokenRefusal.MALFORMED),
            ("family.safe", TokenRefusal.MALFORMED),
        ],
    )
    def test_each_fault_has_its_reason(self, text, reason):
        verdict = verified(text)
        assert verdict.refusal is reason
        assert verdict.owner is None

    def test_a_tag_may_be_cut_to_the_issuers_minimum_and_no_further(self):
        signed, _, tag = B.rpartition(":")
        assert verified(f"{signed}:{tag[:63]}").refusal is TokenRefusal.BAD_SIGNATURE
        assert verified(f"{signed}:{tag[:32]}", minimum_tag=32).ok
        assert verified(f"{signed}:{tag[:31]}", minimum_tag=32).refusal is TokenRefusal.BAD_SIGNATURE
        assert verified(f"{signed}:{tag[:40]}", minimum_tag=41).refusal is TokenRefusal.BAD_SIGNATURE
        wrong = "1" if tag[31] == "0" else "0"
        assert verified(f"{signed}:{tag[:31]}{wrong}", minimum_tag=32).refusal is TokenRefusal.BAD_SIGNATURE

    def test_an_issuer_without_a_key_for_the_form_vouches_for_nothing(self):
        assert verified(A, signature_keys=()).refusal is TokenRefusal.UNKNOWN_ISSUER
        assert verified(B, shared_keys=()).refusal is TokenRefusal.UNKNOWN_ISSUER

    def test_any_key_of_the_issuer_will_do(self):
        keys = (SignatureKey(OTHER.vacant_id.public), SignatureKey(KEY.vacant_id.public))
        assert verified(A, signature_keys=keys).ok
        assert verified(B, shared_keys=(SharedKey(b"an older secret of 24 by"), SharedKey(SECRET))).ok


class TestTime:
    @pytest.mark.parametrize(
        ("stamp", "refusal"),
        [
            (NOW + 300, None),
            (NOW + 301, TokenRefusal.NOT_YET_VALID),
            (NOW - 86_400, None),
            (NOW - 86_401, TokenRefusal.EXPIRED),
            (0, TokenRefusal.EXPIRED),
            (10**12 - 1, TokenRefusal.NOT_YET_VALID),
        ],
    )
    def test_a_stamp_counts_from_skew_ahead_to_its_age_limit(self, stamp, refusal):
        assert verified(stamped(stamp)).refusal is refusal

    def test_the_limits_hold_to_the_fraction_of_a_second(self):
        assert verified(B, now=NOW - 300.0).ok
        assert verified(B, now=NOW - 300.001).refusal is TokenRefusal.NOT_YET_VALID
        assert verified(B, now=NOW + 86_400.0).ok
        assert verified(B, now=NOW + 86_400.001).refusal is TokenRefusal.EXPIRED

    def test_an_issuer_has_limits_of_its_own(self):
        assert verified(stamped(NOW + 1), skew_s=0).refusal is TokenRefusal.NOT_YET_VALID
        assert verified(stamped(NOW), skew_s=0).ok
        assert verified(stamped(NOW - 10), max_token_age_s=10).ok
        assert verified(stamped(NOW - 11), max_token_age_s=10).refusal is TokenRefusal.EXPIRED

    def test_a_signed_token_has_no_age(self):
        assert verified(A, now=0.0).ok
        assert verified(A, now=1e11).ok

    @pytest.mark.parametrize(
        ("validity", "refusal"),
        [
            (Validity(NOW, NOW), None),
            (Validity(NOW + 1, None), TokenRefusal.NOT_YET_VALID),
            (Validity(None, NOW - 1), TokenRefusal.EXPIRED),
        ],
    )
    @pytest.mark.parametrize("text", [A, B])
    def test_keys_and_subjects_count_within_their_validity(self, text, validity, refusal):
        keys = {
            "signature_keys": (SignatureKey(KEY.vacant_id.public, validity),),
            "shared_keys": (SharedKey(SECRET, validity),),
        }
        assert verified(text, **keys).refusal is refusal
        assert verified(text, subjects={"u_1": validity}).refusal is refusal
        assert verified(text, subjects={"u_2": validity}).ok

    def test_one_valid_key_is_enough_whatever_became_of_the_others(self):
        public = KEY.vacant_id.public
        old, new = Validity(None, NOW - 1), Validity(NOW + 1)
        assert verified(A, signature_keys=(SignatureKey(public, old), SignatureKey(public))).ok
        both = (SignatureKey(public, old), SignatureKey(public, new))
        assert verified(A, signature_keys=both).refusal is TokenRefusal.NOT_YET_VALID

    def test_a_forged_token_never_learns_that_it_is_late(self):
        late = stamped(0)[:-1]
        assert verified(late + ("0" if stamped(0)[-1] != "0" else "1")).refusal is TokenRefusal.BAD_SIGNATURE


class TestRevocation:
    def judged(self, verdict, **lists):
        status = revocation_status(verdict.revocable, crl=None, now=NOW, denylist=Denylist(**lists))
        return verdict.after(status)

    @pytest.mark.parametrize("text", [A, B])
    def test_a_token_is_revoked_by_its_id_or_with_its_subject(self, text):
        verdict = verified(text)
        assert self.judged(verdict).ok
        for lists in ({"jtis": frozenset({token_id(text)})}, {"bundle_ids": frozenset({"creed:u_1"})}):
            revoked = self.judged(verdict, **lists)
            assert revoked.refusal is TokenRefusal.REVOKED
            assert revoked.owner is None
        assert self.judged(verdict, jtis=frozenset({"creed:u_1"}), bundle_ids=frozenset({"creed:u_2"})).ok

    def test_cutting_the_tag_does_not_bring_a_revoked_token_back(self):
        signed, _, tag = B.rpartition(":")
        for revoked in range(32, 65):
            for shown in (32, 33, 63, 64):
                verdict = verified(f"{signed}:{tag[:shown]}", minimum_tag=32)
                denied = frozenset({token_id(f"{signed}:{tag[:revoked]}")})
                assert self.judged(verdict, jtis=denied).refusal is TokenRefusal.REVOKED

    def test_what_cannot_be_known_is_refused_for_that_reason(self):
        verdict = verified(A).after(RevocationStatus(Status.UNKNOWN, Source.FAIL_CLOSED))
        assert verdict.refusal is TokenRefusal.LIST_UNAVAILABLE

    def test_the_first_reason_stays(self):
        refused = verified("nonsense").after(RevocationStatus(Status.REVOKED, Source.CRL))
        assert refused.refusal is TokenRefusal.MALFORMED


class TestSecrecy:
    @pytest.mark.parametrize("text", [A, B, A[:-1], B[:-40], "vcp-i:creed:user:secret-name:rsa:proof"])
    def test_what_is_logged_holds_nothing_of_the_token(self, text):
        verdict = verified(text)
        assert verdict.log_line.startswith(f"identity {token_id(text)[:8]} ")
        for part in (text, text.rpartition(":")[2]):
            assert part not in verdict.log_line
            assert part not in repr(verdict)

    def test_a_log_tells_the_reason(self):
        assert verified(A[:-1]).log_line.endswith("refused: bad_signature")
        assert verified(A).log_line.endswith("accepted")


@given(
    st.text(max_size=50)
    | st.builds(str.__add__, st.sampled_from(["vcp-i:", "vcp:i:"]), st.text(max_size=50))
    | st.text(st.sampled_from("vcpi:-.@ab019E"), max_size=50)
)
def test_any_text_gets_a_verdict_in_both_modes(text):
    try:
        parse_identity(text)
        readable = True
    except MalformedError:
        readable = False
    assert structural(text).ok is readable
    assert not verified(text).ok


OLD_B = issue_b(SECRET, issuer="creedspace", subject="user_42", issued_at=1_709_136_000)

fields = st.text(st.sampled_from("ABCXYZabcxyz0189._-"), min_size=1, max_size=128)


@given(fields, fields, fields)
def test_an_issued_signed_token_reads_back_with_a_true_signature(issuer, kind, subject):
    text = issue_a(KEY, issuer=issuer, kind=kind, subject=subject)
    token = parse_signed(text)
    assert isinstance(token, SignedToken)
    assert (token.issuer, token.kind, token.subject) == (issuer, kind, subject)
    assert str(token) == text
    assert len(token.signature) == 86
    signed, _, _ = text.rpartition(":")
    assert verify(KEY.vacant_id.public, signed.encode(), signature_bytes(token.signature))


@given(fields, fields, st.integers(0, 10**12 - 1))
def test_an_issued_stamped_token_reads_back_with_a_true_tag(issuer, subject, issued_at):
    text = issue_b(SECRET, issuer=issuer, subject=subject, issued_at=issued_at)
    token = parse_signed(text)
    assert isinstance(token, StampedToken)
    assert (token.issuer, token.subject, token.issued_at) == (issuer, subject, issued_at)
    assert str(token) == text
    signed, _, tag = text.rpartition(":")
    assert tag == hmac.new(SECRET, signed.encode(), hashlib.sha256).hexdigest()


@given(st.text(max_size=60) | st.text(st.sampled_from("vcp-i:.@ed25519aZ_=\n"), max_size=60), st.booleans())
def test_garbage_is_refused_or_reads_back_as_itself(text, form_b):
    text = ("vcp:i:" if form_b else "vcp-i:") + text
    try:
        token = parse_signed(text)
    except MalformedError:
        return
    assert str(token) == text


@pytest.mark.parametrize(
    "text",
    [
        "vcp-i:creed:user:u_8f3k2m:ed25519:base64url_signature",
        "vcp-i:a:b:c:ed25519:s",
        "vcp:i:creedspace:user_42:1709136000:abc123def456",
        "vcp:i:a:b:0:0",
        "vcp:i:a:b:999999999999:" + "f" * 64,
        f"vcp:i:{'a' * 128}:{'b' * 128}:000000000007:0",
    ],
)
def test_the_grammar_asks_for_no_proof(text):
    assert str(parse_signed(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "family.safe.guide",
        "VCP-I:creed:user:u:ed25519:s",
        " vcp-i:creed:user:u:ed25519:s",
        "vcp-i:creed:user:u:ed25519:s ",
        "vcp-i:creed:user:u:ed25519:s\n",
        "vcp-i:creed:user:u:ed25519:",
        "vcp-i:creed:user:u:ed25519",
        "vcp-i:creed:user:u:ed25519:s:s",
        "vcp-i:creed:user:u:ed25519:s=",
        "vcp-i:creed:user:u:ed25519:s+/",
        "vcp-i:creed:user:u:ed25519:\u017f",
        "vcp-i:creed:user:u:rsa:s",
        "vcp-i:creed:user:u:Ed25519:s",
        "vcp-i:creed:user:u::s",
        "vcp-i::user:u:ed25519:s",
        "vcp-i:creed::u:ed25519:s",
        "vcp-i:creed:user::ed25519:s",
        "vcp-i:cr eed:user:u:ed25519:s",
        "vcp-i:creed:us/er:u:ed25519:s",
        "vcp-i:creed:user:ü:ed25519:s",
        f"vcp-i:{'a' * 129}:user:u:ed25519:s",
        f"vcp-i:creed:{'a' * 129}:u:ed25519:s",
        f"vcp-i:creed:user:{'a' * 129}:ed25519:s",
        "vcp-i:creed:user:u:ed25519:" + "s" * 2048,
        "vcp:i:a:b:1",
        "vcp:i:a:b:1:",
        "vcp:i:a:b::0",
        "vcp:i:a:b:-1:0",
        "vcp:i:a:b:1.0:0",
        "vcp:i:a:b:+1:0",
        "vcp:i:a:b:1_0:0",
        "vcp:i:a:b:٣:0",
        "vcp:i:a:b:1000000000000:0",
        "vcp:i:a:b:1:A",
        "vcp:i:a:b:1:g",
        "vcp:i:a:b:1:" + "0" * 65,
        "vcp:i::b:1:0",
        "vcp:i:a::1:0",
        "vcp:i:a:b c:1:0",
        f"vcp:i:{'a' * 129}:b:1:0",
        f"vcp:i:a:{'b' * 129}:1:0",
        "vcp:i:a:b:c:1:0",
        "vcp:I:a:b:1:0",
    ],
)
def test_what_breaks_the_grammar_is_malformed(text):
    with pytest.raises(MalformedError):
        parse_signed(text)


def test_the_longest_token_is_still_read():
    head = "vcp-i:creed:user:u:ed25519:"
    assert parse_signed(head + "s" * (2048 - len(head)))
    with pytest.raises(MalformedError, match="2,048"):
        parse_signed(head + "s" * (2049 - len(head)))


@pytest.mark.parametrize(
    "signature",
    [
        "base64url_signature",
        parse_signed(A).signature[:-1],
        parse_signed(A).signature + "A",
        parse_signed(A).signature[:-1] + "OLD_B",
        "A" * 85 + "OLD_B",
        "é" * 86,
    ],
)
def test_a_signature_is_sixty_four_bytes_in_the_one_spelling(signature):
    token = SignedToken(issuer="a", kind="b", subject="c", signature=signature)
    assert signature_bytes(token.signature) is None


def test_nothing_is_issued_that_could_not_be_read():
    for wrong in ["", "a:b", "a b", "ü", "a" * 129, "a\n"]:
        for name in ("issuer", "kind", "subject"):
            given_fields = {"issuer": "a", "kind": "b", "subject": "c", name: wrong}
            with pytest.raises(InvalidError, match=name):
                issue_a(KEY, **given_fields)
        for name in ("issuer", "subject"):
            given_fields = {"issuer": "a", "subject": "c", name: wrong}
            with pytest.raises(InvalidError, match=name):
                issue_b(SECRET, issued_at=1, **given_fields)
    for stamp in (-1, 10**12):
        with pytest.raises(InvalidError, match="12 digits"):
            issue_b(SECRET, issuer="a", subject="b", issued_at=stamp)


def test_the_id_is_the_hash_of_the_token_and_a_log_sees_eight_digits_of_it():
    assert token_id(A) == hashlib.sha256(A.encode()).hexdigest()
    assert log_prefix(A) == token_id(A)[:8]
    assert token_id("\ud800") != token_id("\udc00")


@pytest.mark.parametrize("text", [A, OLD_B])
def test_a_token_does_not_show_its_proof(text):
    token = parse_signed(text)
    proof = text.rpartition(":")[2]
    assert proof not in repr(token)
    assert log_prefix(text) in repr(token)


NAN = float("nan")


def test_a_validity_holds_both_its_ends():
    validity = Validity(10.0, 20.0)
    assert [validity.too_early(now) for now in (9.999, 10.0, 21.0)] == [True, False, False]
    assert [validity.too_late(now) for now in (9.0, 20.0, 20.001)] == [False, False, True]
    assert not Validity().too_early(0.0)
    assert not Validity().too_late(1e12)


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33)])
def test_a_signature_key_has_32_bytes(public):
    with pytest.raises(InvalidError, match="32 bytes"):
        SignatureKey(public)


def test_a_secret_is_long_enough_and_not_shown():
    with pytest.raises(InvalidError, match="16 bytes"):
        SharedKey(bytes(15))
    assert "shared-secret-01" not in repr(SharedKey(b"shared-secret-01"))
    assert "shared-secret-01" not in repr(Issuer(name="a", shared_keys=(SharedKey(b"shared-secret-01"),)))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("minimum_tag", 31),
        ("minimum_tag", 65),
        ("max_token_age_s", 0),
        ("max_token_age_s", -1),
        ("max_token_age_s", float("inf")),
        ("max_token_age_s", NAN),
        ("skew_s", -1),
        ("skew_s", float("inf")),
        ("skew_s", NAN),
    ],
)
def test_a_setting_out_of_its_limits_is_refused_by_name(setting, value):
    with pytest.raises(InvalidError, match=f"{setting} of issuer creed"):
        Issuer(name="creed", **{setting: value})


def test_the_limits_themselves_can_be_set():
    assert Issuer(name="creed", minimum_tag=32, skew_s=0)
    assert Issuer(name="creed", minimum_tag=64, max_token_age_s=0.5)


def test_an_issuer_is_configured_once():
    with pytest.raises(InvalidError, match="creed is configured twice"):
        IssuerRegistry([Issuer(name="creed"), Issuer(name="creed")])
    registry = IssuerRegistry([Issuer(name="creed"), Issuer(name="other")])
    assert len(registry) == 2
    assert registry.get("creed").name == "creed"
    assert registry.get("nobody") is None
