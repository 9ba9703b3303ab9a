import json
import os
import shlex
import stat
import subprocess
import sys
import time
from base64 import b64encode

import pytest

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.revocation import CrlSource, PublicKey, read_list
from comity.identity.protocol.tokens import (
    IdentityMode,
    Issuer,
    IssuerRegistry,
    SignatureKey,
    issue_a,
    issue_b,
    token_id,
    verify_identity,
)

STRANGER = SigningKey(b"s" * 32)


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret.txt"
    file.touch(0o600)
    file.write_text("a secret of at least sixteen bytes\n")
    return file


def issued(comity, *arguments):
    outcome = comity("id", "token", "issue", *arguments)
    assert outcome.code == 0, outcome.err
    return outcome.out.strip()


def verified(comity, *arguments):
    outcome = comity("id", "token", "verify", *arguments, "--json")
    result = json.loads(outcome.out)
    assert outcome.code == (0 if result["ok"] else 1)
    return result


def test_a_token_is_issued_with_the_key_of_the_node_and_verified_by_anybody(comity, identity):
    token = issued(comity, "alice", "--issuer", "acme")
    assert token.startswith("vcp-i:acme:user:alice:ed25519:")
    issuers = IssuerRegistry([Issuer(name="acme", signature_keys=(SignatureKey(identity.vacant_id.public),))])
    assert verify_identity(token, mode=IdentityMode.VERIFIED, issuers=issuers, now=0).ok
    result = verified(comity, token, "--key", identity.vacant_id.hex())
    assert result == {
        "ok": True,
        "reason": None,
        "form": "signed",
        "issuer": "acme",
        "subject": "alice",
        "owner": "acme:user:alice",
        "token_id": token_id(token),
    }


def test_the_issuer_is_the_node_itself_unless_named(comity, identity):
    assert issued(comity, "bot", "--kind", "agent").startswith(f"vcp-i:{identity.vacant_id.hex()}:agent:bot:")
    result = json.loads(comity("id", "token", "issue", "bot", "--json").out)
    assert result["issuer"] == result["key"] == identity.vacant_id.hex()
    assert result["token_id"] == token_id(result["token"])


def test_a_stamped_token_is_issued_and_verified_with_the_shared_secret(comity, identity, secret):
    token = issued(comity, "alice", "--secret-file", secret)
    assert token.startswith(f"vcp:i:{identity.vacant_id.hex()}:alice:")
    assert verified(comity, token, "--secret-file", secret)["ok"]
    assert verified(comity, token)["reason"] == "unknown_issuer"
    old = issue_b(b"a secret of at least sixteen bytes", issuer="a", subject="b", issued_at=1_700_000_000)
    assert verified(comity, old, "--secret-file", secret)["reason"] == "expired"
    secret.write_text("another secret of sixteen bytes")
    assert verified(comity, token, "--secret-file", secret)["reason"] == "bad_signature"


def test_a_token_of_somebody_else_is_verified_with_their_key_in_any_spelling(comity, data, tmp_path):
    token = issue_a(STRANGER, issuer="them", kind="user", subject="bob")
    pem = tmp_path / "key.pem"
    pem.write_text(
        "-----BEGIN PUBLIC KEY-----\n"
        + _base64(bytes.fromhex("302a300506032b6570032100") + STRANGER.vacant_id.public)
        + "\n-----END PUBLIC KEY-----\n"
    )
    public = STRANGER.vacant_id
    for key in (public.hex(), public.did_key(), _base64(public.public), f"@{pem}"):
        assert verified(comity, token, "--key", key)["owner"] == "them:user:bob"
    assert not data.exists()


def _base64(data):
    return b64encode(data).decode()


def test_the_issuers_of_the_settings_and_the_node_itself_are_known(comity, identity, monkeypatch):
    assert verified(comity, issued(comity, "alice"))["ok"]
    token = issue_a(STRANGER, issuer="them", kind="user", subject="bob")
    assert verified(comity, token)["reason"] == "unknown_issuer"
    monkeypatch.setenv("COMITY_VCP_ISSUERS", f"them={STRANGER.vacant_id.hex()}")
    assert verified(comity, token)["owner"] == "them:user:bob"
    refused = comity("id", "token", "issue", "alice", "--issuer", "them")
    assert refused.code != 0
    assert "vcp.issuers gives them another key" in refused.err


def test_tokens_under_another_name_are_known_here_too(comity, identity):
    assert verified(comity, issued(comity, "alice", "--issuer", "acme"))["owner"] == "acme:user:alice"


