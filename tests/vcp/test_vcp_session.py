"""What becomes of a request whose link ends while it is on its way."""

import asyncio

import pytest

from comity.testing.loop import run_simulated
from comity.vcp.client_session import VcpConversation, VcpSession
from comity.vcp.protocol.client import ClientMachine, Established
from comity.vcp.protocol.messages import Hello
from comity.wire import strict_json
from comity.wire.errors import NoAnswerError, UnreachableError
from comity.wire.machine import Received, Started
from tests.vcp.vcp_scene import ack


async def session_of(conversation):
    conversation.receive(Started(), 0.0)
    conversation.receive(Received(strict_json.dumps(ack())), 0.0)
    established = await conversation.reports.get()
    assert isinstance(established, Established)
    return VcpSession(established, conversation, 1_000_000, 30.0)


def test_a_request_in_hand_when_the_link_ends_fails_at_once_and_was_not_sent():
    async def scene():
        hello = Hello(version="3.1", min_version="1.0", extensions=(), identity=None)
        conversation = VcpConversation(ClientMachine(hello, random=lambda: 0.5))
        session = await session_of(conversation)
        sending = asyncio.create_task(session.send_context({"generation_preferences": {"tone": "plain"}}))
        await conversation.next_message(None)  # the conductor has taken it, and the link ends before its turn
        conversation.end(NoAnswerError("the connection ended"))
        with pytest.raises(UnreachableError, match="nothing was sent"):
            await sending
        assert asyncio.get_running_loop().time() < 1
        with pytest.raises(UnreachableError, match="nothing was sent"):
            await session.send_context({"generation_preferences": {"tone": "plain"}})

    run_simulated(scene)
