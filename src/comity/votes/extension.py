"""Run the operations `consensus.*`: an act becomes an entry of its log, and the answer is read from the log (ruling 50a).

New entries elsewhere are fetched before an answer is read; where the host of the vote does not answer, our copy counts. An
act that waits for its host decides nothing: the answer is the vote as it is, with the reason under `waiting`.
"""

import contextlib
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from comity.extensions.protocol.calls import CallFacts
from comity.requests.caller import Caller
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.messages import CONSENSUS
from comity.votes.logs import dispute_of
from comity.votes.party import VoteParty
from comity.votes.protocol.operations import (
    ClauseReport,
    ResultArguments,
    ResultReport,
    VoteList,
    result_report,
    summary_of,
    voice_of,
)
from comity.votes.protocol.provenance import provenance_of
from comity.votes.protocol.vote import Voice, stakeholder_of
from comity.wire.errors import RetryLaterError

_ON_A_CLAUSE: Final = frozenset(("consensus.act", "consensus.ballot"))


class VoteOperations:
    extension = CONSENSUS

    def __init__(self, party: VoteParty) -> None:
        self._party = party

    async def perform(
        self, op: str, args: dict[str, Any], given: Any, facts: CallFacts, caller: Caller
    ) -> Any:
        """Run an operation; `given` are its arguments as a Struct. Raises ExtensionError."""
        voice = _voice(facts)
        match op:
            case "consensus.open":
                return (await self._party.open(facts.fresh_id, args, voice, caller)).vote
            case "consensus.join":
                return await self._join(given.url, given.delib_id, voice, caller)
            case "consensus.list":
                known = await self._party.those_of(voice)
                listed = tuple(
                    summary_of(stored.vote, self._party.voice_in(stored.vote, voice)) for stored in known
                )
                return VoteList(deliberations=listed)
            case "consensus.result" | "consensus.record":
                return await self._read(given, voice, caller)
            case _:
                return await self._act(op, args, given, voice, caller)

    async def ids_of(self, facts: CallFacts) -> list[str]:
        """Return the ids of the votes in which the caller takes part."""
        if facts.owner is None:
            return []
        return [stored.vote.id for stored in await self._party.those_of(_voice(facts))]

    async def _join(self, url: str, delib_id: str, voice: Voice, caller: Caller) -> Any:
        try:
            return (await self._party.join(url, delib_id, voice, caller)).vote
        except RetryLaterError as reason:
            raise ExtensionError("NOT_FOUND", reason.message, "url") from reason

    async def _act(self, op: str, args: dict[str, Any], given: Any, voice: Voice, caller: Caller) -> Any:
        outcome = await self._party.act(op, args, voice, caller)
        result: Any = outcome.stored.vote
        if op in _ON_A_CLAUSE:
            result = result_report(outcome.stored.vote, given.clause_id)
        if outcome.entry is None:
            return {**msgspec.to_builtins(result), "waiting": outcome.why}
        return result

    async def _read(self, given: Any, voice: Voice, caller: Caller) -> Any:
        found = (await self._party.find(given.delib_id)).vote
        voice = self._party.voice_in(found, voice)
        stakeholder_of(found, voice)  # no other node is asked for a caller who takes no part
        with contextlib.suppress(RetryLaterError):
            found = (await self._party.refresh(given.delib_id, caller)).vote
        stakeholder_of(found, voice)
        if isinstance(given, ResultArguments):
            return await self._with_dispute(result_report(found, given.clause_id))
        return provenance_of(found)

    async def _with_dispute(self, report: ClauseReport | ResultReport) -> ClauseReport | ResultReport:
        """Add why this node disputes the result, if it does."""
        party, id_ = self._party, report.delib_id
        why = dispute_of(await party.find(id_), await party.ledger.waiting(id_))
        if not why or report.progress is None:
            return report
        return replace(report, progress=replace(report.progress, disputed=why))


def _voice(facts: CallFacts) -> Voice:
    return voice_of(facts.key.vacant_id.hex(), facts.owner)