def test_a_revocation_is_on_the_list_of_the_name_that_the_token_carries(comity, identity, data):
    token = issued(comity, "alice", "--issuer", "acme")
    empty = listed(data / "revocations" / "acme.json", "acme", identity)
    assert empty.jtis == {}
    outcome = comity("id", "token", "revoke", token)
    assert str(data / "revocations" / "acme.json") in outcome.out
    assert listed(data / "revocations" / "acme.json", "acme", identity).jtis.keys() == {token_id(token)}
    assert comity("id", "token", "revoke", "--subject", "acme:bob").err == ""
    assert listed(data / "revocations" / "acme.json", "acme", identity).bundle_ids.keys() == {"acme:bob"}
    assert not (data / "revocations.json").exists()
    assert verified(comity, token)["reason"] == "revoked"


def test_the_token_of_another_issuer_is_revoked_on_this_node_alone_and_that_is_said(comity, identity, data):
    token = issue_a(STRANGER, issuer="them", kind="user", subject="bob")
    outcome = comity("id", "token", "revoke", token)
    assert (outcome.code, "only this node refuses it" in outcome.err) == (0, True)
    own = identity.vacant_id.hex()
    assert listed(data / "revocations.json", own, identity).jtis.keys() == {token_id(token)}
    assert not (data / "revocations").exists()


def listed(path, issuer, identity):
    source = CrlSource(
        issuer_id=issuer, uri="https://node.example/crl", key=PublicKey(identity.vacant_id.public)
    )
    return read_list(path.read_bytes(), source, now=time.time())


def test_a_shared_secret_that_is_configured_verifies_tokens_and_lets_them_expire(
    comity, identity, data, monkeypatch
):
    folder = data / "issuers"
    folder.mkdir(mode=0o700)
    file = folder / "acme.secret"
    file.touch(0o600)
    file.write_text("the new secret of acme\nthe secret of acme before\n")
    monkeypatch.setenv("COMITY_VCP_SECRET_ISSUERS", "acme")
    now = int(time.time())

    def token(secret, issued_at):
        return issue_b(secret, issuer="acme", subject="alice", issued_at=issued_at)

    assert verified(comity, token(b"the new secret of acme", now))["owner"] == "acme:alice"
    assert verified(comity, token(b"the secret of acme before", now))["owner"] == "acme:alice"
    assert verified(comity, token(b"the new secret of acme", now - 90_000))["reason"] == "expired"
    assert verified(comity, token(b"a secret nobody knows", now))["reason"] == "bad_signature"
    assert verified(comity, issued(comity, "bob", "--issuer", "acme"))["owner"] == "acme:user:bob"
    file.chmod(0o644)
    refused = comity("id", "token", "verify", token(b"the new secret of acme", now))
    assert refused.code == 1
    assert "chmod 600" in refused.err


def test_a_token_that_a_shell_saved_is_read_with_a_warning(comity, identity, tmp_path):
    """`comity id token issue alice > token.txt` makes a file that others may read."""
    file = tmp_path / "a token.txt"
    file.write_text(issued(comity, "alice") + "\n")
    file.chmod(0o644)
    outcome = comity("id", "token", "verify", f"@{file}")
    assert outcome.code == 0, outcome.err
    assert f"others can read {file}" in outcome.err
    assert f"chmod 600 '{file}'" in outcome.err
    assert comity("id", "token", "revoke", f"@{file}").code == 0
    file.chmod(0o600)
    outcome = comity("id", "token", "verify", f"@{file}")
    assert outcome.code == 1
    assert "chmod" not in outcome.err
    for missing in (tmp_path / "none", tmp_path, "a\0b"):
        refused = comity("id", "token", "verify", f"@{missing}")
        assert refused.code == 1
        assert "cannot be read: " in refused.err


def test_a_shared_secret_that_others_can_read_is_refused(comity, identity, secret):
    secret.chmod(0o644)
    for arguments in (("issue", "alice"), ("verify", "vcp:i:a:b:1:c")):
        refused = comity("id", "token", *arguments, "--secret-file", secret)
        assert refused.code == 1
        assert "chmod 600" in refused.err


