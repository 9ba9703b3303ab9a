"""The deliberations of this data folder, for a command that works while its node may be running.

A command reads and writes the database itself, signs with the key of the folder, and speaks to keepers directly. So only
the node that keeps a deliberation has to run; whoever takes part needs a data folder and nothing else.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from comity.directory.finding import Outside
from comity.http.client import GuardedHttp
from comity.identity.protocol.keys import SigningKey
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.open_target import own_key, own_vault, refuse_memory, refuse_off, writing
from comity.terminal.output import note, waiting
from comity.vcp.protocol.extension_calls import ExtensionError, in_words_of
from comity.votes.client import VoteHostClient
from comity.votes.logs import KeptDeliberation, Ledger
from comity.votes.part import Deliberations
from comity.votes.party import ActOutcome, VoteParty
from comity.votes.protocol.operations import ClauseReport, ResultReport, result_report
from comity.votes.protocol.vote import stakeholder_of
from comity.wire.errors import ComityError, ConfigError, NotFoundError

_OPTIONS: Final = {
    "clause_id": "--clause",
    "text": "--text",
    "level": "--level",
    "concern": "--concern",
    "reason": "--reason",
    "ranking": "RANKING",
    "delib_id": "ID",
    "stakeholder.id": "PARTY",
    "signal": "TEXT",
    "to": "--to",
    "title": "TITLE",
    "clauses": "--clause",
    "quorum": "--quorum",
    "ratification": "--ratification",
}
"""As the command line calls the arguments of the operations."""


class LocalVotes:
    """`url` is where others reach the node of this folder; None while it does not run."""

    def __init__(self, desk: VoteParty, key: SigningKey, url: str | None) -> None:
        self.desk = desk
        self.url = url
        self.id = key.vacant_id.hex()

    async def open(self, **args: Any) -> KeptDeliberation:
        """Open a deliberation as its author. Arguments that are None are left out, here and below."""
        return await self.desk.open(f"dlb_{secrets.token_hex(8)}", _given(args), self.desk.voice())

    def result(self, kept: KeptDeliberation, clause_id: str | None) -> ClauseReport | ResultReport:
        """Return what the operation `consensus.result` shows of the deliberation as it is."""
        stakeholder_of(kept.deliberation, self.desk.voice())
        return result_report(kept.deliberation, clause_id)

    async def act(self, op: str, **args: Any) -> ActOutcome:
        return await self.desk.act(op, _given(args), self.desk.voice())

    async def chosen(self, text: str) -> KeptDeliberation:
        """The deliberation that `text` names: its id, or a beginning of it that no other id has."""
        known = await self.desk.those_of(self.desk.voice())
        found = [kept for kept in known if text and kept.id.startswith(text)]
        exact = [kept for kept in found if kept.id == text]
        if len(found) > 1 and not exact:
            raise ConfigError(f"{len(found)} ids begin with {text[:80]!r}; give more of it")
        if not found:
            raise NotFoundError(
                f"there is no deliberation {text[:80]!r} here; `comity vote list` shows those that there are, and "
                "`comity vote join URL ID` fetches one"
            )
        return (exact or found)[0]

    async def newest(self, text: str) -> KeptDeliberation:
        """With what the keeper has; without it, as far as we know it, and a word on that."""
        kept = await self.chosen(text)
        try:
            with waiting("asking the keeper"):
                await self.desk.refresh(kept.id)
                await self.desk.send_waiting()
        except ComityError as reason:
            note(f"nothing new from the keeper: {reason.message}. This is what is known here")
        return await self.desk.find(kept.id)

    async def summary(self, kept: KeptDeliberation) -> dict[str, Any]:
        """What a program is told of a deliberation besides its clauses."""
        found = kept.deliberation
        acts = await self.desk.ledger.waiting(kept.id)
        return {
            "delib_id": kept.id,
            "title": found.title,
            "phase": found.phase,
            "role": found.stakeholders[self.id].role,
            "entries": kept.head.tip.number,
            "tip": kept.head.tip.hash,
            "keeper": found.keeper,
            "url": kept.url or self.url,
            "waiting": [act.entry.action.op for act in acts if not act.refusal],
            "refused": [{"op": act.entry.action.op, "why": act.refusal} for act in acts if act.refusal],
            "fraud": None if kept.fraud is None else msgspec.to_builtins(kept.fraud),
        }


def _given(args: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if value is not None}


@contextlib.asynccontextmanager
async def own_desk(settings: Settings, passphrase_file: str | None) -> AsyncIterator[LocalVotes]:
    refuse_off(settings, Deliberations)
    refuse_memory(settings, "deliberations are kept there")
    key = own_key(settings, passphrase_file)
    vault = own_vault(settings)
    ways, clock = Outside(settings), SystemClock()
    public_http = GuardedHttp(timeout=settings.dispatch.timeout_seconds)
    async with (
        contextlib.aclosing(ways.http),
        contextlib.aclosing(public_http),
        writing(settings, key) as (store, record, chain),
    ):
        post = VoteHostClient(
            store,
            key,
            clock,
            ways.http,
            public_http=public_http,
            holder=chain,
            patience=settings.dispatch.timeout_seconds,
            record=record,
        )
        desk = VoteParty(
            store=store,
            ledger=Ledger(store, vault, log_bytes=settings.deliberations.log_bytes),
            record=record,
            clock=clock,
            key=key,
            post=post,
            holder=chain,
        )
        try:
            yield LocalVotes(desk, key, ways.own.url if ways.own else None)
        except ExtensionError as refusal:
            raise in_words_of(_OPTIONS, refusal) from None
