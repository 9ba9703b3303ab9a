"""Messages from one node to the other in their room: some are signed, some wait until the other one is back."""

from collections import Counter
from itertools import count, pairwise

from comity.envelopes.protocol.envelope import from_a2a_message
from tests.torture.live_node import NoAnswerError, RefusedError, until

ASKED = 4


class Messages:
    """`acknowledged`: texts by the ids of messages that the sender said it has; `stored`: those of them that the
    receiver said it has.
    """

    def __init__(self, sender, receiver):
        self.sender, self.receiver = sender, receiver
        self.acknowledged, self.stored = {}, set()
        self.unanswered, self.refused = [], []
        self._shown = Counter()
        self._shown_texts = Counter()
        self._numbers = count(1)

    async def send(self):
        number = next(self._numbers)
        text = f"{self.sender.name} {number}"
        try:
            answer = await self.sender.use_room(
                "vdo_send", data={"text": text}, target=self.receiver.name, signed=number % 3 == 0
            )
        except NoAnswerError:
            self.unanswered.append(text)
        except RefusedError as refusal:
            self.refused.append((text, str(refusal)))
        else:
            (message_id,) = answer["message_ids"]
            self.acknowledged[message_id] = text
            await self._ask_status()

    async def _ask_status(self):
        """Of the last ones, whose receipts may be there by now. A node that was started again knows only what still waits."""
        asked = [one for one in list(self.acknowledged)[-ASKED:] if one not in self.stored]
        for message_id in asked:
            try:
                told = await self.sender.use_room("vdo_message_status", message_id=message_id)
            except (NoAnswerError, RefusedError):
                return
            if told["status"] in ("stored", "read"):
                self.stored.add(message_id)

    async def read(self, wait_ms=0):
        """Take all that the receiver has to show now. Without anything it waits so long."""
        asked = {"max_events": 500, "wait_ms": wait_ms}
        while events := (await self.receiver.use_room("vdo_receive", **asked))["events"]:
            for event in events:
                assert event["type"] not in {"message_rejected", "protocol_error", "events_dropped"}, event
                if event["type"] == "data_received":
                    self._shown[event["message_id"]] += 1
                    self._shown_texts[event["data"]["text"]] += 1

    async def check(self):
        """All that was acknowledged is shown once, and nothing twice. Then nothing is on its way any more."""
        await until(self._all_shown, "messages that were acknowledged were not delivered")
        await until(self._nothing_kept, "messages are still kept as unread or unsent")
        await self.read()
        twice = [text for text, times in self._shown_texts.items() if times > 1]
        assert not twice, f"messages that were shown twice: {twice}"
        assert len(self._shown) == len(self._shown_texts), "one text has two ids"
        assert not self.refused, f"messages were refused: {self.refused}"

    async def _all_shown(self):
        await self.read()
        return not [one for one in self.acknowledged if one not in self._shown]

    async def _nothing_kept(self):
        await self.read()
        for node, space in ((self.sender, "rooms:outbox"), (self.receiver, "rooms:inbox")):
            async with node.reading() as store:
                if await store.scan(space, limit=1):
                    return False
        return True


async def meet(host, guest, room="lab"):
    """Both join one room by an invite, and their nodes prove themselves to each other."""
    line = (await host.use_room("invite", room=room))["invite"]
    for node, name in ((host, room), (guest, line)):
        joined = await node.use_room("vdo_connect", room=name, stream_id=node.name, reconnect_ms=200)
        node.session_id = joined["session_id"]
    await until_linked(host, guest)


async def until_linked(one, other):
    async def linked():
        return await _sees(one, other) and await _sees(other, one)

    await until(linked, "the nodes have no link")


async def _sees(node, other):
    peers = (await node.use_room("vdo_sync_peers"))["peers"]
    return any(
        peer["stream_id"] == other.name and peer["connected"] and peer["handshake_state"] == "ready"
        for peer in peers
    )


async def check_signed(node):
    """The signed messages of each direction are one chain, without gap or fork."""
    chains, after = {}, 0
    while True:
        page = await node.use_room("export", after=after)
        for message in page["messages"]:
            envelope = from_a2a_message(message)
            chains.setdefault(envelope.from_vacant_id, []).append(envelope)
        after = page["after"]
        if not after:
            break
    for chain in chains.values():
        assert [one.sequence_no for one in chain] == list(range(1, len(chain) + 1))
        assert all(after.prev_envelope_hash == before.compute_hash() for before, after in pairwise(chain))
    return {sender: [one.compute_hash() for one in chain] for sender, chain in chains.items()}