def test_the_examples_of_the_help_work_as_they_are_typed(comity, identity, environ, tmp_path, secret):
    """In their order, in a shell. A key that is written with … is the one of this node, and standard input is a token
    with the secret.
    """
    examples = [
        line.strip().partition("  ")[0]
        for command in ("issue", "verify", "revoke")
        for line in comity("id", "token", command, "--help").out.splitlines()
        if line.startswith("  comity id token ")
    ]
    assert len(examples) == 8
    (tmp_path / "stamped").write_text(issued(comity, "alice", "--secret-file", secret))
    shell = f'umask 022; comity() {{ {shlex.quote(sys.executable)} -m comity "$@"; }}; '
    for example in examples:
        typed = example.replace("did:key:z6Mk…", identity.vacant_id.hex())
        with (tmp_path / "stamped").open() as stamped:
            ended = subprocess.run(
                ["sh", "-c", shell + typed],
                cwd=tmp_path,
                env={**environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=stamped,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        assert ended.returncode == 0, (example, ended.stderr)
    assert stat.S_IMODE((tmp_path / "token.txt").stat().st_mode) == 0o644


def test_a_token_of_a_stranger_is_not_good_here(comity, identity):
    token = issue_a(STRANGER, issuer="them", kind="user", subject="bob")
    outcome = comity("id", "token", "verify", token, "--key", identity.vacant_id.hex())
    assert outcome.code == 1
    assert "NOT VALID" in outcome.out
    assert "its signature does not fit the key of the issuer" in outcome.err
    assert token not in outcome.out + outcome.err


@pytest.mark.parametrize("token", ["", "nonsense", "vcp-i:a:b", "family.safe.guide", "vcp:i:a:b:x:y"])
def test_what_nobody_signed_is_not_good(comity, identity, token):
    assert verified(comity, token)["ok"] is False


def test_a_revoked_token_is_refused_and_cannot_be_issued_again(comity, identity, data, tmp_path):
    token = issued(comity, "alice")
    other = issued(comity, "alice", "--kind", "agent")
    file = tmp_path / "token.txt"
    file.touch(0o600)
    file.write_text(token)
    outcome = comity("id", "token", "revoke", f"@{file}", "--reason", "superseded")
    assert outcome.code == 0
    assert token not in outcome.out
    assert verified(comity, f"@{file}")["reason"] == "revoked"
    assert verified(comity, other)["ok"]
    again = comity("id", "token", "issue", "alice")
    assert again.code == 1
    assert "revoked here" in again.err
    result = json.loads(comity("id", "token", "revoke", token, "--json").out)
    assert result == {
        "revoked": token_id(token),
        "new": False,
        "reason": "issuer_request",
        "issuer": identity.vacant_id.hex(),
        "list": str(data / "revocations.json"),
    }
    assert "TOKEN_REVOKED" in comity("audit", "tail").out
    assert comity("audit", "verify").code == 0


def test_a_subject_is_revoked_with_all_its_tokens(comity, identity, secret):
    tokens = [issued(comity, "alice", "--issuer", "acme"), issued(comity, "bob", "--issuer", "acme")]
    stamped = issued(comity, "alice", "--issuer", "acme", "--secret-file", secret)
    assert comity("id", "token", "revoke", "--subject", "acme:alice").code == 0
    own = ("--key", identity.vacant_id.did_key())
    assert [verified(comity, token, *own)["reason"] for token in tokens] == ["revoked", None]
    assert verified(comity, stamped, "--secret-file", secret)["reason"] == "revoked"


def test_a_changed_list_is_refused_by_whoever_needs_it(comity, identity, data):
    token = issued(comity, "alice")
    comity("id", "token", "revoke", token)
    (data / "revocations.json").write_text("{}")
    for command in (("verify", token), ("issue", "bob"), ("revoke", token)):
        outcome = comity("id", "token", *command)
        assert outcome.code == 1
        assert "put the true list back" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("issue", "a b"),
        ("issue", "alice", "--issuer", "a:b"),
        ("issue", "alice", "--kind", "x", "--secret-file", "SECRET"),
        ("issue", "alice", "--secret-file", "/nowhere"),
        ("verify", "x", "--key", "short"),
        ("verify", "x", "--key", "@/nowhere"),
        ("verify", "x", "--key", "a", "--secret-file", "SECRET"),
        ("revoke",),
        ("revoke", "x", "--subject", "a:b"),
        ("revoke", "nonsense"),
        ("revoke", "--subject", "alice"),
        ("revoke", "--subject", "a:b:c"),
        ("revoke", "--subject", "a:b", "--reason", "mood"),
    ],
)
def test_a_call_that_cannot_be_used_is_one_sentence(comity, identity, secret, data, arguments):
    outcome = comity("id", "token", *(str(secret) if each == "SECRET" else each for each in arguments))
    assert outcome.code in (1, 2)
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert "unexpected error" not in outcome.err
    assert not (data / "revocations.json").exists()


def test_a_short_secret_is_refused(comity, identity, secret):
    secret.write_text("short\n")
    outcome = comity("id", "token", "issue", "alice", "--secret-file", secret)
    assert outcome.code == 1
    assert "at least 16 bytes" in outcome.err


def test_without_an_identity_nothing_is_issued(comity, data):
    outcome = comity("id", "token", "issue", "alice")
    assert outcome.code == 1
    assert "comity id new" in outcome.err
    assert not data.exists()
