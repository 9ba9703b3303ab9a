r"""VCP-X-Torch: what one session hands to the next (vcp 6.4; ruling 50).

- A torch describes a relation in words and one number, `session_count`, which gives trust. So it is signed:
  `vcp-torch-v1\n` and the RFC 8785 form of the torch without `signature`. It names its signer, its owner by a hash, an
  optional recipient, the torch it continues, and an id of its own.
- A bad signature, another owner, another recipient, a wrong time and a second use are refused. A torch without a
  signature, or by an unknown signer, is read and has no effect.
- A torch by our own key counts as it says. One by a configured signer counts one more than the torch it continues, if
  that one is known here, otherwise 1. A higher claim is flagged as implausible.
- A torch adds at most one session an hour, as any session does, and we never sign more sessions than were counted.
  The received thread is shown as it is.
- Without VCP-X-Relational torches are handed over and taken too, and the relation stays empty.
"""

import hashlib
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol import relational
from comity.extensions.protocol.calls import OperationCall, OperationOutcome, showing
from comity.extensions.protocol.relational import (
    CODES,
    MAX_SESSIONS,
    RelationalContext,
    RelationalState,
    SelfModel,
    context_of,
    may_count,
)
from comity.extensions.protocol.texts import read_id, read_moment, round_half_up
from comity.identity.protocol.keys import SigningKey, is_key, signature_holds, signature_of
from comity.store.audit_chain import timestamp
from comity.vcp.protocol.extension_calls import (
    ExtensionError,
    ExtensionOperation,
    invalid,
    limit_exceeded,
    refused,
    shaped,
)
from comity.vcp.protocol.messages import MAX_LINEAGE_DEPTH, RELATIONAL, TORCH
from comity.vcp.protocol.registry import Dependency, Extension, StateSlot
from comity.vcp.protocol.resource_addresses import VcpAddress
from comity.wire.canonical import jcs
from comity.wire.errors import ComityError, ConfigError
from comity.wire.machine import SKEW_SECONDS, clock_words

INTERACTIVE_SECONDS: Final = 86_400.0
ASYNC_SECONDS: Final = 7 * 86_400.0
MAX_TORCH_BYTES: Final = 16 * 1024
MAX_QUALITY_LENGTH: Final = 500
MAX_PRIME_LENGTH: Final = 80
MAX_PRIMES: Final = 3
MAX_GIFT_LENGTH: Final = 1000
MAX_KNOWN: Final = 1000
MAX_USED: Final = 1000

_HEADING: Final = b"vcp-torch-v1\n"
_GESTALT: Final = ("valence", "groundedness", "presence", "task_fit")
_MIN_CHANGE: Final = 0.5
_KEY_FORM: Final = "a key of 64 lower-case hexadecimal digits"


