import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.access_token import SigningKeys, UnknownKeyError, read_access_token
from comity.wire.errors import MalformedError, UnauthenticatedError
from tests.identity.protocol.authorization_server import ISSUER, NOW, RESOURCE, Signer, b64, whole

SIGNER = Signer("EdDSA")


def read(token, signer=SIGNER, now=NOW):
    return read_access_token(token, SigningKeys(signer.jwks), issuer=ISSUER, audience=RESOURCE, now=now)


@pytest.mark.parametrize("kind", ["RS256", "ES256", "EdDSA"])
def test_a_token_for_us_is_accepted_and_no_other_key_verifies_it(kind):
    signer = Signer(kind)
    access = read(signer.token(scope="mcp openid"), signer)
    assert (access.issuer, access.subject, access.scopes) == (ISSUER, "ada", {"mcp", "openid"})
    with pytest.raises(UnauthenticatedError, match="signature"):
        read(Signer(kind).token(), signer)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "https://other.example/mcp"}, "somebody else"),
        ({"aud": None}, "somebody else"),
        ({"aud": [RESOURCE + "/"]}, "somebody else"),
        ({"iss": ISSUER + "/"}, "another issuer"),
        ({"exp": NOW - 1}, "expired at .* the clock here says"),
        ({"exp": None}, "expired"),
        ({"exp": True}, "expired"),
        ({"nbf": NOW + 301}, "not valid before .* the clock here says"),
        ({"nbf": 10**400}, "not valid before a time outside"),
        ({"exp": -(10**400)}, "expired"),
        ({"nbf": "now"}, "numbers of seconds"),
        ({"iss": None}, "another issuer"),
        ({"sub": ""}, "subject"),
        ({"sub": 7}, "subject"),
    ],
)
def test_a_token_that_is_not_for_us_or_not_for_now_is_refused(claims, why):
    with pytest.raises(UnauthenticatedError, match=why):
        read(SIGNER.token(**claims))


def test_one_of_several_audiences_and_a_start_five_minutes_ahead_are_fine():
    assert read(SIGNER.token(aud=["https://a.example", RESOURCE], exp=NOW, nbf=NOW + 300)).subject == "ada"


def test_an_end_beyond_what_a_float_can_hold_is_an_end():
    assert read(SIGNER.token(exp=10**400)).subject == "ada"


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256", "ES256", "eddsa", None])
def test_the_token_does_not_choose_the_algorithm(algorithm):
    with pytest.raises(UnauthenticatedError, match="signature"):
        read(SIGNER.token(head={"alg": algorithm}))


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": None, "scp": ["mcp", "agents", 7]}, {"mcp", "agents"}),
        ({"scope": None, "scp": "mcp agents"}, {"mcp", "agents"}),
        ({"scope": "openid", "scp": ["mcp"]}, {"openid", "mcp"}),
        ({"scope": {"mcp": True}, "scp": 7}, set()),
    ],
)
def test_scopes_are_read_from_scope_and_from_scp(claims, scopes):
    assert read(SIGNER.token(**claims)).scopes == scopes


@pytest.mark.parametrize("type_", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", None])
def test_an_access_token_may_call_itself_a_jwt_or_nothing(type_):
    assert read(SIGNER.token(head={"typ": type_})).subject == "ada"


@pytest.mark.parametrize("type_", ["dpop+jwt", "logout+jwt", "", 7, ["at+jwt"]])
def test_a_token_of_another_type_is_refused(type_):
    with pytest.raises(UnauthenticatedError, match="at\\+jwt nor JWT"):
        read(SIGNER.token(head={"typ": type_}))


def test_a_public_key_is_never_taken_for_a_shared_secret():
    signer = Signer("RS256")
    public = signer.public_pem()
    signed = signer.unsigned(head={"alg": "HS256"})
    forged = f"{signed}.{b64(hmac.digest(public, signed.encode(), 'sha256'))}"
    with pytest.raises(UnauthenticatedError, match="signature"):
        read(forged, signer)
    oct_ = {"kty": "oct", "alg": "HS256", "k": b64(public), "kid": "k1"}
    assert len(SigningKeys({"keys": [oct_, {**signer.jwks["keys"][0], "alg": "HS256"}]})) == 0


def test_the_key_with_the_named_id_is_the_only_one_tried():
    first, second = Signer("EdDSA", kid="a"), Signer("EdDSA", kid="b")
    keys = SigningKeys({"keys": first.jwks["keys"] + second.jwks["keys"]})
    judged = {"issuer": ISSUER, "audience": RESOURCE, "now": NOW}
    assert read_access_token(second.token(), keys, **judged).subject == "ada"
    with pytest.raises(UnauthenticatedError, match="signature"):
        read_access_token(second.token(head={"kid": "a"}), keys, **judged)
    with pytest.raises(UnknownKeyError):
        read_access_token(second.token(head={"kid": None}), keys, **judged)


def test_a_payload_that_is_not_encoded_is_refused():
    with pytest.raises(UnauthenticatedError, match="JWT"):
        read(SIGNER.token(head={"b64": False}))


def test_claims_nested_without_end_are_refused():
    nested = []
    for _ in range(900):
        nested = [nested]
    assert read(SIGNER.token(deep=nested)).subject == "ada"
    with pytest.raises(UnauthenticatedError, match="JWT"):
        read(SIGNER.sign_claims("[" * 7000))


def test_a_key_that_is_not_published_is_told_apart():
    with pytest.raises(UnknownKeyError):
        read(SIGNER.token(head={"kid": "k2"}))


def test_a_critical_header_is_refused():
    with pytest.raises(UnauthenticatedError, match="JWT"):
        read(SIGNER.token(head={"crit": ["b64"]}))


def test_weak_encryption_and_unreadable_keys_are_left_out():
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key().public_numbers()
    keys = SigningKeys(
        {
            "keys": [
                {"kty": "RSA", "n": whole(weak.n), "e": whole(weak.e)},
                {**SIGNER.jwks["keys"][0], "use": "enc"},
                {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
                {"kty": "oct", "k": "AAAA"},
                "no key",
            ]
        }
    )
    assert len(keys) == 0
    with pytest.raises(MalformedError):
        SigningKeys([])


@given(st.text(max_size=200) | st.builds("{}.{}.{}".format, st.text(), st.text(), st.text()))
def test_what_is_no_token_is_refused_and_never_a_fault(text):
    with pytest.raises(UnauthenticatedError):
        read(text)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(place, change):
    token = bytearray(SIGNER.token().encode())
    at = place % len(token)
    token[at] = (token[at] + change) % 128
    changed = token.decode("latin-1")
    if changed.rstrip("=") == SIGNER.token():
        return
    try:
        access = read(changed)
    except UnauthenticatedError:
        return
    assert access == read(SIGNER.token())  # only spare bits of base64 can differ
