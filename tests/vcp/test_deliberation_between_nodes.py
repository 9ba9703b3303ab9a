"""Three people, each with a VCP session on a node of their own, ratify a rule. Their nodes sign for them."""

import contextlib

from tests.vcp.extension_scene import CONSENSUS, extension_scene


async def test_people_on_three_nodes_ratify_a_rule_through_their_vcp_sessions():
    names = ("alice", "bob", "carol")
    async with contextlib.AsyncExitStack() as stack:
        scenes = [await stack.enter_async_context(extension_scene()) for _ in names]
        people = [
            await stack.enter_async_context(scene.session(CONSENSUS, subject=name))
            for scene, name in zip(scenes, names, strict=True)
        ]
        alice, bob, carol = people
        others = [
            {"id": scene.owner(name), "node": scene.node.vacant_id.hex()}
            for scene, name in zip(scenes[1:], names[1:], strict=True)
        ]
        made = await alice.call(
            "consensus.open", title="Rules", clauses=["Within a day."], stakeholders=others
        )
        one = {"delib_id": made["id"]}
        for person in (bob, carol):
            joined = await person.call("consensus.join", url=scenes[0].node.url, **one)
            assert joined["phase"] == "draft"
        await alice.call("consensus.advance", **one, to="deliberation")
        await bob.call("consensus.act", **one, action="amend", text="Within an hour.")
        await carol.call("consensus.act", **one, action="endorse")
        await carol.call("consensus.advance", **one, to="convergence")
        ranked = await alice.call("consensus.ballot", **one, ranking=["v1", "v0"])
        assert ranked["winner"] == "v1"
        await bob.call("consensus.advance", **one, to="ratification")
        for person in people:
            await person.call("consensus.vote", **one, vote="accept")
        await carol.call("consensus.advance", **one, to="active")
        records = [await person.call("consensus.record", **one) for person in people]
        assert records[0] == records[1] == records[2]
        votes = records[0]["votes"]
        assert set(votes) == {scene.owner(name) for scene, name in zip(scenes, names, strict=True)}
