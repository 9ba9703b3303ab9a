"""Whether what a session stands on is still good."""

import pytest

from comity.identity.protocol.revocation import CrlSource, Denylist, RevocationList
from comity.identity.protocol.tokens import IdentityMode, subject_id
from comity.testing import EPOCH, VirtualClock
from comity.vcp.identity import IdentityChecker
from comity.vcp.protocol.agreement import Identity
from tests.vcp.runtime import ALICE, ISSUERS
from tests.vcp.test_identity import WITH_LIST

SUBJECT = subject_id("creed", "alice")
STRUCTURAL = Identity(issuer="creed", subject="alice")


class Lists:
    def __init__(self, **named):
        self.asked = []
        self._list = RevocationList(
            issuer_id="creed",
            published_at=EPOCH - 60,
            next_update=EPOCH + 3600,
            **({"jtis": {}, "bundle_ids": {}} | named),
        )

    async def current(self, source: CrlSource):
        self.asked.append(source)
        return self._list


def desk(**named):
    return IdentityChecker(VirtualClock(), **({"mode": IdentityMode.VERIFIED, "issuers": ISSUERS} | named))


@pytest.mark.parametrize("identity", [None, ALICE, STRUCTURAL, Identity()])
async def test_nothing_is_revoked_where_nobody_revoked(identity):
    assert not (await desk().still_good(("ses_1",), identity)).refuses


@pytest.mark.parametrize("identity", [None, ALICE, STRUCTURAL])
async def test_the_owner_of_the_node_revokes_a_thing_by_its_id(identity):
    denied = desk(denylist=lambda: Denylist(jtis=frozenset({"ses_1"})))
    assert (await denied.still_good(("ses_1",), identity)).refuses
    assert not (await denied.still_good(("ses_2",), identity)).refuses


@pytest.mark.parametrize(("identity", "refuses"), [(None, False), (ALICE, True), (STRUCTURAL, True)])
async def test_the_owner_of_the_node_revokes_a_subject_with_all_that_it_has(identity, refuses):
    denied = desk(denylist=lambda: Denylist(bundle_ids=frozenset({SUBJECT})))
    assert (await denied.still_good(("ses_1",), identity)).refuses is refuses


async def test_the_list_of_the_issuer_is_asked_for_a_proven_identity_only():
    lists = Lists(bundle_ids={SUBJECT: "key_compromise"})
    asking = desk(issuers=WITH_LIST, lists=lists)
    status = await asking.still_good(("ses_1",), ALICE)
    assert (status.refuses, status.detail) == (True, "key_compromise")
    assert len(lists.asked) == 1
    assert not (await asking.still_good(("ses_1",), STRUCTURAL)).refuses
    assert len(lists.asked) == 1


async def test_what_cannot_be_known_counts_as_revoked():
    assert (await desk(issuers=WITH_LIST).still_good(("ses_1",), ALICE)).refuses
