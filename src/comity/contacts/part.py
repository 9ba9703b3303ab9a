"""The part `contacts`: who is known by which name, and what each may do."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from comity.contacts.protocol.contact import rights_in_words
from comity.contacts.settings import ContactsSettings
from comity.runtime.lazy import late
from comity.runtime.part import Chore, Panel, Part, Table, View, ViewPage, ViewQuery, paged

if TYPE_CHECKING:
    from starlette import routing

    from comity.contacts import consent, held, operations, service
    from comity.contacts.service import Contacts
    from comity.http import asgi, guard
    from comity.http.asgi import Receive, Scope
    from comity.requests import metrics
    from comity.requests.metrics import Metric
    from comity.runtime.node_runtime import NodeRuntime
else:
    routing = late("starlette.routing")
    consent = late("comity.contacts.consent")
    held = late("comity.contacts.held")
    operations = late("comity.contacts.operations")
    service = late("comity.contacts.service")
    asgi = late("comity.http.asgi")
    guard = late("comity.http.guard")
    metrics = late("comity.requests.metrics")

_FLUSH_SECONDS = 60.0
_TIDY_SECONDS = 3600.0
_BODY_LIMIT = 65_536
_MAX_ROWS = 5


class ContactsPart(Part):
    name = "contacts"
    settings = ContactsSettings
    paths = ("/v1/contacts",)

    async def open(self, runtime: "NodeRuntime") -> None:
        self.contacts = service.Contacts(
            runtime.store,
            runtime.record,
            runtime.clock,
            own=runtime.vacant_id,
            unknown=runtime.settings.of(ContactsSettings),
        )
        self.held = held.HeldCalls(runtime.store, runtime.record, runtime.clock, runtime.current_vault)
        self.consent = consent.CallConsent(self.contacts, self.held, runtime.clock)
        await self.contacts.load()
        await self.held.load()
        for call in self.held.waiting():  # the owner decided, and the node stopped before it forgot the call
            if (contact := self.contacts.find(call.sender)) is not None and contact.rights.call != "hold":
                await self.held.forget(call.sender)
        runtime.stack.push_async_callback(self.contacts.flush)
        self.chores = [Chore(_FLUSH_SECONDS, self.contacts.flush), Chore(_TIDY_SECONDS, self.held.tidy)]
        self.views = [View("contacts", "Contacts", self._view)]

    async def serve(self, runtime: "NodeRuntime") -> None:
        async def take(scope: "Scope", receive: "Receive") -> dict[str, Any]:
            body = await asgi.read_json_body(scope, receive, _BODY_LIMIT, "the request about contacts")
            asked = operations.read_request(body)
            return await operations.perform(asked, self.contacts, self.held, guard.caller_of(scope))

        endpoint = asgi.Endpoint("POST", take, feature="contacts", record=runtime.record)
        self.routes = [routing.Route(operations.CONTACTS_PATH, endpoint)]

    def metrics(self) -> "Iterable[Metric]":
        yield metrics.Metric("comity_contacts", "Contacts.", len(self.contacts.all()))
        waiting = len(self.held.waiting())
        yield metrics.Metric("comity_held_calls", "Calls that wait for the owner's consent.", waiting)

    async def panel(self) -> Panel | None:
        """Show the calls that wait for the owner."""
        waiting = self.held.waiting()
        if not waiting:
            return None
        rows = [(self._who(each.sender), each.words) for each in waiting[:_MAX_ROWS]]
        return Panel("Waiting for you", [*rows, ("calls", f"{len(waiting):,}; `comity contacts held`")])

    def _who(self, sender: str) -> str:
        return self.contacts.name_of(sender) or sender[:12]

    async def _view(self, query: ViewQuery) -> ViewPage:
        rows = [
            (each.name, each.id[:16], rights_in_words(each.rights), each.how, _moment(each.last))
            for each in self.contacts.all()
        ]
        page, more = paged(rows, query)
        columns = ("name", "id", "rights", "how", "last seen")
        empty = "no contact yet; `comity contacts add` makes one"
        waiting = [
            (self._who(each.sender), each.sender[:16], each.words, _moment(each.at), each.id[:12])
            for each in self.held.waiting()
        ]
        held_columns = ("caller", "id", "first words", "when", "call")
        return ViewPage(
            tables=[
                Table(held_columns, waiting, title="Waiting for you", empty="no call waits"),
                Table(columns, page, title="Contacts", more=more, empty=empty),
            ]
        )


def contacts_of(runtime: "NodeRuntime") -> "Contacts":
    """Return the contacts of an open node."""
    return runtime.find(ContactsPart).contacts


def consent_of(runtime: "NodeRuntime") -> "consent.CallConsent":
    """Return what says who may call the agent of an open node."""
    return runtime.find(ContactsPart).consent


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else "never"
