import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.revocation import (
    CRLEntry,
    CrlSource,
    PublicKey,
    Revocable,
    RevocationReason,
    read_list,
    write_moment,
)
from comity.vcp.issuers import LIST_FILE, OwnRevocations
from comity.wire.errors import StoreCorruptError

KEY = SigningKey(b"k" * 32)
NOW = 1_800_000_000
ONE = CRLEntry(
    bundle_id="", jti="a" * 64, revoked_at="2026-01-01T00:00:00Z", reason=RevocationReason.SUPERSEDED
)
ALICE = replace(ONE, jti="", bundle_id="acme:alice")

REVOKE_MANY = """
import sys
from pathlib import Path
from msgspec.structs import replace
from tests.vcp.test_vcp_revocations import KEY, NOW, ONE
from comity.vcp.issuers import OwnRevocations
own = OwnRevocations(Path(sys.argv[1]), KEY.vacant_id)
for number in range(20):
    own.revoke(replace(ONE, jti=f"{sys.argv[2]}-{number}"), KEY, NOW)
"""


@pytest.fixture
def own(tmp_path):
    return OwnRevocations(tmp_path, KEY.vacant_id)


def test_without_a_list_nothing_is_revoked(own):
    assert own.read() == ()
    assert not own.denylist().names(Revocable(("a" * 64,), "acme:alice"))


def test_a_token_or_a_whole_subject_is_denied_from_then_on(own):
    assert own.revoke(ONE, KEY, NOW)
    assert own.denylist().names(Revocable(("a" * 64,), "acme:bob"))
    assert not own.denylist().names(Revocable(("b" * 64,), "acme:alice"))
    assert own.revoke(ALICE, KEY, NOW)
    assert own.denylist().names(Revocable(("b" * 64,), "acme:alice"))
    assert not own.denylist().names(Revocable(("b" * 64,), None))
    assert own.read() == (ONE, ALICE)


def test_another_process_sees_it_at_once(own, tmp_path):
    other = OwnRevocations(tmp_path, KEY.vacant_id)
    assert not other.denylist().jtis
    own.revoke(ONE, KEY, NOW)
    assert other.denylist().jtis == {"a" * 64}
    own.revoke(replace(ONE, jti="b" * 64), KEY, NOW)
    assert other.denylist().jtis == {"a" * 64, "b" * 64}


def test_what_is_on_the_list_is_not_put_there_twice(own):
    own.revoke(ONE, KEY, NOW)
    before = own.path().read_bytes()
    assert not own.revoke(replace(ONE, reason=RevocationReason.KEY_COMPROMISE), KEY, NOW + 1)
    assert own.path().read_bytes() == before


def test_the_file_is_a_list_that_others_can_read(own):
    own.revoke(ALICE, KEY, NOW)
    source = CrlSource(
        issuer_id=KEY.vacant_id.hex(), uri="https://node.example/crl", key=PublicKey(KEY.vacant_id.public)
    )
    found = read_list(own.path().read_bytes(), source, now=NOW + 1)
    assert found.bundle_ids == {"acme:alice": "superseded"}


def test_it_counts_here_also_after_its_time(own):
    own.revoke(ONE, KEY, 1)
    assert own.denylist().names(Revocable(("a" * 64,)))


@pytest.mark.parametrize(
    "change",
    [
        lambda crl: {**crl, "entries": []},
        lambda crl: {**crl, "issuer_id": "0" * 64},
        lambda crl: {**crl, "signature": ""},
        lambda crl: {**crl, "more": 1},
        lambda crl: [crl],
        lambda crl: "x" * 1_100_000,
    ],
)
def test_a_list_that_somebody_changed_is_refused_and_not_overlooked(own, change):
    own.revoke(ONE, KEY, NOW)
    own.path().write_text(json.dumps(change(json.loads(own.path().read_text()))))
    with pytest.raises(StoreCorruptError, match=LIST_FILE):
        own.denylist()
    with pytest.raises(StoreCorruptError):
        own.denylist()
    with pytest.raises(StoreCorruptError):
        own.revoke(ALICE, KEY, NOW)


def test_a_list_of_another_node_is_refused(own, tmp_path):
    own.revoke(ONE, KEY, NOW)
    with pytest.raises(StoreCorruptError, match="not signed by this node"):
        OwnRevocations(tmp_path, SigningKey(b"x" * 32).vacant_id).denylist()


def test_a_list_is_there_before_anything_is_revoked(own):
    assert own.issuers() == (KEY.vacant_id.hex(),)
    assert own.current("acme", KEY, NOW) is None
    own.open_list("acme", KEY, NOW)
    assert own.issuers() == (KEY.vacant_id.hex(), "acme")
    for issuer in own.issuers():
        assert own.current(issuer, KEY, NOW).entries == ()
        assert listed(own, issuer, NOW).jtis == {}


def test_a_revocation_is_on_the_list_of_its_issuer_alone(own):
    own.open_list("acme", KEY, NOW)
    own.revoke(ALICE, KEY, NOW, "acme")
    assert listed(own, "acme", NOW).bundle_ids.keys() == {"acme:alice"}
    assert listed(own, KEY.vacant_id.hex(), NOW).bundle_ids == {}
    assert own.denylist().names(Revocable(("b" * 64,), "acme:alice"))


def test_lists_are_signed_again_every_day_and_never_run_out(own):
    own.open_list("acme", KEY, NOW)
    own.revoke(ALICE, KEY, NOW, "acme")
    first = own.path("acme").read_bytes()
    own.renew(KEY, NOW + 86_399)
    assert own.path("acme").read_bytes() == first
    for day in range(1, 30):
        now = NOW + day * 86_400
        own.renew(KEY, now)
        for issuer in own.issuers():
            assert listed(own, issuer, now + 6 * 86_400).is_fresh(now)
        assert listed(own, "acme", now).bundle_ids.keys() == {"acme:alice"}


def test_whoever_asks_for_a_list_that_is_due_gets_a_new_one(own):
    own.open_list("acme", KEY, NOW)
    assert own.current("acme", KEY, NOW + 30 * 86_400).published_at == write_moment(NOW + 30 * 86_400)


def listed(own, issuer, now):
    source = CrlSource(issuer_id=issuer, uri="https://node.example/crl", key=PublicKey(KEY.vacant_id.public))
    own.open_list(issuer, KEY, now)
    return read_list(own.path(issuer).read_bytes(), source, now=now)


def test_processes_that_revoke_together_lose_nothing(own, tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", REVOKE_MANY, str(tmp_path), name]) for name in ("one", "two")
    ]
    assert [writer.wait(30) for writer in writers] == [0, 0]
    assert len(own.read()) == 40
    assert {path.name for path in tmp_path.iterdir()} == {LIST_FILE, ".revocations.lock"}
