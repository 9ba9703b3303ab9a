"""A pair's replay state as the store keeps it: one row of a chain."""

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.store.operations import ChainKey, Tip

SERVE_BOOK = "serve"
"""Chains of what a vacant accepted as a callee, and of the replies it gave."""


def chain_of(key: PairKey, book: str = SERVE_BOOK) -> ChainKey:
    return ChainKey(book, key.from_vid.hex(), key.to_vid.hex())


def state_of(tip: Tip) -> ReplayState:
    return ReplayState(tip.seq, tip.hash)


def tip_of(state: ReplayState) -> Tip:
    return Tip(state.last_sequence_no, state.chain_tip)
