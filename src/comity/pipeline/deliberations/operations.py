"""The operations `consensus.*` of the one table (ruling 47), on deliberations that are kept here or elsewhere.

What an operation takes and gives stands in the table; here is only how its act gets into a log. An act that waits for
a keeper gives a `WaitingReport` instead: it is stored and will be sent, so it must not be repeated.
"""

from typing import Any

from msgspec import Struct

from comity.core.caller import OWN_PROCESS, Caller
from comity.core.errors import PeerError, RetryLaterError
from comity.core.extensions import operations
from comity.core.extensions.calls import CallFacts, ExtensionRules, JoinArguments
from comity.core.extensions.consensus.acts import ActArguments, BallotArguments
from comity.core.extensions.refusals import shaped
from comity.core.extensions.state import ExtensionState
from comity.pipeline.deliberations.desk import ActOutcome, DeliberationDesk

OPEN = "consensus.open"
JOIN = "consensus.join"
LIST = "consensus.list"
RESULT = "consensus.result"


class WaitingReport(Struct, frozen=True, kw_only=True):
    """The act is stored here and is sent when the keeper answers; do not repeat it."""

    delib_id: str
    why: str
    waiting: bool = True


class DeliberationOperations:
    def __init__(self, desk: DeliberationDesk, rules: ExtensionRules | None = None) -> None:
        self.desk = desk
        self._rules = rules or ExtensionRules()

    async def perform(self, op: str, args: Any, facts: CallFacts, caller: Caller = OWN_PROCESS) -> Any:
        """Run one operation for a caller. Raises ExtensionError, or RetryLaterError where a node that is to be joined
        does not answer.
        """
        row = operations.OPERATIONS.get(op)
        if row is None or facts.voice is None or type(args) is not dict:
            return self._pure(op, args, facts, ExtensionState())  # which says what is wrong
        operations.refuse_inactive(row, facts.active)
        if op == LIST:
            known = await self.desk.those_of(facts.voice)
            return self._pure(
                op, args, facts, ExtensionState(deliberations=tuple(k.deliberation for k in known))
            )
        given = shaped(args, row.arguments)
        if op == OPEN:
            return (await self.desk.open(facts.fresh_id, args, facts.voice, caller)).deliberation
        if op == JOIN:
            return await self._join(given, facts, caller)
        if row.logged:
            outcome = await self.desk.act(op, args, facts.voice, caller)
            return self._acted(outcome, given, facts)
        return await self._read(op, args, facts, caller)

    async def _join(self, given: JoinArguments, facts: CallFacts, caller: Caller) -> Any:
        assert facts.voice is not None, "who has no voice is refused before"
        return (await self.desk.join(given.url, given.delib_id, facts.voice, caller)).deliberation

    async def _read(self, op: str, args: dict[str, Any], facts: CallFacts, caller: Caller) -> Any:
        """From the newest entries that can be had; without the keeper, from our own copy."""
        delib_id = args["delib_id"]
        try:
            kept = await self.desk.refresh(delib_id, caller)
        except (RetryLaterError, PeerError):
            kept = await self.desk.find(delib_id)
        return self._pure(op, args, facts, ExtensionState(deliberation=kept.deliberation))

    def _acted(self, outcome: ActOutcome, given: Any, facts: CallFacts) -> Any:
        after = outcome.kept.deliberation
        if outcome.entry is None:
            return WaitingReport(delib_id=after.id, why=outcome.why)
        if not isinstance(given, ActArguments | BallotArguments):
            return after
        about = {"delib_id": after.id, "clause_id": given.clause_id}
        return self._pure(RESULT, about, facts, ExtensionState(deliberation=after))

    def _pure(self, op: str, args: Any, facts: CallFacts, state: ExtensionState) -> Any:
        _, result = operations.perform(op, state, args, facts, self._rules, 0.0)
        return result
