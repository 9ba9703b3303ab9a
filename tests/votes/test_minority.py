"""Nobody decides for others by being quick: a rule is in force only when enough of all parties accepted it."""

import pytest

from comity.vcp.protocol.extension_calls import ExtensionError
from tests.votes.parties import parties


async def as_far_as_two_get(alice, bob, stored):
    """Do what led to a rule in force: one abstains, one endorses, both advance, and one accepts."""
    steps = [
        (alice, "advance", {"to": "deliberation"}),
        (alice, "act", {"clause_id": "c1", "action": "abstain"}),
        (bob, "act", {"clause_id": "c1", "action": "endorse"}),
        (bob, "advance", {"to": "convergence"}),
        (bob, "advance", {"to": "ratification"}),
        (bob, "vote", {"vote": "accept"}),
        (bob, "advance", {"to": "active"}),
    ]
    refusals = []
    for party, op, args in steps:
        try:
            await party.say(stored, op, **args)
        except ExtensionError as refusal:
            refusals.append((op, refusal.wire_code, refusal.message))
    return refusals


@pytest.mark.parametrize("ratification", [1, "2/3"])
async def test_two_of_three_do_not_put_a_rule_into_force_while_the_third_was_never_asked(ratification):
    async with parties() as (alice, bob, carol):
        stored = await alice.open(
            {"id": bob.id}, {"id": carol.id}, clauses=["We pay half."], ratification=ratification
        )
        await bob.join(alice, stored)
        await as_far_as_two_get(alice, bob, stored)
        assert (await alice.votes.find(stored.id)).vote.phase != "active"
