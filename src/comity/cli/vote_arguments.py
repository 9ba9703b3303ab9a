"""What a person types about a deliberation: parties and rankings; and refusals in the words of the command line."""

from typing import Any, Final, get_args

from comity.clients.finding import id_of
from comity.core.errors import ConfigError
from comity.core.extensions.consensus.deliberation import StakeholderRole
from comity.core.extensions.refusals import ExtensionError

ROLES: Final = tuple(role for role in get_args(StakeholderRole) if role != "author")

_REPRESENTATIVE: Final = "ai_representative"
_TYPED: Final = {
    "level and concern": "--level and --concern",
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


def read_party(text: str) -> dict[str, Any]:
    """A stakeholder: ID or NAME@ID, then perhaps =ROLE; a representative is =ai_representative:PRINCIPAL:FIDELITY."""
    who, _, given = text.partition("=")
    role, *more = (given or "participant").split(":")
    if role not in ROLES:
        raise ConfigError(f"the role of a party must be one of {', '.join(ROLES)}, not {role[:60]!r}")
    party: dict[str, Any] = {**_named(who), "role": role}
    if role != _REPRESENTATIVE:
        if more:
            raise ConfigError(f"only {_REPRESENTATIVE} has something behind its role; write {who}={role}")
        return party
    if len(more) != 2:
        raise ConfigError(f"a representative is written {who}={_REPRESENTATIVE}:PRINCIPAL:FIDELITY")
    try:
        fidelity = float(more[1])
    except ValueError:
        raise ConfigError(f"FIDELITY must be a number from 0 to 1, not {more[1][:60]!r}") from None
    principal = id_of(more[0])
    return {**party, "principal_id": more[0] if principal is None else principal.hex(), "fidelity": fidelity}


def _named(who: str) -> dict[str, Any]:
    party = id_of(who)
    if party is not None:
        return {"id": party.hex()}
    name, at, node = who.rpartition("@")
    signs = id_of(node) if at else None
    if not name or signs is None:
        raise ConfigError(
            f"{who[:80]!r} is no party: give an id (64 digits or did:key, as `comity id show` prints it), or NAME@ID "
            "for somebody in whose name that node signs"
        )
    return {"id": name, "node": signs.hex()}


def read_ranking(given: list[str]) -> list[list[str]]:
    """Best first; variants that are equal are written v1=v2."""
    return [[name.strip() for name in group.split("=")] for group in given]


def in_typed_words(refusal: ExtensionError) -> ExtensionError:
    """The refusal, with the option that was typed where an argument of the operation is named first."""
    for argument, typed in _TYPED.items():
        if refusal.message.startswith(f"{argument} "):
            words = typed + refusal.message.removeprefix(argument)
            return ExtensionError(refusal.wire_code, words, refusal.field)
    return refusal
