"""A served agent with contacts and held calls, and callers who come through a listener."""

import httpx
from cryptography.fernet import Fernet

from comity.contacts.consent import CallConsent
from comity.contacts.held import HeldCalls
from comity.contacts.operations import ContactRequest, perform
from comity.contacts.service import OUTSIDE
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.http.serving import LISTENER
from comity.requests.caller import OWN_PROCESS
from comity.store.vault import Vault
from tests.contacts.people import People
from tests.envelopes.peers import Server, echo

VAULT = Vault([Fernet.generate_key()])


class Agent(People):
    """`runs` are the texts that the agent was called with."""

    def __init__(self, *, listener=OUTSIDE, state="ACTIVE", **settings):
        super().__init__(**settings)
        self.listener = listener
        self.state = state
        self.runs = []

    async def _behaviour(self, envelope):
        self.runs.append(envelope.payload.parts[0].text)
        return await echo(envelope)

    async def open(self):
        await super().open()
        self.held = HeldCalls(self.store, self.record, self.clock, lambda: VAULT)
        await self.held.load()
        self.server = Server(
            self.store,
            self._behaviour,
            state=self.state,
            clock=self.clock,
            consent=CallConsent(self.contacts, self.held, self.clock),
        )
        return self

    async def call(self, envelope, *, address="192.0.2.7"):
        """The answer to an envelope that came through the listener."""
        app = self.server.http._transport.app

        async def through(scope, receive, send):
            await app({**scope, LISTENER: self.listener, "client": (address, 1)}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=through)) as http:
            return await http.post("http://127.0.0.1/a2a/message/send", json=to_a2a_jsonrpc(envelope))

    async def do(self, do, who="", caller=OWN_PROCESS, **given):
        return await perform(ContactRequest(do=do, who=who, **given), self.contacts, self.held, caller)
