"""The agent that calls actions: `comity up --agent actions`."""

from collections.abc import Iterator
from typing import Any

from comity.actions.client import Pages
from comity.actions.library import Library
from comity.actions.protocol.machine import INVALID_PAYLOAD, MALFORMED, invoke_issues, refusal
from comity.actions.runner import ActionLimits, Runner
from comity.agents.behaviour import saying
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage
from comity.requests.caller import vacant
from comity.wire import strict_json
from comity.wire.errors import ActionError, ComityError, MalformedError, public_message


class ActionsAgent:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def __call__(self, envelope: VacantEnvelope) -> A2AMessage:
        return saying(strict_json.dumps(await self._reply(envelope)).decode())

    async def aclose(self) -> None:
        await self._runner.aclose()

    async def _reply(self, envelope: VacantEnvelope) -> dict[str, Any]:
        caller = vacant(envelope.from_vacant_id.hex())
        try:  # before any of it is read
            self._runner.check_length(sum(len(part.text) for part in envelope.payload.parts), caller)
        except ActionError as refused:
            return refusal(refused.message)
        asked = next(_objects(envelope), None)
        if asked is None:
            return refusal(MALFORMED)
        if issues := invoke_issues(asked):
            return refusal(INVALID_PAYLOAD, issues)
        try:
            return {"ok": True, "data": await self._runner.call(asked["action"], asked["input"], caller)}
        except ComityError as refused:
            return refusal(public_message(refused))


def load_actions(limits: ActionLimits | None = None) -> ActionsAgent:
    """Return the agent of the actions that come with Comity. Anybody may call it, so no private page is fetched."""
    return ActionsAgent(Runner(Library("enhanced"), Pages(), limits=limits))


def _objects(envelope: VacantEnvelope) -> Iterator[dict[str, Any]]:
    for part in envelope.payload.parts:
        try:
            value = strict_json.loads(part.text.encode())
        except (MalformedError, UnicodeEncodeError):
            continue
        if isinstance(value, dict):
            yield value
