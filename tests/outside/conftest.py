"""A node on this machine whose outside door listens on 127.0.0.1."""

import contextlib
from typing import NamedTuple

import httpx
import pytest

from comity.contacts.settings import ContactsSettings
from comity.outside.part import OutsideSettings
from comity.runtime.settings import AgentSettings
from comity.testing import running_node

AGENT = AgentSettings(behaviour="echo")


class Outsider(NamedTuple):
    node: object
    door: object
    http: httpx.AsyncClient

    @property
    def base(self):
        return f"https://127.0.0.1:{self.door.port}"


@contextlib.asynccontextmanager
async def outside_node(data=None, *, reasons=("switch",), outside=None, **settings):
    """A node whose door is open for these reasons, and a client that trusts whatever it shows."""
    parts = {
        "outside": outside or OutsideSettings(listen="127.0.0.1"),
        "contacts": ContactsSettings(unknown_call="accept"),
    }
    async with running_node(data, agent=AGENT, parts=parts, **settings) as node:
        door = node.runtime.outside
        for reason in reasons:
            await door.open_for(reason)
        async with httpx.AsyncClient(verify=False) as http:
            yield Outsider(node, door, http)


@pytest.fixture
async def outsider():
    async with outside_node() as found:
        yield found
