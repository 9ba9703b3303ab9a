"""The votes of this data folder, for a command that works while its node may be running.

A command reads and writes the database itself, signs with the key of the folder, and sends its acts to the hosts. So only
the host of a vote has to run; a party needs a data folder and nothing else.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from comity.directory.finding import DirectoryAccess
from comity.envelopes.features import Features
from comity.envelopes.part import PROOFS_FOLDER
from comity.envelopes.witness import Witnesses
from comity.http.client import GuardedHttp
from comity.identity.protocol.keys import SigningKey
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.open_target import own_key, own_vault, refuse_memory, refuse_off, writing
from comity.terminal.output import note, waiting
from comity.vcp.protocol.extension_calls import ExtensionError, in_words_of
from comity.votes.logs import StoredVote, dispute_of
from comity.votes.opening import open_party
from comity.votes.part import Votes
from comity.votes.party import ActOutcome, VoteParty
from comity.votes.protocol.log import write_entry
from comity.votes.protocol.operations import progress_of
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
    "phase_seconds": "--by",
    "supersedes": "--supersedes",
}
"""The arguments of the operations in the words of the command line."""


class LocalVotes:
    """`url` is where others reach the node of this folder; None while it does not run."""

    def __init__(self, party: VoteParty, key: SigningKey, url: str | None) -> None:
        self.party = party
        self.url = url
        self.id = key.vacant_id.hex()
        self.now = SystemClock().now

    def id_in(self, stored: StoredVote) -> str:
        """Return the id that takes part in the vote: the current one, or a former one."""
        return self.party.voice_in(stored.vote, self.party.voice()).actor

    async def open(self, **args: Any) -> StoredVote:
        """Open a vote as its author. Arguments that are None are left out, here and below."""
        return await self.party.open(f"dlb_{secrets.token_hex(8)}", _without_none(args), self.party.voice())

    async def act(self, op: str, **args: Any) -> ActOutcome:
        return await self.party.act(op, _without_none(args), self.party.voice())

    async def chosen(self, text: str) -> StoredVote:
        """Return the vote that `text` names: its id, or a unique beginning of it."""
        known = await self.party.those_of(self.party.voice())
        found = [stored for stored in known if text and stored.id.startswith(text)]
        exact = [stored for stored in found if stored.id == text]
        if len(found) > 1 and not exact:
            raise ConfigError(f"{len(found)} ids begin with {text[:80]!r}; give more of it")
        if not found:
            raise NotFoundError(
                f"there is no vote {text[:80]!r} here; `comity vote list` shows all, and "
                "`comity vote join URL ID` fetches one"
            )
        return (exact or found)[0]

    async def newest(self, text: str) -> StoredVote:
        """Return the vote after reading new entries from its host. Print a note if the host does not answer."""
        stored = await self.chosen(text)
        try:
            with waiting("asking the host"):
                await self.party.refresh(stored.id)
                await self.party.send_waiting()
        except ComityError as reason:
            note(f"nothing new from the host: {reason.message}. This is what is known here")
        return await self.party.find(stored.id)

    async def summary(self, stored: StoredVote) -> dict[str, Any]:
        """Return the JSON of a vote without its clauses."""
        found = stored.vote
        acts = await self.party.ledger.waiting(stored.id)
        progress = progress_of(found)
        return {
            "delib_id": stored.id,
            "title": found.title,
            "phase": found.phase,
            "role": found.stakeholders[self.id_in(stored)].role,
            "entries": stored.head.tip.number,
            "tip": stored.head.tip.hash,
            "keeper": found.host,
            "url": stored.url or self.url,
            "waiting": [act.entry.action.op for act in acts if not act.refusal],
            "refused": [{"op": act.entry.action.op, "why": act.refusal} for act in acts if act.refusal],
            "fraud": None if stored.conflict is None else msgspec.to_builtins(stored.conflict),
            "rules": found.rules,
            "progress": None if progress is None else msgspec.to_builtins(progress),
            "disputed": dispute_of(stored, acts) or None,
            "left_out": [write_entry(act.entry) for act in acts if act.left_out],
        }


def _without_none(args: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if value is not None}


@contextlib.asynccontextmanager
async def open_local_votes(settings: Settings, passphrase_file: str | None) -> AsyncIterator[LocalVotes]:
    refuse_off(settings, Votes)
    refuse_memory(settings, "votes are stored there")
    key = own_key(settings, passphrase_file)
    vault = own_vault(settings)
    access = DirectoryAccess(settings)
    public_http = GuardedHttp(timeout=settings.dispatch.timeout_seconds)
    async with (
        contextlib.aclosing(access.http),
        contextlib.aclosing(public_http),
        writing(settings, key) as (store, record, chain),
    ):
        clock = SystemClock()
        witnesses = Witnesses(store, key, clock, record, proofs=settings.data / PROOFS_FOLDER)
        party = open_party(
            settings,
            store=store,
            vault=vault,
            record=record,
            clock=clock,
            key=key,
            http=access.http,
            public_http=public_http,
            holder=chain,
            features=Features([witnesses]),
        )
        try:
            yield LocalVotes(party, key, access.own.url if access.own else None)
        except ExtensionError as refusal:
            raise in_words_of(_OPTIONS, refusal) from None
