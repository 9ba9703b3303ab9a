"""Signed calls of one caller to one node, sent again with the same bytes until they are answered."""

import json
from collections import Counter
from itertools import pairwise

from msgspec import Struct

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    VacantEnvelope,
    from_a2a_result,
    reply_is_bound,
    to_a2a_jsonrpc,
)
from comity.envelopes.queues import chain_of
from comity.store.interface import Tip
from tests.envelopes.peers import Caller
from tests.torture.live_node import NoAnswerError

KEPT_REPLIES = 64
OLDER = 8
"""Calls of earlier rounds that are repeated in each round."""


class Answered(Struct):
    """`sent`: how often; each time but the last one the node was killed before the answer came."""

    text: str
    request: VacantEnvelope
    body: bytes
    reply: bytes
    sent: int


class Calls:
    def __init__(self, name, node):
        self.node = node
        self.answered = []
        self._caller = Caller(name, to_vid=node.vacant_id)
        self._name = name
        self._checked = 0

    async def make_one(self):
        text = f"{self._name} {len(self.answered) + 1}"
        request = self._caller.next(text)
        body = json.dumps(to_a2a_jsonrpc(request)).encode()
        reply, sent = None, 0
        while reply is None:
            await self.node.up.wait()
            sent += 1
            try:
                reply = await self._ask(body)
            except NoAnswerError:
                continue
        self.answered.append(Answered(text, request, body, reply, sent))

    async def check(self):
        """Nothing that was answered is lost, done again or answered otherwise."""
        await self.repeat(min(len(self.answered) - self._checked + OLDER, KEPT_REPLIES))
        self._check_runs(self.node.runs())
        new = self.answered[max(0, self._checked - 1) :]
        replies = [from_a2a_result(json.loads(call.reply)) for call in new]
        assert all(reply.verify(self.node.vacant_id) for reply in replies)
        assert all(reply_is_bound(reply, call.request) for reply, call in zip(replies, new, strict=True))
        assert all(after.sequence_no == before.sequence_no + 1 for before, after in pairwise(replies)), (
            "a gap"
        )
        assert all(
            after.prev_envelope_hash == before.compute_hash() for before, after in pairwise(replies)
        ), "a fork"
        if not self._checked and replies:
            assert (replies[0].sequence_no, replies[0].prev_envelope_hash) == (1, EMPTY_PREV_HASH)
        self._checked = len(self.answered)
        if replies:
            await self._check_tips(new[-1].request, replies[-1])

    async def repeat(self, last):
        """Send so many again, byte for byte: each has the reply that it had, and the agent does not run."""
        runs = self.node.runs()
        for call in self.answered[-last:]:
            assert await self._ask(call.body) == call.reply, f"{call.text}: another reply"
        assert self.node.runs() == runs, "the agent ran again for a call that was answered"

    def check_record(self, recorded):
        """`recorded` counts the audit entries that name a reply, by the hash of the request; one of a repeat names none."""
        for call in self.answered:
            count = recorded[f"blake2b:{call.request.compute_hash().hex()}"]
            assert count == 1, f"{call.text}: {count} audit entries"

    def _check_runs(self, runs: Counter):
        for call in self.answered:
            assert 1 <= runs[call.text] <= call.sent, (
                f"{call.text}: {runs[call.text]} runs, sent {call.sent} times"
            )

    async def _check_tips(self, request, reply):
        pair = PairKey(request.from_vacant_id, request.to_vacant_id)
        back = PairKey(pair.to_vid, pair.from_vid)
        async with self.node.reading() as store:
            tips = [await store.tip(chain_of(one)) for one in (pair, back)]
        assert tips == [Tip(one.sequence_no, one.compute_hash()) for one in (request, reply)]

    async def _ask(self, body):
        answer = await self.node.post(
            "/a2a/message/send", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 200, answer.text
        return answer.content
