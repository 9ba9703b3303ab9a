"""The context request: what a session accepts of it, ignores, or refuses (vcp 4.3).

- Members that the session does not support are listed under `ignored` with a reason; their content is not read or stored.
  All other members are checked, and one wrong value makes the whole request invalid.
- The data of an extension is under `extensions` or in a member of its own (`personal`, `relational_context`); if both
  are there, its own member counts.
- Constitution text is scanned first, in any session (ruling 17); a refusal names the patterns, never the text that
  matched. Beside it, `stapled_proof` may prove that it is not revoked.
- An object without any member of a context request is refused.

Both sides use the table of members and `reason_to_ignore` (vcp 1.8, 1.10; ruling 15): a client before it sends, a server
before it reads.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.vcp.protocol import agreement
from comity.vcp.protocol import signals as wire
from comity.vcp.protocol.agreement import V2_0, V3_0, V3_1, Session
from comity.vcp.protocol.injection import Severity, failed_scan
from comity.vcp.protocol.messages import PERSONAL, RELATIONAL
from comity.vcp.protocol.signals import (
    Categorical,
    ContextError,
    ModelSafeContext,
    Signal,
    Signals,
    model_safe,
    read_personal,
    read_prosaic,
    wrong,
)
from comity.wire.errors import MalformedError

CORE: Final = frozenset(("categorical", "generation_preferences", "generation_prefs"))
EXTENSION_OF: Final = {
    "personal": PERSONAL,
    "preset_id": PERSONAL,
    "transition": PERSONAL,
    "relational_context": RELATIONAL,
}
FIELDS: Final = CORE | EXTENSION_OF.keys() | {"prosaic", "constitution", "stapled_proof", "extensions"}


def reason_to_ignore(field: str, session: Session) -> str | None:
    """Return why the session does not accept this member; None if it does. For `extensions` use `inactive_reason` for each
    extension in it.
    """
    if field in EXTENSION_OF:
        return inactive_reason(EXTENSION_OF[field], session)
    if field == "prosaic":
        version = session.speaks
        if version >= V3_1:
            return inactive_reason(PERSONAL, session)
        return None if version >= V3_0 else f"a VCP {session.version} session has no personal state"
    if field in ("constitution", "stapled_proof"):
        return None if session.speaks >= V2_0 else "a VCP 1.0 session takes no constitution text"
    return None if field in FIELDS else "unknown field"


def inactive_reason(extension: str, session: Session) -> str | None:
    if session.speaks < V3_1:
        return f"a VCP {session.version} session has no extensions"
    if not session.active(extension):
        return f"{extension} is not active in this session"
    return None


PREFERENCES: Final = ("depth", "formality", "directness", "technical_level")
MAX_PRESET_ID_LENGTH: Final = 128
MAX_IGNORED: Final = 64

MAX_CONSTITUTION_LENGTH: Final = 262_144
_MAX_NAME_LENGTH: Final = 128


class GenerationPreferences(Struct, frozen=True, kw_only=True):
    """Each from 1 to 5, or None: brief to detailed, casual to formal, elaborated to concise, simple to expert."""

    depth: int | None = None
    formality: int | None = None
    directness: int | None = None
    technical_level: int | None = None


class Ignored(Struct, frozen=True):
    field: str
    reason: str


class ContextRequest(Struct, frozen=True, kw_only=True):
    """`signals` has the declared signal of each dimension; None removes an earlier one. `extensions` is the data of active
    extensions, as received.
    """

    categorical: Categorical | None = None
    preferences: GenerationPreferences | None = None
    signals: dict[str, Signal | None] = {}
    constitution: str | None = None
    stapled_proof: dict[str, Any] | None = None
    extensions: dict[str, Any] = {}
    accepted: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()


def constitution_id(text: str) -> str:
    """Return the id under which a constitution is revoked."""
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def without_proof(request: ContextRequest, fault: str) -> ContextRequest:
    """Return the request with its stapled proof ignored, because it does not count."""
    return replace(
        request,
        stapled_proof=None,
        accepted=tuple(name for name in request.accepted if name != "stapled_proof"),
        ignored=(Ignored("stapled_proof", fault), *request.ignored[: MAX_IGNORED - 1]),
    )


def read_request(value: Any, session: Session, scan_threshold: Severity = "medium") -> ContextRequest:
    """Read a context request. Raises ContextError."""
    if type(value) is not dict:
        raise ContextError("MALFORMED", "a message must be one JSON object; send a context request")
    if FIELDS.isdisjoint(value):
        raise ContextError(
            "UNKNOWN_MESSAGE",
            "this is no context request: it has none of categorical, generation_preferences, personal, "
            "extensions or constitution",
        )
    reading = _RequestReading(value, session)
    reading.version()
    reading.constitution(scan_threshold)
    reading.stapled_proof()
    reading.core()
    reading.payloads()
    reading.personal()
    return ContextRequest(
        categorical=reading.categorical,
        preferences=reading.preferences,
        signals=reading.signals,
        constitution=reading.text,
        stapled_proof=reading.proof,
        extensions=reading.extensions,
        accepted=tuple(reading.accepted),
        ignored=tuple(reading.ignored[:MAX_IGNORED]),
    )


class _RequestReading:
    def __init__(self, value: dict[str, Any], session: Session) -> None:
        self._session = session
        self._taken: dict[str, Any] = {}
        self._version = value.get("version")
        self.ignored: list[Ignored] = []
        self.accepted: list[str] = []
        self.categorical: Categorical | None = None
        self.preferences: GenerationPreferences | None = None
        self.signals: dict[str, Signal | None] = {}
        self.text: str | None = None
        self.proof: dict[str, Any] | None = None
        self.extensions: dict[str, Any] = {}
        self._unscanned = value.get("constitution")
        for field, member in value.items():
            if field == "version" or member is None:
                continue
            reason = reason_to_ignore(field, session)
            if reason is None:
                self._taken[field] = member
            else:
                self._ignore(field, reason)

    def version(self) -> None:
        if self._version is None:
            return
        try:
            spoken = agreement.parse(self._version if type(self._version) is str else "")
        except MalformedError as fault:
            raise wrong("version", f"is malformed: {fault.message}") from None
        if spoken != self._session.speaks:
            self._ignore("version", f"this session speaks VCP {self._session.version}")

    def constitution(self, threshold: Severity) -> None:
        text = self._unscanned
        if type(text) is not str:
            if "constitution" in self._taken:
                raise wrong("constitution", "must be a text")
            return
        if len(text) > MAX_CONSTITUTION_LENGTH:  # it is kept with the session
            raise wrong("constitution", f"must be a text of at most {MAX_CONSTITUTION_LENGTH:,} characters")
        if failed := failed_scan(text, threshold):
            raise ContextError("CONSTITUTION_REFUSED", f"constitution {failed}", "constitution")
        if "constitution" in self._taken:
            self.text = text
            self.accepted.append("constitution")

    def stapled_proof(self) -> None:
        proof = self._taken.get("stapled_proof")
        if proof is None:
            return
        if type(proof) is not dict:
            raise wrong("stapled_proof", "must be an object")
        if self.text is None:
            self._ignore("stapled_proof", "there is no constitution that it could be about")
            return
        self.proof = proof
        self.accepted.append("stapled_proof")

    def core(self) -> None:
        if "categorical" in self._taken:
            self.categorical = _categorical(self._taken["categorical"])
            self.accepted.append("categorical")
        given = self._first("generation_preferences", "generation_prefs")
        if given is not None:
            self.preferences = self._preferences(given)
            self.accepted.append(given)

    def payloads(self) -> None:
        payloads = self._taken.get("extensions", {})
        if type(payloads) is not dict:
            raise wrong("extensions", "must be an object of payloads")
        for extension, payload in payloads.items():
            field = f"extensions.{extension}"
            reason = inactive_reason(extension, self._session)
            own = _OWN_MEMBER.get(extension)
            if reason is not None:
                self._ignore(field, reason)
            elif own in self._taken:
                self._ignore(field, f"{own} is there as well and counts")
            elif type(payload) is not dict:
                raise wrong(field, "must be an object")
            else:
                self.extensions[extension] = payload
                self.accepted.append(field)
        if "relational_context" in self._taken:
            context = self._taken["relational_context"]
            if type(context) is not dict:
                raise wrong("relational_context", "must be an object")
            self.extensions[RELATIONAL] = context
            self.accepted.append("relational_context")

    def personal(self) -> None:
        inside = self.extensions.pop(PERSONAL, None)
        if "personal" in self._taken:
            self._take_signals(read_personal(self._taken["personal"]))
            self.accepted.append("personal")
        elif inside is not None:
            self._take_signals(read_personal(inside, f"extensions.{PERSONAL}"))
        if "prosaic" in self._taken:
            if "personal" in self._taken or inside is not None:
                self._ignore("prosaic", "personal is there as well and counts")
            else:
                self._take_signals(read_prosaic(self._taken["prosaic"]))
                self.accepted.append("prosaic")
        more = {field: self._taken[field] for field in ("preset_id", "transition") if field in self._taken}
        preset = more.get("preset_id", "-")
        if type(preset) is not str or not 0 < len(preset) <= MAX_PRESET_ID_LENGTH:
            raise wrong("preset_id", f"must be a text of 1 to {MAX_PRESET_ID_LENGTH} characters")
        if more:
            self.extensions[PERSONAL] = more
            self.accepted += more

    def _first(self, field: str, other: str) -> str | None:
        if field in self._taken:
            if other in self._taken:
                self._ignore(other, f"{field} is there as well and counts")
            return field
        return other if other in self._taken else None

    def _preferences(self, given: str) -> GenerationPreferences:
        value = self._taken[given]
        if type(value) is not dict:
            raise wrong(given, "must be an object")
        for name, level in value.items():
            if name not in PREFERENCES:
                self._ignore(f"{given}.{name}", "unknown preference")
            elif level is not None and (type(level) is not int or not 1 <= level <= 5):
                raise wrong(f"{given}.{name}", "must be a whole number from 1 to 5, or null")
        return GenerationPreferences(**{name: value.get(name) for name in PREFERENCES})

    def _take_signals(self, signals: Signals) -> None:
        self.signals = signals.of
        for name in signals.unknown_dimensions:
            self._ignore(name, "unknown dimension")
        for name in signals.unknown_members:
            self._ignore(name, "unknown member")

    def _ignore(self, field: str, reason: str) -> None:
        self.ignored.append(Ignored(field[:_MAX_NAME_LENGTH], reason))


_OWN_MEMBER: Final = {PERSONAL: "personal", RELATIONAL: "relational_context"}


def _categorical(value: Any) -> Categorical:
    if type(value) is dict:
        value, field = value.get("wire"), "categorical.wire"
    else:
        field = "categorical"
    if type(value) is not str:
        raise wrong(field, "must be a text of nine symbols")
    return wire.parse(value, field)


# The context after a request, and the response (vcp 4.3).


encode_response = msgspec.json.Encoder().encode


class SessionContext(Struct, frozen=True, kw_only=True):
    categorical: Categorical | None = None
    preferences: GenerationPreferences = GenerationPreferences()
    signals: dict[str, Signal] = {}
    constitution: str | None = None


class ContextResponse(Struct, frozen=True, kw_only=True):
    version: str
    session_id: str
    accepted: tuple[str, ...]
    ignored: tuple[Ignored, ...]
    model_safe_context: ModelSafeContext
    generation_preferences: GenerationPreferences
    extensions: dict[str, Any] = {}


class CallerContext(Struct, frozen=True, kw_only=True):
    """What an agent may know of its caller: the care it needs, and the answers it wants."""

    model_safe_context: ModelSafeContext
    generation_preferences: GenerationPreferences


def context_block(context: CallerContext) -> str:
    """Return the block before the system prompt of a model that answers this caller (vcp 7.5)."""
    safe, wishes = context.model_safe_context, context.generation_preferences
    fields = {
        "Protection level": safe.protection_level,
        "Domain": safe.domain,
        "Register": safe.formality_level,
        "Depth": wishes.depth and f"{wishes.depth}/5, from brief to detailed",
        "Formality": wishes.formality and f"{wishes.formality}/5, from casual to formal",
        "Directness": wishes.directness and f"{wishes.directness}/5, from elaborated to concise",
        "Technical level": wishes.technical_level and f"{wishes.technical_level}/5, from simple to expert",
    }
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\n".join(("[VCP Context — v3.1]", *lines, "[End VCP Context]"))


def after(context: SessionContext, request: ContextRequest) -> SessionContext:
    """Return the context after an accepted request; preferences and wire replace earlier ones whole."""
    signals = {**context.signals, **request.signals}
    return SessionContext(
        categorical=request.categorical or context.categorical,
        preferences=request.preferences or context.preferences,
        signals={dimension: signal for dimension, signal in signals.items() if signal is not None},
        constitution=context.constitution if request.constitution is None else request.constitution,
    )


def respond(
    request: ContextRequest,
    context: SessionContext,
    session: Session,
    extensions: Mapping[str, Any],
    effective_signals: Mapping[str, Signal] | None = None,
) -> ContextResponse:
    """`context` is the session's after the request; `extensions` are the answers of active extensions. `effective_signals`
    replace the signals of the context, if given.
    """
    signals = context.signals if effective_signals is None else effective_signals
    return ContextResponse(
        version=session.version,
        session_id=session.id,
        accepted=request.accepted,
        ignored=request.ignored,
        model_safe_context=model_safe(signals, context.categorical, session_active=True),
        generation_preferences=context.preferences,
        extensions={name: answer for name, answer in extensions.items() if session.active(name)},
    )
