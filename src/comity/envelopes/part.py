"""The part `witness`: heads of audit records, exchanged with the peers of signed calls, and challenges of peers."""

from typing import TYPE_CHECKING, Any

from comity.runtime.lazy import late
from comity.runtime.part import Fact, Panel, Part, Table, View, ViewPage, ViewQuery, paged
from comity.wire import strict_json
from comity.wire.errors import ForbiddenError, NotFoundError, RateLimitedError

if TYPE_CHECKING:
    from starlette import routing

    from comity.envelopes import witness
    from comity.envelopes.protocol import witness as rules
    from comity.envelopes.witness import Witnesses
    from comity.http import asgi
    from comity.http.asgi import Receive, Scope
    from comity.runtime.node_runtime import NodeRuntime
else:
    routing = late("starlette.routing")
    witness = late("comity.envelopes.witness")
    rules = late("comity.envelopes.protocol.witness")
    asgi = late("comity.http.asgi")

PROOFS_FOLDER = "proofs"
_PATH = "/a2a/witness"
_IN_A_WINDOW = 10
_WINDOW_SECONDS = 10.0
_MAX_ASKED = 4096


class Witnessing(Part):
    name = "witness"
    open_paths = (_PATH,)

    async def open(self, runtime: "NodeRuntime") -> None:
        self._runtime = runtime
        self.witnesses = witness.Witnesses(
            runtime.store,
            runtime.key,
            runtime.clock,
            runtime.record,
            proofs=runtime.settings.data / PROOFS_FOLDER,
        )
        # a record in memory ends with the process, and its peers would say that it was rewritten
        self.is_kept = runtime.settings.store.engine != "memory"
        self.views = [View("witness", "Records of others", self._view)]
        self._asked: dict[str, tuple[float, int]] = {}

    async def serve(self, runtime: "NodeRuntime") -> None:
        take = asgi.Endpoint("POST", self._answer, feature="witness", record=runtime.record)
        self.routes = [routing.Route(_PATH, take)]
        self.public = {_PATH}

    async def _answer(self, scope: "Scope", receive: "Receive") -> dict[str, Any]:
        """Answer a challenge of somebody with whom there was a call."""
        runtime, now = self._runtime, self._runtime.clock.now()
        if not self.is_kept:
            raise NotFoundError(
                "the record of this node is kept in memory, and proves nothing of earlier times"
            )
        body = await asgi.read_json_body(scope, receive, rules.CHALLENGE_LIMIT, "the challenge")
        peer, asked = rules.read_challenge(
            strict_json.loads(body, unique_keys=True), own=runtime.vacant_id, now=now
        )
        self._count(asked.asked)
        if not await self.witnesses.knows(peer):
            raise ForbiddenError("challenges are answered for agents that had a call with this node")
        record = await self.witnesses.read(peer)
        given = await self.witnesses.witness_for(peer, record, asked=asked.seen, nonce=asked.nonce)
        return {"witness": given}

    def _count(self, peer: str) -> None:
        """Refuse the challenges of one peer beyond some in some seconds."""
        moment = self._runtime.clock.monotonic()
        since, asked = self._asked.get(peer, (moment, 0))
        if moment - since >= _WINDOW_SECONDS:
            since, asked = moment, 0
        if asked >= _IN_A_WINDOW:
            raise RateLimitedError(
                f"{_IN_A_WINDOW} challenges are answered in {_WINDOW_SECONDS:g} s; ask again later",
                since + _WINDOW_SECONDS - moment,
            )
        if len(self._asked) >= _MAX_ASKED:
            self._asked.clear()
        self._asked[peer] = since, asked + 1

    async def _view(self, query: ViewQuery) -> ViewPage:
        now = self._runtime.clock.now()
        rows = [
            (peer.hex(), *witness.in_words(record, now))
            async for peer, record in witness.peers(self._runtime.store)
        ]
        page, more = paged(rows, query)
        columns = ("agent", "record", "entries", "seen", "since")
        own = await self.witnesses.own_head()
        facts = [
            Fact(
                "Own record",
                "no tree yet" if own is None else f"{own.head.size:,} entries, root {own.head.root}",
            )
        ]
        empty = "no head of another record yet; they come with signed calls"
        return ViewPage(facts=facts, tables=[Table(columns, page, more=more, empty=empty)])

    async def panel(self) -> Panel | None:
        rows = []
        kept = 0
        async for peer, record in witness.peers(self._runtime.store):
            kept += 1
            if record.rewritten:
                rows.append((peer.short(), "REWROTE ITS RECORD; comity audit challenge shows the proof"))
            elif record.restored:
                rows.append((peer.short(), f"restored at {record.restored[-1].beginning.at[:19]}"))
        return Panel("Records of others", [("watched", f"{kept:,}"), *rows[:10]]) if kept else None


def witnesses_of(runtime: "NodeRuntime") -> "list[Witnesses]":
    """Return the feature `witness` of a node, if it is on."""
    part = runtime.find_open(Witnessing)
    return [part.witnesses] if part is not None and part.is_kept else []
