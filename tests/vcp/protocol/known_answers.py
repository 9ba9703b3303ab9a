"""The recorded handshakes: how a recorded server is configured, and how its answer is judged."""

from comity.identity.protocol.tokens import IdentityMode, IssuerRegistry, verify_identity
from comity.vcp.protocol import agreement
from comity.vcp.protocol.agreement import Identity
from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.negotiation import ServerPolicy
from comity.vcp.protocol.registry import Extension, ExtensionRegistry

JUDGED_APART = ("negotiated", "capability_contains", "message_contains", "rejected")


def seed_messages(content):
    """Each literal message of the two documents; a door that carries them in its own takes the others."""
    for document, messages in content.items():
        for name, message in messages.items():
            several = message if isinstance(message, list) else [message]
            for number, each in enumerate(several):
                label = f"{document}.{name}" + (f".{number}" if message is several else "")
                yield label, {"name": name, "message": each, "beside": messages}


def is_handshake(case):
    return not case["name"].startswith("mcp_") and "type" in case["message"]


def is_context_request(case):
    return case["name"] == "context_request"


def policy_of(server):
    """Raises ConfigError when the recorded configuration cannot be used."""
    conflicts = server.get("conflicts", [])
    return ServerPolicy(
        core_features=server.get("core_features", {}),
        registry=ExtensionRegistry(
            Extension(
                id=id_,
                capability=lambda capability=capability: capability,
                dependencies=built_in()[id_].dependencies if id_ in built_in() else (),
                conflicts=tuple(other for pair in conflicts if id_ in pair for other in pair if other != id_),
            )
            for id_, capability in server.get("extensions", {}).items()
        ),
        versions=agreement.offered(server.get("supported_versions", ["1.0", "2.0", "3.0", "3.1"])),
        identity="required" if server.get("require_identity") else "optional",
        environment=server.get("environment", "development"),
        server_id=server.get("server_id"),
    )


def structural(token):
    """What the token is good for when only its grammar is looked at."""
    verdict = verify_identity(token, mode=IdentityMode.STRUCTURAL, issuers=IssuerRegistry(), now=0.0)
    return (
        Identity(issuer=verdict.issuer, subject=verdict.subject, owner=verdict.owner) if verdict.ok else None
    )


def judge(answer, expected):
    if "rejected" in expected:
        assert (answer.get("type") != "vcp-ack") == expected["rejected"]
    if "negotiated" in expected:
        assert (answer["type"], answer["version"]) == ("vcp-ack", expected["negotiated"])
    for id_, members in expected.get("capability_contains", {}).items():
        assert answer["capabilities"][id_] == answer["capabilities"][id_] | members
    for text in expected.get("message_contains", []):
        assert text in answer["message"]
    compared = {key: value for key, value in expected.items() if key not in JUDGED_APART}
    assert {key: answer.get(key, "missing") for key in compared} == compared
