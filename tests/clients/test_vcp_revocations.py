import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from comity.clients.vcp_revocations import LIST_FILE, OwnRevocations
from comity.core.errors import StoreCorruptError
from comity.core.identity.keys import SigningKey
from comity.core.revocation.crl import CRLEntry, RevocationReason
from comity.core.revocation.decision import Revocable
from comity.core.revocation.reading import CrlSource, read_list
from comity.core.revocation.signature import PublicKey

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
from tests.clients.test_vcp_revocations import KEY, NOW, ONE
from comity.clients.vcp_revocations import OwnRevocations
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
    before = own.path.read_bytes()
    assert not own.revoke(replace(ONE, reason=RevocationReason.KEY_COMPROMISE), KEY, NOW + 1)
    assert own.path.read_bytes() == before


def test_the_file_is_a_list_that_others_can_read(own):
    own.revoke(ALICE, KEY, NOW)
    source = CrlSource(
        issuer_id=KEY.vacant_id.hex(), uri="https://node.example/crl", key=PublicKey(KEY.vacant_id.public)
    )
    found = read_list(own.path.read_bytes(), source, now=NOW + 1)
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
    own.path.write_text(json.dumps(change(json.loads(own.path.read_text()))))
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


def test_processes_that_revoke_together_lose_nothing(own, tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", REVOKE_MANY, str(tmp_path), name]) for name in ("one", "two")
    ]
    assert [writer.wait(30) for writer in writers] == [0, 0]
    assert len(own.read()) == 40
    assert {path.name for path in tmp_path.iterdir()} == {LIST_FILE, ".revocations.lock"}
