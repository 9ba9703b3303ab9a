"""The four core tools: results, remedies, and that answers fit their schemas."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from comity.identity.protocol.revocation import Denylist
from comity.identity.protocol.tokens import IdentityMode, Issuer, IssuerRegistry, SharedKey, issue_b, token_id
from comity.testing import EPOCH, VirtualClock
from comity.vcp import tools as schemas
from comity.vcp.contexts import UnreadableContextError
from comity.vcp.identity import IdentityChecker
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.signals import ContextError
from comity.vcp.tool_handlers import (
    InactiveExtensionError,
    RevokedError,
    encode_context,
    parse_csm1,
    refused,
    status,
    validate_token,
)
from comity.wire.errors import NotFoundError, UnauthenticatedError
from tests.vcp.runtime import ALICE, ISSUERS, PERSONAL, token
from tests.wire.json_values import values

SECRET = b"a shared secret of an issuer"
STAMPING = IssuerRegistry([Issuer(name="stamps", shared_keys=(SharedKey(SECRET),))])
STAMPED = issue_b(SECRET, issuer="stamps", subject="bob", issued_at=int(EPOCH))
REMEDY = "Re-authenticate with a valid VCP/I token"
UVC_KEYS = {
    "canonical",
    "full",
    "domain",
    "approach",
    "role",
    "segments",
    "depth",
    "version",
    "namespace",
    "uri",
}


def checker(mode=IdentityMode.VERIFIED, **named):
    return IdentityChecker(VirtualClock(), **({"mode": mode, "issuers": ISSUERS} | named))


def fits(answer, schema):
    result = json.loads(json.dumps(answer.structured))
    Draft202012Validator(schema).validate(result)
    return result


async def validated(text, **named):
    answer = await validate_token(text, checker(**named))
    assert not answer.is_error
    return fits(answer, schemas.VALIDATE_TOKEN_OUTPUT)


class TestAToken:
    @pytest.mark.parametrize("mode", list(IdentityMode))
    async def test_of_values_is_taken_apart(self, mode):
        result = await validated("company.acme.legal.compliance@^1.2.0:SEC", mode=mode)
        assert result == {
            "valid": True,
            "kind": "uvc",
            "canonical": "company.acme.legal.compliance",
            "full": "company.acme.legal.compliance@^1.2.0:SEC",
            "domain": "company",
            "approach": "legal",
            "role": "compliance",
            "segments": ["company", "acme", "legal", "compliance"],
            "depth": 4,
            "version": "^1.2.0",
            "namespace": "SEC",
            "uri": "creed://creed.space/company.acme.legal.compliance@^1.2.0",
            "verification": "structural" if mode is IdentityMode.STRUCTURAL else "none",
            "trust_chain": [],
        }

    @pytest.mark.parametrize(
        "address", ["creed://creed.space/family.safe.guide", "vcp://creed.space/family/safe/guide"]
    )
    async def test_may_be_given_by_its_address(self, address):
        assert (await validated(address))["canonical"] == "family.safe.guide"

    @pytest.mark.parametrize(
        ("text", "label"),
        [
            ("", "empty_token"),
            ("family.safe", "too_few_segments"),
            ("Family.safe.guide", "invalid_segment"),
            ("family.safe.guide@1", "invalid_version"),
            ("family.safe.guide:sec", "invalid_namespace"),
            ("a" * 100_000, "too_few_segments"),
            ("vcp-i:creed:user", "malformed"),
            ("vcp:i:creed:user:soon:ab", "malformed"),
            ("creed://", "malformed"),
            (None, "malformed"),
            (5, "malformed"),
            (["family.safe.guide"], "malformed"),
        ],
    )
    async def test_that_is_none_is_a_finding_with_a_label_and_a_remedy(self, text, label):
        result = await validated(text)
        assert (result["valid"], result["kind"]) == (False, None)
        assert result["error"].startswith(f"{label}: ")
        assert result["error"].splitlines()[-1] == REMEDY

    async def test_that_an_issuer_signed_is_verified_and_its_proof_not_repeated(self):
        signed = token()
        result = await validated(signed)
        assert (result["valid"], result["kind"], result["verification"]) == (True, "signed_a", "verified")
        assert (result["issuer"], result["subject"]) == ("creed", "alice")
        assert result.keys() >= UVC_KEYS
        assert result["canonical"] == signed.rpartition(":")[0]
        assert result["uri"] == f"vcp://identity/{token_id(signed)[:8]}"
        assert result["trust_chain"] == [
            {"role": "issuer", "id": "creed", "trust": "configured"},
            {"role": "subject", "id": "alice", "trust": "ed25519"},
        ]
        assert signed.rpartition(":")[2] not in json.dumps(result)

    async def test_that_an_issuer_stamped_is_verified(self):
        result = await validated(STAMPED, issuers=STAMPING)
        assert (result["kind"], result["verification"]) == ("signed_b", "verified")
        assert result["trust_chain"][1] == {"role": "subject", "id": "bob", "trust": "hmac-sha256"}

    async def test_is_only_looked_at_where_identities_are_structural(self):
        result = await validated(
            "vcp-i:creed:user:u_8f3k2m:ed25519:base64url_signature", mode=IdentityMode.STRUCTURAL
        )
        assert (result["valid"], result["verification"], result["trust_chain"]) == (True, "structural", [])

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            (token()[:-4] + "AAAA", {}),
            (token(), {"issuers": IssuerRegistry()}),
            (STAMPED[:-1] + ("0" if STAMPED[-1] != "0" else "1"), {"issuers": STAMPING}),
        ],
    )
    async def test_that_is_not_proven_is_refused_and_nobody_is_told_why(self, text, named):
        result = await validated(text, **named)
        assert result["error"] == (
            f"identity_invalid: the identity token was not accepted; obtain a fresh one\n{REMEDY}"
        )
        assert (result["valid"], result["verification"], result["trust_chain"]) == (False, "refused", [])

    async def test_that_is_revoked_is_refused_and_that_is_said(self):
        result = await validated(token(), denylist=lambda: Denylist(jtis=frozenset({token_id(token())})))
        assert result["error"].startswith("identity_invalid: the VCP/I identity token has been revoked")
        assert result["error"].endswith(REMEDY)

    async def test_of_values_can_be_revoked_here(self):
        denied = Denylist(jtis=frozenset({token_id("family.safe.guide")}))
        result = await validated("family.safe.guide", mode=IdentityMode.STRUCTURAL, denylist=lambda: denied)
        assert (result["valid"], result["kind"]) == (False, "uvc")

    async def test_is_put_on_record_when_its_revocation_is_decided(self):
        record = []
        await validate_token(
            token(), checker(), lambda verdict, status: record.append((verdict.owner, status.status))
        )
        assert record == [("creed:user:alice", "good")]


class TestACode:
    def test_is_told_in_letters_and_in_words(self):
        answer = parse_csm1("N5+F+H:ELEM@1.2.0")
        assert not answer.is_error
        result = fits(answer, schemas.PARSE_CSM1_OUTPUT)
        descriptions = result.pop("scope_descriptions")
        assert (len(descriptions), all(descriptions)) == (2, True)
        assert result == {
            "valid": True,
            "persona": "NANNY",
            "persona_name": "nanny",
            "persona_code": "N",
            "persona_description": "Child safety and family-appropriate content",
            "adherence": 5,
            "adherence_level": 5,
            "adherence_name": "maximum",
            "scopes": ["FAMILY", "HEALTHCARE"],
            "scope_codes": ["F", "H"],
            "namespace": "ELEM",
            "version": "1.2.0",
            "tier": "MICRO",
            "encoded": "N5+F+H:ELEM@1.2.0",
            "canonical": "N5+F+H:ELEM@1.2.0",
            "warnings": [],
        }

    def test_has_a_token_only_when_it_is_compact(self):
        result = fits(parse_csm1("CS1|nanny|5|family.safe.guide|F,E"), schemas.PARSE_CSM1_OUTPUT)
        assert (result["tier"], result["token"], result["canonical"]) == (
            "COMPACT",
            "family.safe.guide",
            "N5+E+F",
        )
        assert "token" not in parse_csm1("N5").structured

    def test_that_does_not_suit_its_persona_is_valid_with_a_warning(self):
        assert parse_csm1("N5+A").structured["warnings"] == ["nanny is not meant for adult"]

    @given(values() | st.text())
    def test_is_read_or_found_wrong_and_never_an_error(self, code):
        answer = parse_csm1(code)
        fits(answer, schemas.PARSE_CSM1_OUTPUT)
        assert not answer.is_error

    def test_that_is_none_is_a_finding_with_a_label(self):
        result = parse_csm1("R4+E").structured
        assert result == {"valid": False, "label": "invalid_persona", "error": result["error"]}
        assert result["error"].startswith("invalid_persona: R (anchor) is retired")


SITUATION = {"time": "morning", "space": "home", "formality": ["professional"]}
PERSON = {"cognitive_state": {"value": "focused", "intensity": 4}}


class TestAContext:
    @pytest.mark.parametrize(
        "arguments",
        [
            {"dimensions": SITUATION, "personal": PERSON},
            {"dimensions": SITUATION | PERSON},
            SITUATION | PERSON,
            SITUATION | {"personal": PERSON},
            {"dimensions": SITUATION, "cognitive_state": "focused:4", "personal": None},
            {"dimensions": SITUATION, "personal": {"signals": PERSON}},
            {
                "dimensions": SITUATION | {"time": "🌅"},
                "time": "night",
                "personal": PERSON,
                "cognitive_state": "foggy",
            },
        ],
    )
    def test_is_encoded_whichever_way_it_is_told(self, arguments):
        allowed = arguments if arguments.get("personal", {}) is not None else {}
        Draft202012Validator(schemas.ENCODE_CONTEXT_INPUT).validate(allowed)
        answer = encode_context(arguments)
        assert not answer.is_error
        assert fits(answer, schemas.ENCODE_CONTEXT_OUTPUT) == {
            "wire_format": "⏰🌅|📍🏡|🎩💼‖🧠focused:4",
            "json_format": {
                "situational": {"time": ["🌅"], "space": ["🏡"], "formality": ["💼"]},
                "personal": PERSON,
            },
            "dimensions_set": ["time", "space", "formality", "cognitive_state"],
            "conformance_level": "VCP-Extended",
            "categorical_wire": "\u2796:💼:\u2796:🌅:🏠:\u2796:\u2796:\u2796:\u2796",
            "metadata": {
                "has_emergency": False,
                "has_children": False,
                "is_professional": True,
                "unknown_relationship": False,
            },
        }

    def test_of_nothing_is_empty(self):
        result = fits(encode_context({}), schemas.ENCODE_CONTEXT_OUTPUT)
        assert (result["wire_format"], result["dimensions_set"], result["conformance_level"]) == (
            "",
            [],
            "VCP-Minimal",
        )

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            ({"dimensions": "morning"}, "dimensions"),
            ({"dimensions": {"mood": "good"}}, "dimensions.mood"),
            ({"mood": "good"}, "dimensions.mood"),
            ({"time": "afternoon"}, "dimensions.time"),
            ({"personal": ["pain"]}, "personal"),
            ({"personal": {"signals": 3}}, "signals"),
            ({"personal": {"time": "morning"}}, "personal.time"),
            ({"personal": {"cognitive_state": "pain"}}, "personal.cognitive_state.category"),
        ],
    )
    def test_that_cannot_be_encoded_is_an_error_that_names_the_field(self, arguments, field):
        answer = encode_context(arguments)
        assert answer.is_error
        assert answer.structured["field"] == field

    @given(st.dictionaries(st.sampled_from(["dimensions", "personal", "time", "cognitive_state"]), values()))
    def test_of_any_json_is_encoded_or_refused(self, arguments):
        answer = encode_context(arguments)
        assert answer.is_error or fits(answer, schemas.ENCODE_CONTEXT_OUTPUT)


class TestTheStatus:
    def status_of(self, session):
        answer = status(server_version="1.2.3", uptime=12.34567, session=session)
        assert not answer.is_error
        return fits(answer, schemas.STATUS_OUTPUT)

    def test_without_a_hello_is_that_of_vcp_1_0(self):
        assert self.status_of(None) == {
            "server": "comity",
            "server_version": "1.2.3",
            "negotiated": False,
            "negotiated_version": "1.0",
            "session_id": None,
            "active_extensions": [],
            "core_features": dict.fromkeys(
                ("encryption", "injection_scanning", "revocation", "audit_chain", "context_opacity"), False
            ),
            "session_ended": None,
            "identity": "anonymous",
            "uptime_seconds": 12.346,
        }

    @pytest.mark.parametrize(
        ("identity", "said"),
        [(None, "anonymous"), (Identity(subject="u"), "structural"), (ALICE, "verified")],
    )
    def test_after_one_is_what_was_agreed_on(self, identity, said):
        result = self.status_of(
            Session(
                id="ses_1",
                version="3.1",
                extensions=(PERSONAL,),
                core_features={"encryption": True},
                identity=identity,
            )
        )
        assert (result["negotiated"], result["negotiated_version"], result["session_id"]) == (
            True,
            "3.1",
            "ses_1",
        )
        assert (result["active_extensions"], result["identity"]) == ([PERSONAL], said)
        assert result["core_features"]["encryption"]
        assert not result["core_features"]["revocation"]

    def test_of_an_implicit_session_promises_nothing(self):
        result = self.status_of(
            Session(id="s", version="1.0", core_features={"encryption": True}, mode="implicit")
        )
        assert (result["negotiated"], any(result["core_features"].values())) == (False, False)


INPUTS = {
    "token": (schemas.VALIDATE_TOKEN_INPUT, {"token": "family.safe.guide"}),
    "code": (schemas.PARSE_CSM1_INPUT, {"code": "N5"}),
    "context": (schemas.ENCODE_CONTEXT_INPUT, {"dimensions": {"time": "morning"}}),
    "status": (schemas.STATUS_INPUT, {}),
}


@pytest.mark.parametrize(
    "schema", [value for name, value in vars(schemas).items() if name.endswith(("_INPUT", "_OUTPUT"))]
)
def test_is_a_schema(schema):
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_closed(name):
    schema, fitting = INPUTS[name]
    Draft202012Validator(schema).validate(fitting)
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate(fitting | {"surprise": 1})


@pytest.mark.parametrize(
    "arguments",
    [
        {"dimensions": {"mood": "x"}},
        {"dimensions": {"time": 3}},
        {"personal": {"time": "morning"}},
        {"personal": {"body_signals": {"value": "pain", "surprise": 1}}},
        {"personal": {"body_signals": {"value": "pain", "intensity": 6}}},
    ],
)
def test_the_objects_inside_are_closed_too(arguments):
    with pytest.raises(ValidationError):
        Draft202012Validator(schemas.ENCODE_CONTEXT_INPUT).validate(arguments)


@pytest.mark.parametrize(
    ("error", "last_line"),
    [
        (UnauthenticatedError("not accepted"), "Re-authenticate with a valid VCP/I token"),
        (
            ContextError("CONSTITUTION_REFUSED", "failed (role_delimiter)", "constitution"),
            "Constitution content failed safety scan",
        ),
        (RevokedError("key_compromise"), "Bundle has been revoked: key_compromise"),
        (
            InactiveExtensionError("VCP-X-Torch"),
            "Extension VCP-X-Torch is not active. Re-initialize with the extension in your VCP-Hello",
        ),
        (UnreadableContextError("anything"), "Context decryption failed. Session may be corrupted"),
        (NotFoundError("no such session; begin one"), "no such session; begin one"),
    ],
)
def test_the_last_line_says_what_to_do(error, last_line):
    answer = refused(error)
    assert answer.is_error
    assert answer.text.splitlines()[-1] == last_line
    assert answer.structured["error"] == answer.text


def test_what_was_wrong_is_told_before():
    assert refused(UnauthenticatedError("the token has expired")).text.startswith("the token has expired\n")


def test_a_fault_in_a_context_names_its_field():
    result = refused(ContextError("INVALID", "too much", "personal.mood")).structured
    assert (result["code"], result["field"]) == ("invalid", "personal.mood")
