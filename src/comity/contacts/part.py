"""The part `contacts`: who is known by which name, and what each may do."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from comity.contacts.protocol.contact import rights_in_words
from comity.contacts.settings import ContactsSettings
from comity.runtime.lazy import late
from comity.runtime.part import Chore, Part, Table, View, ViewPage, ViewQuery, paged

if TYPE_CHECKING:
    from comity.contacts import service
    from comity.contacts.service import Contacts
    from comity.requests import metrics
    from comity.requests.metrics import Metric
    from comity.runtime.node_runtime import NodeRuntime
else:
    service = late("comity.contacts.service")
    metrics = late("comity.requests.metrics")

_FLUSH_SECONDS = 60.0


class ContactsPart(Part):
    name = "contacts"
    settings = ContactsSettings

    async def open(self, runtime: "NodeRuntime") -> None:
        self.contacts = service.Contacts(
            runtime.store,
            runtime.record,
            runtime.clock,
            own=runtime.vacant_id,
            unknown=runtime.settings.of(ContactsSettings),
        )
        await self.contacts.load()
        runtime.stack.push_async_callback(self.contacts.flush)
        self.chores = [Chore(_FLUSH_SECONDS, self.contacts.flush)]
        self.views = [View("contacts", "Contacts", self._view)]

    def metrics(self) -> "Iterable[Metric]":
        yield metrics.Metric("comity_contacts", "Contacts.", len(self.contacts.all()))

    async def _view(self, query: ViewQuery) -> ViewPage:
        rows = [
            (each.name, each.id[:16], rights_in_words(each.rights), each.how, _moment(each.last))
            for each in self.contacts.all()
        ]
        page, more = paged(rows, query)
        columns = ("name", "id", "rights", "how", "last seen")
        empty = "no contact yet; `comity contacts add` makes one"
        return ViewPage(tables=[Table(columns, page, more=more, empty=empty)])


def contacts_of(runtime: "NodeRuntime") -> "Contacts":
    """Return the contacts of an open node."""
    return runtime.find(ContactsPart).contacts


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else "never"
