"""Three nodes with keys, and a vote on clauses that they write together."""

import msgspec

from comity.identity.protocol.keys import SigningKey
from comity.votes.protocol import log

NOW = 1_772_314_200.0
HOST, BETA, GAMMA = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3))
ALICE, BOB, CAROL = (key.vacant_id.hex() for key in (HOST, BETA, GAMMA))
ID = "dlb_0001"


def opening(**changes):
    return {
        "title": "How we answer each other",
        "clauses": ["Every call is answered within a day.", "Logs are kept for a year."],
        "stakeholders": [{"id": BOB}, {"id": CAROL, "role": "ai_party"}],
        "keeper": ALICE,
    } | changes


class Table:
    """A log hosted by the first node, and all its entries. Each act is a second after the one before."""

    def __init__(self, **changes):
        self.now = NOW
        self.head = None
        self.entries = []
        self.say(HOST, "consensus.open", opening(**changes))

    def say(self, key, op, args, on_behalf=None):
        self.now += 1
        entry = log.propose(self.head, ID, op, args, key, self.now, on_behalf=on_behalf)
        self.head, stored = log.admit(self.head, entry, HOST, self.now)
        self.entries.append(stored)
        return self.state

    def act(self, key, action, clause_id="c1", **more):
        return self.say(
            key, "consensus.act", {"delib_id": ID, "clause_id": clause_id, "action": action} | more
        )

    def advance(self, to, key=HOST):
        return self.say(key, "consensus.advance", {"delib_id": ID, "to": to})

    def vote(self, key, vote, **more):
        return self.say(key, "consensus.vote", {"delib_id": ID, "vote": vote} | more)

    def ballot(self, key, ranking, clause_id="c1", **more):
        return self.say(
            key, "consensus.ballot", {"delib_id": ID, "clause_id": clause_id, "ranking": ranking} | more
        )

    @property
    def state(self):
        return self.head.vote

    def frozen(self):
        return msgspec.json.encode(self.head)


def ratified(**changes):
    """From opening to active: one amendment that wins, one that loses."""
    table = Table(**changes)
    table.advance("deliberation")
    table.act(BETA, "amend", text="Every call is answered within an hour.")
    table.act(GAMMA, "amend", text="Every call is answered within a week.")
    table.act(HOST, "endorse", "c2")
    table.advance("convergence")
    table.ballot(HOST, ["v1", "v0", "v2"])
    table.advance("ratification")
    table.vote(HOST, "accept")
    table.vote(BETA, "accept")
    table.vote(GAMMA, "reject", reason="A week is what I can promise.")
    table.advance("active")
    return table
