"""A party of a vote and its host hold heads of each other's audit record, as after a signed call."""

from comity.envelopes import witness
from comity.envelopes.part import Witnessing
from comity.testing import running_node
from tests.votes.parties import Party


async def test_a_party_and_the_host_of_its_vote_hold_a_head_of_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(witness, "EVERY", 0.0)
    async with running_node(tmp_path / "host") as host, running_node(tmp_path / "party") as party:
        here, there = Party(host), Party(party)
        stored = await here.open({"id": there.id})
        await there.join(here, stored)
        await there.votes.look(stored.id)
        for node, other in ((host, party), (party, host)):
            record = await node.runtime.find(Witnessing).witnesses.read(other.vacant_id)
            assert record.last is not None
            assert (record.rewritten, record.unproven) == (0, None)
