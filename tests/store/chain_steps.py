"""Steps of chains, as the tests of the store take them."""

from comity.store.interface import Advance, Answer, ChainKey, Tip

CHAIN = ChainKey("serve", "alice", "bob")
BACK = ChainKey("serve", "bob", "alice")
OTHER = ChainKey("serve", "carol", "bob")


def tip(seq: int) -> Tip:
    return Tip(seq, bytes([seq % 256]) * 32) if seq else Tip()


def step(seq: int, chain: ChainKey = CHAIN) -> Advance:
    return Advance(chain=chain, expected=tip(seq - 1), to=tip(seq))


def answer(seq: int, reply: bytes = b"reply", replied: int | None = None, chain: ChainKey = CHAIN) -> Answer:
    back = ChainKey(chain.book, chain.receiver, chain.sender)
    return Answer(
        calls=step(seq, chain),
        replies=step(seq if replied is None else replied, back),
        reply=reply,
        at=float(seq),
    )
