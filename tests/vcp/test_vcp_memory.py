"""What is remembered of a server, for any answers that it may give."""

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from comity.requests.record import Recorder
from comity.store.memory import MemoryStore
from comity.testing.loop import VirtualClock
from comity.vcp.client import MAX_SERVERS, FileAcks, LastAcks, merged
from comity.vcp.protocol.client import alerts
from comity.vcp.protocol.messages import Ack, encode
from tests.vcp.protocol.negotiation_samples import EVERY_EXTENSION

VALUES = st.booleans() | st.integers(0, 9) | st.lists(st.integers(0, 3)) | st.text(max_size=5)


@st.composite
def answers(draw):
    asked = draw(st.lists(st.sampled_from(EVERY_EXTENSION), unique=True))
    cut = draw(st.integers(0, len(asked)))
    supported = tuple(asked[:cut])
    return Ack(
        version=draw(st.sampled_from(("1.0", "2.0", "3.0", "3.1"))),
        supported=supported,
        unsupported=tuple(asked[cut:]),
        capabilities={
            name: draw(st.dictionaries(st.text(max_size=5), VALUES, max_size=3)) for name in supported
        },
        core_features=draw(st.dictionaries(st.sampled_from(("encryption", "revocation")), st.booleans())),
        session_id=draw(st.sampled_from((UNSET, "ses_1"))),
    )


@given(before=answers(), now=answers())
def test_the_answer_of_this_time_alarms_nobody_the_next_time(before, now):
    assert alerts(merged(before, now), now) == ()


@given(before=answers(), now=answers())
def test_what_was_not_asked_for_is_kept_and_what_was_answered_is_replaced(before, now):
    kept = merged(before, now)
    asked = {*now.supported, *now.unsupported}
    assert set(kept.supported) == {*now.supported, *(set(before.supported) - asked)}
    assert set(kept.supported).isdisjoint(kept.unsupported)
    assert set(kept.capabilities) <= set(kept.supported)
    for name in kept.supported:
        source = now if name in asked else before
        assert kept.capabilities.get(name) == source.capabilities.get(name)


@given(first=answers(), second=answers())
def test_what_is_remembered_is_recalled(first, second):
    async def scene():
        clock = VirtualClock()
        store = MemoryStore(clock)
        memory = LastAcks(store, Recorder(store, clock, audited=False))
        await memory.remember("wss://server.example:443/vcp", "3.1", first, None)
        before = await memory.recall("wss://server.example:443/vcp", "3.1")
        assert before == merged(None, first)
        await memory.remember("wss://server.example:443/vcp", "3.1", second, before)
        assert await memory.recall("wss://server.example:443/vcp", "3.1") == merged(before, second)
        assert await memory.recall("wss://server.example:443/vcp", "3.0") is None
        assert await memory.recall("wss://other.example:443/vcp", "3.1") is None

    asyncio.run(scene())


async def test_a_file_keeps_the_last_thousand_servers(tmp_path):
    memory = FileAcks(tmp_path)
    ack = Ack(
        version="3.1", supported=(), unsupported=(), capabilities={}, core_features={"encryption": True}
    )
    for number in (0, 1):
        await memory.remember(f"ws://{number}", "3.1", ack, None)
    known = {f"3.1 ws://{number}": json.loads(encode(ack)) for number in range(MAX_SERVERS)}
    (tmp_path / "vcp-acks.json").write_bytes(json.dumps(known).encode())
    await memory.remember("ws://new", "3.1", ack, None)
    assert await FileAcks(tmp_path).recall("ws://new", "3.1") == ack
    assert await memory.recall("ws://0", "3.1") is None
    assert await memory.recall("ws://1", "3.1") == ack
    assert await memory.recall("ws://1", "3.0") is None
