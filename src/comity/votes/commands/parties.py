"""Parties as the command line names them."""

from typing import Any, Final, get_args

from comity.identity.protocol.keys import id_of
from comity.terminal.options import one_of
from comity.votes.protocol.vote import StakeholderRole
from comity.wire.errors import ConfigError

_ROLES: Final = tuple(role for role in get_args(StakeholderRole) if role != "author")
_REPRESENTATIVE: Final = "ai_representative"
PARTY_HELP: Final = (
    "the id of a node (64 digits or did:key), or NAME@ID for a person for whom that node signs. Add =ROLE for another role "
    "than participant: observer, ai_party, or ai_representative:PRINCIPAL:FIDELITY with the id of the party that it "
    "represents and a weight from 0 to 1"
)


def read_parties(lists: list[str]) -> list[dict[str, Any]]:
    """Read parties that are separated by commas, in one or several values."""
    return [read_party(one.strip()) for text in lists for one in text.split(",") if one.strip()]


def read_party(text: str) -> dict[str, Any]:
    """Read a stakeholder: ID or NAME@ID, optionally =ROLE; a representative is =ai_representative:PRINCIPAL:FIDELITY."""
    who, _, given = text.partition("=")
    role, *more = (given or "participant").split(":")
    one_of("the role of a party", role, _ROLES)
    party: dict[str, Any] = {**_named(who), "role": role}
    if role != _REPRESENTATIVE:
        if more:
            raise ConfigError(f"only the role {_REPRESENTATIVE} takes more values; write {who}={role}")
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
            f"{who[:80]!r} is not a party: give the id of a node (64 digits or did:key, as `comity id show` prints it), or "
            "NAME@ID for a person for whom that node signs"
        )
    return {"id": name, "node": signs.hex()}