class Torch(Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    """A torch as it is sent. Other members are covered by the signature, but not used."""

    quality_description: str
    handed_at: str
    trajectory: str | None = None
    primes: tuple[str, ...] = ()
    gift: str | None = None
    session_count: int = 1
    gestalt_token: str | None = None
    sender: str | None = None
    owner: str | None = None
    to: str | None = None
    previous: str | None = None
    jti: str | None = None
    signature: str | None = None


class TorchSummary(Struct, frozen=True, kw_only=True):
    date: str
    gestalt_token: str | None
    session_id: str


class TorchLineage(Struct, frozen=True, kw_only=True):
    session_count: int
    first_session_date: str | None
    torch_chain: tuple[TorchSummary, ...]


class TorchState(Struct, frozen=True, kw_only=True):
    """`known` are the numbers of sessions of torches that were given or taken, by the hash of their signed bytes; `used` the
    ids that were taken, with their time; `last` the hash that the next torch continues.
    """

    chain: tuple[TorchSummary, ...] = ()
    first_session_date: str | None = None
    known: dict[str, int] = {}
    used: dict[str, float] = {}
    last: str | None = None


class TorchRules(Struct, frozen=True, kw_only=True):
    """`signers` are ids of keys, besides our own, whose torches count."""

    signers: frozenset[str] = frozenset()
    max_age_seconds: float = INTERACTIVE_SECONDS
    max_lineage_depth: int = MAX_LINEAGE_DEPTH

    def __post_init__(self) -> None:
        if not 1 <= self.max_lineage_depth <= MAX_LINEAGE_DEPTH:
            raise ConfigError(f"max_lineage_depth must be from 1 to {MAX_LINEAGE_DEPTH}")
        if not 0 < self.max_age_seconds <= ASYNC_SECONDS:
            raise ConfigError(f"max_age_seconds must be more than 0, and at most {ASYNC_SECONDS:.0f}")


class TorchReceipt(Struct, frozen=True, kw_only=True):
    """The result of taking a torch. `counted` is the number of sessions that it counts as; 0 if it has no effect."""

    torch: dict[str, Any]
    signed: bool
    counted: int
    implausible: bool
    degraded: bool
    trust_level: str
    standing: str
    continuity_depth: int


def owner_hash(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()


def signed_bytes(torch: dict[str, Any]) -> bytes:
    return _HEADING + jcs({name: member for name, member in torch.items() if name != "signature"})


def torch_hash(torch: dict[str, Any]) -> str:
    """Return what a torch that continues this one names as `previous`."""
    return hashlib.sha256(signed_bytes(torch)).hexdigest()


def gestalt_token(model: SelfModel | None) -> str | None:
    if model is None:
        return None
    dimensions = [
        f"{CODES[name]}:{round_half_up(report.value)}"
        for name in _GESTALT
        if (report := model.dimensions.get(name)) is not None
    ]
    return " ".join(dimensions) or None


def trajectory(history: tuple[SelfModel, ...]) -> str | None:
    values = [model.valence.value for model in history if model.valence is not None]
    if len(values) < 2:
        return None
    change = values[-1] - values[-2]
    if change > _MIN_CHANGE:
        return "Improving"
    return "Declining" if change < -_MIN_CHANGE else "Stable"


def describe(context: RelationalContext, history: tuple[SelfModel, ...]) -> dict[str, Any]:
    """Return the texts of a torch, from the relation alone. A gift is added by the caller only."""
    active = [norm.description for norm in context.established_norms if norm.active]
    return {
        "quality_description": (
            f"Trust: {context.trust_level}. Standing: {context.standing}. {len(active)} established norms"
        ),
        "trajectory": trajectory(history),
        "primes": [text[:MAX_PRIME_LENGTH] for text in active[:MAX_PRIMES]],
        "gift": None,
        "session_count": context.continuity_depth + 1,
        "gestalt_token": gestalt_token(context.ai_self_model),
    }


def hand_over(
    state: TorchState,
    relation: RelationalState | None,
    rules: TorchRules,
    *,
    owner: str,
    session_id: str,
    jti: str,
    key: SigningKey,
    now: float,
    to: str | None = None,
) -> tuple[TorchState, dict[str, Any]]:
    """Return a signed torch for the owner's next session. `relation` is None without VCP-X-Relational."""
    if to is not None and not is_key(to):
        raise refused("to", f"must be {_KEY_FORM}")
    known = relation or RelationalState()
    depth = min(known.continuity_depth, max(known.sessions - 1, 0))
    torch = describe(replace(context_of(known), continuity_depth=depth), known.self_models) | {
        "handed_at": timestamp(now),
        "from": key.vacant_id.hex(),
        "owner": owner_hash(owner),
        "previous": state.last,
        "jti": jti,
    }
    if to is not None:
        torch["to"] = to
    torch["signature"] = signature_of(signed_bytes(torch), key)
    summary = TorchSummary(
        date=torch["handed_at"], gestalt_token=torch["gestalt_token"], session_id=session_id
    )
    return _remember(state, torch, torch["session_count"], summary, rules), torch


def receive(
    state: TorchState,
    relation: RelationalState | None,
    rules: TorchRules,
    value: Any,
    *,
    owner: str,
    session_id: str,
    own_key: str,
    now: float,
) -> tuple[TorchState, RelationalState | None, TorchReceipt]:
    """Take a torch. Return the two new states and a receipt. Raises ExtensionError."""
    torch = read_torch(value)
    signed = torch.signature is not None
    if signed:
        _refuse_signature(torch, value)
    _refuse_place(torch, owner, own_key)
    handed = _refuse_time(torch, rules, now)
    if torch.jti is not None and torch.jti in state.used:
        raise ExtensionError("ALREADY_USED", "this torch was taken before; hand over a new one", "torch.jti")
    counts = signed and torch.sender in {own_key, *rules.signers}
    counted, implausible = _counted(state, torch, own_key) if counts else (0, torch.session_count > 1)
    after = _use(state, torch, handed, rules, now)
    if counts:
        summary = TorchSummary(
            date=timestamp(handed), gestalt_token=torch.gestalt_token, session_id=session_id
        )
        after = _remember(after, value, counted, summary, rules)
    if relation is not None:
        relation = replace(relation, torch=value)
    if relation is not None and counts:
        relation = _relation_after(relation, counted, torch.sender == own_key, handed, now)
    context = context_of(relation or RelationalState())
    receipt = TorchReceipt(
        torch=value,
        signed=signed,
        counted=counted,
        implausible=implausible,
        degraded=relation is None,
        trust_level=context.trust_level,
        standing=context.standing,
        continuity_depth=context.continuity_depth,
    )
    return after, relation, receipt


def lineage_of(state: TorchState, relation: RelationalState | None) -> TorchLineage:
    known = relation or RelationalState()
    return TorchLineage(
        session_count=max(known.sessions, known.continuity_depth, len(state.chain)),
        first_session_date=state.first_session_date,
        torch_chain=state.chain,
    )


def read_torch(value: Any) -> Torch:
    """Read a torch that is well formed and within the limits; its content is not checked."""
    if type(value) is not dict:
        raise invalid("torch must be an object", "torch")
    try:
        size = len(jcs(value))
    except ComityError as fault:
        raise invalid(f"torch cannot be read: {fault.message}", "torch") from None
    if size > MAX_TORCH_BYTES:
        raise limit_exceeded(f"torch has more than {MAX_TORCH_BYTES:,} bytes", "torch")
    torch = shaped(value, Torch, "torch")
    for name, text, max_length in (
        ("quality_description", torch.quality_description, MAX_QUALITY_LENGTH),
        ("gift", torch.gift or "", MAX_GIFT_LENGTH),
        *((f"primes[{index}]", prime, MAX_PRIME_LENGTH) for index, prime in enumerate(torch.primes)),
    ):
        if len(text) > max_length:
            raise limit_exceeded(f"torch.{name} has more than {max_length} characters", f"torch.{name}")
    if len(torch.primes) > MAX_PRIMES:
        raise limit_exceeded(f"torch.primes has at most {MAX_PRIMES} entries", "torch.primes")
    if not 1 <= torch.session_count <= MAX_SESSIONS:
        raise invalid(f"torch.session_count must be from 1 to {MAX_SESSIONS:,}", "torch.session_count")
    if torch.jti is not None:
        read_id(torch.jti, "torch.jti")
    return torch


def _refuse_signature(torch: Torch, value: dict[str, Any]) -> None:
    for name, member in (("from", torch.sender), ("owner", torch.owner), ("jti", torch.jti)):
        if member is None:
            raise invalid(f"torch.{name} is needed in a signed torch", f"torch.{name}")
    assert torch.sender is not None
    assert torch.signature is not None
    if not is_key(torch.sender):
        raise invalid(f"torch.from must be {_KEY_FORM}", "torch.from")
    # other programs may pad
    if not signature_holds(torch.sender, signed_bytes(value), torch.signature.rstrip("=")):
        raise ExtensionError("BAD_SIGNATURE", "the signature of the torch does not hold", "torch.signature")


def _refuse_place(torch: Torch, owner: str, own_key: str) -> None:
    if torch.owner is not None and torch.owner != owner_hash(owner):
        raise ExtensionError("FORBIDDEN", "this torch belongs to another owner", "torch.owner")
    if torch.to is not None and torch.to != own_key:
        raise ExtensionError("FORBIDDEN", "this torch was handed to another node", "torch.to")


def _refuse_time(torch: Torch, rules: TorchRules, now: float) -> float:
    handed = read_moment(torch.handed_at, "torch.handed_at")
    clocks = f"it says {clock_words(handed)}, the clock here {clock_words(now)}"
    if handed > now + SKEW_SECONDS:
        raise ExtensionError(
            "STALE",
            f"torch.handed_at lies more than {SKEW_SECONDS:.0f} s in the future: {clocks}",
            "torch.handed_at",
        )
    if now - handed > rules.max_age_seconds:
        raise ExtensionError(
            "STALE",
            f"the torch is older than {rules.max_age_seconds / 3600:g} hours: {clocks}",
            "torch.handed_at",
        )
    return handed


def _counted(state: TorchState, torch: Torch, own_key: str) -> tuple[int, bool]:
    """Return for how many sessions a torch counts, and whether it claims more."""
    if torch.sender == own_key:
        return torch.session_count, False
    before = 0 if torch.previous is None else state.known.get(torch.previous, 0)
    return min(torch.session_count, before + 1), torch.session_count > before + 1


def _relation_after(
    relation: RelationalState, counted: int, ours: bool, handed: float, now: float
) -> RelationalState:
    """`counted` are sessions before the one that takes the torch; that one counts only when an hour has passed."""
    since = relation.counted_at
    if ours:
        # our state may be lost; then the time of handing over is the last one known
        since = min(now, handed) if since is None else max(since, min(now, handed))
    passed = may_count(since, now)
    before = counted if ours else min(counted, relation.sessions)
    return replace(
        relation,
        sessions=max(relation.sessions, before + 1 if passed else before),
        counted_at=now if passed else since,
        continuity_depth=max(relation.continuity_depth, counted),
        standing="advisory" if relation.standing == "none" else relation.standing,
    )


def _use(state: TorchState, torch: Torch, handed: float, rules: TorchRules, now: float) -> TorchState:
    """Remember an id until the torch would be refused for its age."""
    if torch.jti is None:
        return state
    fresh = {jti: at for jti, at in state.used.items() if now - at <= rules.max_age_seconds}
    if len(fresh) >= MAX_USED:
        raise limit_exceeded(f"{MAX_USED:,} torches were taken already; wait until they age")
    return replace(state, used={**fresh, torch.jti: handed})


def _remember(
    state: TorchState, torch: dict[str, Any], counted: int, summary: TorchSummary, rules: TorchRules
) -> TorchState:
    """Add a torch to the chain, which has one entry per session. A torch that was given here is in it already."""
    hashed = torch_hash(torch)
    chain = state.chain
    if hashed not in state.known:
        kept = chain[:-1] if chain and chain[-1].session_id == summary.session_id else chain
        chain = (*kept, summary)[-rules.max_lineage_depth :]
    known = {**state.known, hashed: counted}
    return replace(
        state,
        chain=chain,
        first_session_date=state.first_session_date or summary.date,
        known=dict(list(known.items())[-MAX_KNOWN:]),
        last=hashed,
    )


# The extension.


STATE: Final = StateSlot("owner", "torch", TorchState())


class GenerateArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: str | None = None


class ReceiveArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    torch: dict[str, Any]


def torch_view(call: OperationCall) -> TorchLineage:
    return lineage_of(STATE.of(call.state), _relation(call))


def _relation(call: OperationCall) -> RelationalState | None:
    """Return None in the degraded mode: Relational is not active in this session."""
    return relational.STATE.of(call.state) if RELATIONAL in call.facts.active else None


def _generate(call: OperationCall, args: GenerateArguments) -> OperationOutcome:
    facts = call.facts
    after, torch = hand_over(
        STATE.of(call.state),
        _relation(call),
        call.rules.torch,
        owner=facts.owner_id,
        session_id=facts.session_id,
        jti=facts.fresh_id,
        key=facts.key,
        now=call.now,
        to=args.to,
    )
    return STATE.put(call.state, after), torch


def _receive(call: OperationCall, args: ReceiveArguments) -> OperationOutcome:
    facts = call.facts
    after, relation, receipt = receive(
        STATE.of(call.state),
        _relation(call),
        call.rules.torch,
        args.torch,
        owner=facts.owner_id,
        session_id=facts.session_id,
        own_key=facts.key.vacant_id.hex(),
        now=call.now,
    )
    state = STATE.put(call.state, after)
    if relation is not None:
        state = relational.STATE.put(state, relation)
        if relation.counted_at == call.now:
            state = relational.COUNTED.put(state, True)
    return state, receipt


def _purge(call: OperationCall, _args: Any) -> OperationOutcome:
    """Delete all torches, except the ids of used ones: no torch can be taken twice."""
    state = STATE.put(call.state, TorchState(used=STATE.of(call.state).used))
    return state, torch_view(replace(call, state=state))


EXTENSION: Final = Extension(
    id=TORCH,
    capability=lambda: {
        "gestalt_tokens": True,
        "lineage_tracking": True,
        "max_lineage_depth": MAX_LINEAGE_DEPTH,
        "lineage_depth": MAX_LINEAGE_DEPTH,
    },
    dependencies=(Dependency(RELATIONAL, "degraded", when_active=False),),
    state=(STATE,),
    view=torch_view,
    remedy="take a torch with torch.receive",
    resource=VcpAddress(
        host="torch",
        parameter="session_id",
        title="Torch",
        description="What a session hands on to the next one",
        extension=TORCH,
        scope="owner",
    ),
    operations=(
        ExtensionOperation(
            "torch.generate",
            "vcp_generate_torch",
            "Hand a signed torch to the next session",
            GenerateArguments,
            run=_generate,
            writes=("owner",),
            tool_members=("session_id",),
        ),
        ExtensionOperation(
            "torch.receive",
            "vcp_receive_torch",
            "Take a torch that an earlier session handed over",
            ReceiveArguments,
            run=_receive,
            writes=("session", "owner"),
            codes=("FORBIDDEN", "LIMIT_EXCEEDED", "STALE", "BAD_SIGNATURE", "ALREADY_USED"),
        ),
        ExtensionOperation(
            "torch.lineage",
            "vcp_torch_lineage",
            "The torches before this session, oldest first",
            run=showing(torch_view),
        ),
        ExtensionOperation(
            "torch.purge", "vcp_torch_purge", "Delete all torches at once", run=_purge, writes=("owner",)
        ),
    ),
)
