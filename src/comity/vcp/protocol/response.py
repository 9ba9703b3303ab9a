"""What a session knows after a context request, and what the client is told (vcp 4.3).

- A `SessionContext` is the state of one session. Each request adds to it, and a null removes a value. It is stored
  encrypted, and is never part of an answer.
- The answer lists what was accepted and ignored, repeats the preferences, and contains what a model may see. It does not
  contain the score or the constitution. The answers of the extensions are under `extensions`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.categorical import Categorical
from comity.vcp.protocol.context import ContextRequest, GenerationPreferences, Ignored
from comity.vcp.protocol.opacity import ModelSafeContext, model_safe
from comity.vcp.protocol.signals import Signal

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
    """What an agent may know of whoever calls it: how much care it needs, and how it wishes to be answered."""

    model_safe_context: ModelSafeContext
    generation_preferences: GenerationPreferences


def context_block(context: CallerContext) -> str:
    """What stands before the system prompt of a model that answers this caller (vcp 7.5)."""
    safe, wishes = context.model_safe_context, context.generation_preferences
    told = {
        "Protection level": safe.protection_level,
        "Domain": safe.domain,
        "Register": safe.formality_level,
        "Depth": wishes.depth and f"{wishes.depth}/5, from brief to detailed",
        "Formality": wishes.formality and f"{wishes.formality}/5, from casual to formal",
        "Directness": wishes.directness and f"{wishes.directness}/5, from elaborated to concise",
        "Technical level": wishes.technical_level and f"{wishes.technical_level}/5, from simple to expert",
    }
    lines = [f"{name}: {value}" for name, value in told.items() if value is not None]
    return "\n".join(("[VCP Context — v3.1]", *lines, "[End VCP Context]"))


def after(context: SessionContext, request: ContextRequest) -> SessionContext:
    """What the session knows once the request is accepted; preferences and wire replace earlier ones whole."""
    told = {**context.signals, **request.signals}
    return SessionContext(
        categorical=request.categorical or context.categorical,
        preferences=request.preferences or context.preferences,
        signals={dimension: signal for dimension, signal in told.items() if signal is not None},
        constitution=context.constitution if request.constitution is None else request.constitution,
    )


def respond(
    request: ContextRequest,
    context: SessionContext,
    session: Session,
    extensions: Mapping[str, Any],
    effective_signals: Mapping[str, Signal] | None = None,
) -> ContextResponse:
    """`context` is the session's after the request; `extensions` is what active extensions have to say.
    `effective_signals` are what is left of signals that fade; None: those of the context count as they are.
    """
    signals = context.signals if effective_signals is None else effective_signals
    return ContextResponse(
        version=session.version,
        session_id=session.id,
        accepted=request.accepted,
        ignored=request.ignored,
        model_safe_context=model_safe(signals, context.categorical, session_active=True),
        generation_preferences=context.preferences,
        extensions={name: said for name, said in extensions.items() if session.active(name)},
    )
