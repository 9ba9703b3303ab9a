"""What the payload of a context request may change, and what an answer says of the extensions (ruling 49).

- Signals and presets, norms and self-models are applied. Trust, standing, continuity and torches are never taken
  from a payload: they are listed as ignored, with the operation that is meant for it. Nothing is accepted and
  dropped.
- One wrong value refuses the whole request.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol import calls, personal, relational
from comity.extensions.protocol.calls import OperationCall
from comity.extensions.protocol.relational import RelationalState
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.protocol.texts import refuse_injection
from comity.vcp.protocol.context import ContextRequest, Ignored
from comity.vcp.protocol.extension_calls import ExtensionError, invalid
from comity.vcp.protocol.messages import CONSENSUS, INTENT, PERSONAL, RELATIONAL, TORCH

_NEVER_FROM_A_PAYLOAD: Final[Mapping[str, str]] = {
    "trust_level": "trust follows from sessions and is not declared",
    "standing": "standing rises by the owner's own setting",
    "continuity_depth": "continuity follows from sessions and is not declared",
    "torch": "take a torch with torch.receive",
}
_WHOLE_PAYLOADS: Final[Mapping[str, str]] = {
    TORCH: "take a torch with torch.receive",
    INTENT: "correct an intent with intent.correct",
    CONSENSUS: "take part in a deliberation with the operations of consensus",
}
_MAX_NAME_LENGTH: Final = 128


class AppliedPayload(Struct, frozen=True, kw_only=True):
    """`request` names as accepted only what was applied."""

    state: ExtensionState
    request: ContextRequest


def apply_payload(call: OperationCall, request: ContextRequest) -> AppliedPayload:
    """The state after a context request. Raises ExtensionError."""
    applied = _Applying(call, request)
    applied.personal()
    applied.relational()
    for extension, remedy in _WHOLE_PAYLOADS.items():
        if extension in request.extensions:
            applied.ignore(f"extensions.{extension}", remedy)
    return applied.outcome()


def answers(call: OperationCall) -> dict[str, Any]:
    """What the active extensions say in a context response; the audience decides how much."""
    views: dict[str, Any] = {
        PERSONAL: calls.personal_view,
        RELATIONAL: calls.relational_view,
        TORCH: calls.torch_view,
        INTENT: calls.intent_view,
    }
    return {extension: view(call) for extension, view in views.items() if extension in call.facts.active}


class _Applying:
    def __init__(self, call: OperationCall, request: ContextRequest) -> None:
        self._call = call
        self._request = request
        self._state = call.state
        self._ignored: list[Ignored] = []

    def personal(self) -> None:
        rules, now = self._call.rules.personal, self._call.now
        before = after = self._state.session.personal
        more = self._request.extensions.get(PERSONAL, {})
        if "preset_id" in more:
            try:
                after = personal.apply_preset(after, more["preset_id"], rules, now)
            except ExtensionError as fault:
                self.ignore("preset_id", fault.message)
        if "transition" in more:
            self.ignore("transition", "signals change by being declared")
        if self._request.signals:
            for dimension, signal in self._request.signals.items():
                if signal is not None:
                    refuse_injection(
                        signal.extended, self._call.rules.scan_threshold, f"personal.{dimension}.extended"
                    )
            after = personal.tell(after, self._request.signals, rules, now, "personal")
        if after is not before:
            self._state = replace(self._state, session=replace(self._state.session, personal=after))

    def relational(self) -> None:
        payload = self._request.extensions.get(RELATIONAL)
        if payload is None:
            return
        field = (
            "relational_context"
            if "relational_context" in self._request.accepted
            else f"extensions.{RELATIONAL}"
        )
        before = after = self._state.owner.relational
        refuse_injection(payload, self._call.rules.scan_threshold, field)
        for name, value in payload.items():
            place = f"{field}.{name}"
            if value is None:
                continue
            if name == "established_norms":
                after = _with_norms(after, value, place)
            elif name == "ai_self_model":
                after = relational.keep_self_model(after, relational.read_self_model(value, place))
            else:
                self.ignore(place, _NEVER_FROM_A_PAYLOAD.get(name, "unknown member"))
        if after is not before:
            self._state = replace(self._state, owner=replace(self._state.owner, relational=after))
        else:
            self._ignored.append(Ignored(field, "nothing in it may be changed by a payload"))

    def ignore(self, field: str, reason: str) -> None:
        self._ignored.append(Ignored(field[:_MAX_NAME_LENGTH], reason))

    def outcome(self) -> AppliedPayload:
        fields = {ignored.field for ignored in self._ignored}
        return AppliedPayload(
            state=self._state,
            request=replace(
                self._request,
                accepted=tuple(field for field in self._request.accepted if field not in fields),
                ignored=(*self._request.ignored, *self._ignored),
            ),
        )


def _with_norms(state: RelationalState, value: Any, field: str) -> RelationalState:
    if type(value) is not list:
        raise invalid(f"{field} must be a list of norms", field)
    for index, norm in enumerate(value):
        state = relational.keep_norm(state, relational.read_norm(norm, f"{field}[{index}]"))
    return state
