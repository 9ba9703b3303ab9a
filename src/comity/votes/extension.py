"""The operations `consensus.*`: an act becomes an entry of its log, and the answer is read from the log (ruling 50a).

What was said elsewhere since is fetched before an answer is read; where the keeper does not answer, our copy counts. An
act that waits for its keeper decides nothing: the answer is the deliberation as it stands, with the reason under
`waiting`.
"""

import contextlib
from typing import Any, Final

import msgspec

from comity.extensions.protocol.calls import CallFacts, ExtensionRules, JoinArguments
from comity.extensions.protocol.operations import OPERATIONS, perform
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.protocol.texts import refuse_injection
from comity.requests.caller import Caller
from comity.vcp.protocol.extension_calls import ExtensionError, invalid, shaped
from comity.votes.logs import KeptDeliberation
from comity.votes.party import VoteParty
from comity.votes.protocol.vote import Voice
from comity.wire.errors import RetryLaterError
from comity.wire.machine import Clock

_OPEN: Final = "consensus.open"
_JOIN: Final = "consensus.join"
_LIST: Final = "consensus.list"
_RESULT: Final = "consensus.result"
_WHICH_CLAUSE: Final = frozenset(("delib_id", "clause_id"))
_OF_A_CLAUSE: Final = frozenset(("consensus.act", "consensus.ballot"))


class DeliberationOperations:
    def __init__(self, desk: VoteParty, clock: Clock, rules: ExtensionRules) -> None:
        self._desk = desk
        self._clock = clock
        self._rules = rules

    async def perform(self, op: str, args: Any, facts: CallFacts, caller: Caller) -> Any:
        """Run one of the operations `consensus.*`, which was found active. Raises ExtensionError."""
        if type(args) is not dict:
            raise invalid("args must be an object", "args")
        if facts.voice is None:
            raise ExtensionError("FORBIDDEN", "deliberations need an identity; send a hello with one")
        refuse_injection(args, self._rules.scan_threshold)
        shaped(args, OPERATIONS[op].arguments)
        if op == _OPEN:
            return (await self._desk.open(facts.fresh_id, args, facts.voice, caller)).deliberation
        if op == _JOIN:
            return await self._join(args, facts.voice, caller)
        if OPERATIONS[op].logged:
            return await self._act(op, args, facts, caller)
        return await self._read(op, args, facts, caller)

    async def ids_of(self, voice: Voice) -> list[str]:
        """The deliberations in which a voice takes part."""
        return [kept.deliberation.id for kept in await self._desk.those_of(voice)]

    async def _join(self, args: dict[str, Any], voice: Voice, caller: Caller) -> Any:
        given = shaped(args, JoinArguments)
        try:
            return (await self._desk.join(given.url, given.delib_id, voice, caller)).deliberation
        except RetryLaterError as reason:
            raise ExtensionError("NOT_FOUND", reason.message, "url") from reason

    async def _act(self, op: str, args: dict[str, Any], facts: CallFacts, caller: Caller) -> Any:
        assert facts.voice is not None
        outcome = await self._desk.act(op, args, facts.voice, caller)
        told: Any = outcome.kept.deliberation
        if op in _OF_A_CLAUSE:
            asked = {name: value for name, value in args.items() if name in _WHICH_CLAUSE}
            told = self._told(_RESULT, asked, facts, outcome.kept)
        if outcome.entry is None:
            return {**msgspec.to_builtins(told), "waiting": outcome.why}
        return told

    async def _read(self, op: str, args: dict[str, Any], facts: CallFacts, caller: Caller) -> Any:
        assert facts.voice is not None
        if op == _LIST:
            known = [kept.deliberation for kept in await self._desk.those_of(facts.voice)]
            return self._run(op, args, facts, ExtensionState(deliberations=tuple(known)))
        kept = await self._desk.find(args["delib_id"])
        self._told(
            _RESULT, {"delib_id": args["delib_id"]}, facts, kept
        )  # who takes no part makes us ask nobody
        with contextlib.suppress(RetryLaterError):
            kept = await self._desk.refresh(args["delib_id"], caller)
        return self._told(op, args, facts, kept)

    def _told(self, op: str, args: dict[str, Any], facts: CallFacts, kept: KeptDeliberation) -> Any:
        return self._run(op, args, facts, ExtensionState(deliberation=kept.deliberation))

    def _run(self, op: str, args: dict[str, Any], facts: CallFacts, state: ExtensionState) -> Any:
        _, result = perform(op, state, args, facts, self._rules, self._clock.now())
        return result
