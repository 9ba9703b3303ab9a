from comity.core.extensions.consensus.record import verify_record, write_record
from tests.pipeline.deliberations.parties import parties


async def test_three_nodes_write_and_ratify_a_rule():
    async with parties() as (alice, bob, carol):
        kept = await alice.open({"id": bob.id}, {"id": carol.id, "role": "ai_party"})
        await bob.join(alice, kept)
        await carol.join(alice, kept)
        await alice.say(kept, "advance", to="deliberation")
        await bob.say(
            kept, "act", clause_id="c1", action="amend", text="Every call is answered within an hour."
        )
        await carol.say(
            kept, "act", clause_id="c1", action="object", level="strong", concern="An hour is short."
        )
        await carol.say(kept, "welfare", signal="I answer at night.")
        await alice.say(kept, "act", clause_id="c2", action="endorse")
        await bob.say(kept, "advance", to="convergence")
        await carol.say(kept, "ballot", clause_id="c1", ranking=["v1", "v0"])
        await bob.say(kept, "advance", to="ratification")
        for party in (alice, bob, carol):
            await party.say(kept, "vote", vote="accept")
        await carol.say(kept, "advance", to="active")
        records = []
        for party in (alice, bob, carol):
            now = await party.desk.refresh(kept.id)
            assert now.deliberation.phase == "active"
            records.append(write_record(await party.ledger.all_entries(kept.id), now.head))
        assert len(set(records)) == 1
        found = verify_record(records[0])
        assert (found.ok, found.entries) == (True, 13)
