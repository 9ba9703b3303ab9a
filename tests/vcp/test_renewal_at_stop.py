"""A revocation list that is being written when its node stops."""

import asyncio
import threading

from comity.runtime import node_runtime
from comity.testing import running_node
from comity.vcp.issuers import OwnRevocations
from tests.waiting import eventually


async def test_a_node_has_not_stopped_while_a_list_is_being_written(monkeypatch, patience):
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def renew(_self, _key, _now):
        began.set()
        may_end.wait(30)
        ended.set()

    monkeypatch.setattr(node_runtime, "FIRST_CHORES", 0.0)
    monkeypatch.setattr(OwnRevocations, "renew", renew)
    async with running_node():
        await eventually(began.is_set)
        asyncio.get_running_loop().call_later(0.2, may_end.set)
    assert ended.is_set()
