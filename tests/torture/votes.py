"""Acts of two nodes in one vote, which one of them hosts."""

from collections import Counter
from itertools import count

from comity.identity.secrets import read_vault_keys
from comity.store.vault import Vault
from comity.votes.logs import Ledger
from comity.votes.protocol.log import write_entry
from comity.votes.protocol.provenance import verify_record, write_record
from tests.torture.live_node import NoAnswerError, RefusedError, until

MOST_AMENDMENTS = 30


class Vote:
    """`acknowledged` are texts of acts that were answered, also those that wait for the host; `unanswered` may be in
    the log or not, `refused` must not.
    """

    def __init__(self, host, party, delib_id):
        self.host, self.party, self.id = host, party, delib_id
        self.acknowledged, self.unanswered, self.refused = [], [], []
        self._numbers = count(1)
        self._amendments = 0
        self._ranks = False

    @classmethod
    async def open(cls, host, party):
        opened = await host.use_vote(
            "consensus_open",
            title="How we answer",
            clauses=["Within a day."],
            stakeholders=[{"id": party.vacant_id.hex()}],
        )
        vote = cls(host, party, opened["id"])
        await party.use_vote("consensus_join", url=host.url, delib_id=vote.id)
        await host.use_vote("consensus_advance", delib_id=vote.id, to="deliberation")
        return vote

    async def act(self, node):
        """One act that is allowed now, with a text that no other has."""
        text = f"{node.name} {next(self._numbers)}"
        if self._ranks:
            tool, args = (
                "submit_ballot",
                {"ranking": ["v0", text]},
            )  # who names no variant is counted without it
        elif self._amendments < MOST_AMENDMENTS and node is self.party:
            self._amendments += 1
            tool, args = "consensus_act", {"action": "amend", "text": text}
        else:
            tool, args = "consensus_act", {"action": "object", "level": "minor", "concern": text}
        try:
            await node.use_vote(tool, delib_id=self.id, **args)
        except NoAnswerError:
            self.unanswered.append(text)
        except RefusedError:
            self.refused.append(text)
        else:
            self.acknowledged.append(text)

    async def rank(self):
        """Go on to the phase in which parties rank, again and again. A vote would be over with the last one."""
        one = {"delib_id": self.id}
        for node in (self.host, self.party):
            await node.use_vote("consensus_act", **one, action="endorse")
        await self.host.use_vote("consensus_advance", **one, to="convergence")
        self._ranks = True

    async def finish(self):
        one = {"delib_id": self.id}
        for node in (self.host, self.party):
            await node.use_vote("submit_ballot", **one, ranking=["v0"])
        await self.party.use_vote("consensus_advance", **one, to="ratification")
        for node in (self.host, self.party):
            await node.use_vote("consensus_vote", **one, vote="accept")

    async def check(self):
        """Both have the same log, with each acknowledged act in it once, and it stands a recount."""
        await until(self._nothing_waits, f"acts in {self.id} still wait for their host")
        await self.party.use_vote("get_election_result", delib_id=self.id)
        records, logs = [], []
        for node in (self.host, self.party):
            async with node.reading() as store:
                ledger = _ledger(store, node)
                stored = (await ledger.find(self.id)).stored
                entries = await ledger.all_entries(self.id)
            assert stored.conflict is None, "conflicting records"
            assert stored.head.tip.number == len(entries)
            records.append(write_record(entries, stored.head))
            logs.append([write_entry(entry) for entry in entries])
        assert logs[0] == logs[1], "the parties have different logs"
        assert records[0] == records[1]
        recount = verify_record(records[0])
        assert recount.ok, recount.reason
        args = [entry["action"]["args"] for entry in logs[0]]
        found = Counter(
            one.get("concern") or one.get("text") or one.get("ranking", [None])[-1] for one in args
        )
        self._check_texts(found)
        return records[0]

    def _check_texts(self, found):
        lost = [text for text in self.acknowledged if not found[text]]
        assert not lost, f"acknowledged acts that are not in the log: {lost}"
        known = [*self.acknowledged, *self.unanswered, *self.refused]
        twice = [text for text in known if found[text] > 1]
        assert not twice, f"acts that are in the log twice: {twice}"
        done = [text for text in self.refused if found[text]]
        assert not done, f"acts that were refused and are in the log: {done}"

    async def _nothing_waits(self):
        async with self.party.reading() as store:
            waiting = await _ledger(store, self.party).waiting(self.id)
        assert not any(act.refusal for act in waiting), waiting
        return not waiting


def _ledger(store, node):
    vault = Vault(read_vault_keys(node.data / "vault.key"))
    return Ledger(store, lambda: vault)
