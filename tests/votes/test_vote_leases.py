"""One process at a time acts in a vote: one at work for as long as it works, one that was killed for seconds."""

import asyncio

from comity.store.interface import Acquire
from comity.testing import VirtualClock
from comity.votes.party import LEASE_SECONDS
from tests.votes.parties import parties
from tests.waiting import eventually


class Held:
    """A client whose messages to the host wait until they may go."""

    def __init__(self, client):
        self._client = client
        self.begun, self.may_go = asyncio.Event(), asyncio.Event()

    async def post(self, *args, **named):
        self.begun.set()
        await self.may_go.wait()
        return await self._client.post(*args, **named)


def objecting(party, stored, text):
    args = {"delib_id": stored.id, "clause_id": "c1", "action": "object", "level": "mild", "concern": text}
    return asyncio.ensure_future(party.act("consensus.act", args, party.voice()))


async def done(clock, *acts):
    async def passing():
        await clock.advance(0.1)
        return all(act.done() for act in acts)

    await eventually(passing)
    return await asyncio.gather(*acts)


async def test_who_is_at_work_in_a_vote_keeps_others_out_and_who_died_for_seconds_only():
    clock = VirtualClock()
    async with parties(2, clock=clock) as (alice, bob):
        stored = await alice.open({"id": bob.id})
        await bob.join(alice, stored)
        await alice.say(stored, "advance", to="deliberation")
        held = []
        slow = bob.another_party(wrap=lambda client: held.append(Held(client)) or held[0])
        first = objecting(slow, stored, "One.")
        await held[0].begun.wait()
        second = objecting(bob.votes, stored, "Two.")
        await clock.advance(4 * LEASE_SECONDS)
        assert not second.done()
        held[0].may_go.set()
        await done(clock, first, second)
        name = f"deliberation:{stored.id}"
        await bob.node.store.commit(Acquire(name=name, holder="dead", ttl=LEASE_SECONDS))
        third = objecting(bob.votes, stored, "Three.")
        await clock.advance(LEASE_SECONDS - 1)
        assert not third.done()
        await clock.advance(2)
        (outcome,) = await done(clock, third)
        assert outcome.entry is not None
