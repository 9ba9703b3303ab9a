"""The recorded tokens: how they are read, folded, matched and verified."""

from base64 import b64decode

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.tokens import (
    IdentityMode,
    Issuer,
    IssuerRegistry,
    SharedKey,
    SignatureKey,
    issue_a,
    issue_b,
    parse_signed,
    verify_identity,
)
from comity.identity.protocol.uvc import (
    NumberedVersion,
    UvcTokenError,
    UvcUri,
    canonicalise,
    matches,
    parse_uvc,
)
from comity.testing.vectors import format_runner, known_keys
from tests.identity.protocol.known_answers import of, signed_objects


def shown(text):
    """Everything that a recorded expectation may ask about a text."""
    try:
        token = parse_uvc(text)
    except UvcTokenError as refusal:
        return {"valid": False, "error": refusal.label}
    parent = token.parent()
    answer = {
        "valid": True,
        "domain": token.domain,
        "approach": token.approach,
        "role": token.role,
        "path": list(token.path),
        "depth": token.depth,
        "version": None if token.version is None else str(token.version),
        "namespace": token.namespace,
        "canonical_display": str(token),
        "has_parent": parent is not None,
        "uri_with_registry_creed_space": str(UvcUri(token)),
    }
    if parent is not None:
        answer["parent_canonical"] = str(parent)
    if isinstance(token.version, NumberedVersion):
        answer["version_major"] = token.version.major
        answer["version_minor"] = token.version.minor
        answer["version_patch"] = token.version.patch
    return answer


def compared(answer, expected):
    known_keys(expected, *answer)
    for key in expected.keys() & answer.keys():
        assert answer[key] == expected[key], key


@format_runner("vcp", "identity_token_parsing")
def test_vector_vcp_token_is_read_matched_and_placed_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected", "pattern", "ancestor", "descendant")
    if "pattern" in case:
        answer = {"matches": matches(case["pattern"], parse_uvc(case["input"]))}
    elif "ancestor" in case:
        above, below = parse_uvc(case["ancestor"]), parse_uvc(case["descendant"])
        answer = {
            "is_ancestor": above.is_ancestor_of(below),
            "is_descendant": below.is_descendant_of(above),
            "reverse_is_ancestor": below.is_ancestor_of(above),
        }
    else:
        answer = shown(case["input"])
    compared(answer, case["expected"])


@format_runner("vcp", "identity_token_canonicalization")
def test_vector_vcp_token_is_folded_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    canonical = canonicalise(case["input"])
    compared({"canonical": canonical, "valid": shown(canonical)["valid"]}, case["expected"])


@format_runner("vcp", "signed_objects", cases=signed_objects, takes=of("form_a"))
def test_vector_vcp_signed_token_is_issued_and_verified_byte_for_byte(case):
    known_keys(case, "token", "signed_bytes_utf8")
    token = parse_signed(case["token"])
    assert token.signed_text == case["signed_bytes_utf8"]
    key = SigningKey.from_seed(b"\x01" * 32)
    public = b64decode(case.public_base64)
    assert key.vacant_id.public == public
    assert case["token"] == issue_a(key, issuer=token.issuer, kind=token.kind, subject=token.subject)
    issuers = IssuerRegistry([Issuer(name=token.issuer, signature_keys=(SignatureKey(public),))])
    assert verify_identity(case["token"], mode=IdentityMode.VERIFIED, issuers=issuers, now=0.0).ok


@format_runner("vcp", "signed_objects", cases=signed_objects, takes=of("form_b"))
def test_vector_vcp_stamped_token_is_issued_and_verified_byte_for_byte(case):
    known_keys(case, "token", "signed_bytes_utf8", "issued_at")
    token = parse_signed(case["token"])
    assert token.signed_text == case["signed_bytes_utf8"]
    assert token.issued_at == case["issued_at"]
    issued = issue_b(case.secret, issuer=token.issuer, subject=token.subject, issued_at=case["issued_at"])
    assert case["token"] == issued
    issuers = IssuerRegistry([Issuer(name=token.issuer, shared_keys=(SharedKey(case.secret),))])
    verdict = verify_identity(
        case["token"], mode=IdentityMode.VERIFIED, issuers=issuers, now=float(case["issued_at"])
    )
    assert verdict.ok


@format_runner("vcp", "signed_objects", cases=signed_objects, takes=of("structural"))
def test_vector_vcp_examples_of_the_documents_are_accepted_by_their_structure_alone(case):
    by_structure = verify_identity(
        case["token"], mode=IdentityMode.STRUCTURAL, issuers=IssuerRegistry(), now=0.0
    )
    assert by_structure.ok
    assert by_structure.owner is None
    assert not verify_identity(
        case["token"], mode=IdentityMode.VERIFIED, issuers=IssuerRegistry(), now=0.0
    ).ok


@format_runner("vcp", "signed_objects", cases=signed_objects, takes=of("sections"))
def test_vector_vcp_signed_objects_hold_what_is_understood(case):
    assert not case["unknown"]
