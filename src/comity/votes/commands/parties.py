"""Parties as the command line names them."""

from typing import Any, Final, get_args

from comity.contacts.lookup import id_or_text
from comity.identity.protocol.keys import VacantId, id_of
from comity.runtime.settings import Settings
from comity.terminal.options import one_of
from comity.votes.protocol.vote import StakeholderRole
from comity.wire.errors import ConfigError

_ROLES: Final = tuple(role for role in get_args(StakeholderRole) if role != "author")
_REPRESENTATIVE: Final = "ai_representative"
PARTY_HELP: Final = (
    "a contact or the id of a node (64 digits or did:key), or NAME@ID for a person for whom that node signs. Add =ROLE for another role "
    "than participant: observer, ai_party, or ai_representative:PRINCIPAL:FIDELITY with the id of the party that it "
    "represents and a weight from 0 to 1"
)


def read_parties(lists: list[str], settings: Settings) -> list[dict[str, Any]]:
    """Read parties that are separated by commas, in one or several values."""
    return [read_party(one.strip(), settings) for text in lists for one in text.split(",") if one.strip()]


def read_party(text: str, settings: Settings) -> dict[str, Any]:
    """Read a stakeholder: ID or NAME@ID, optionally =ROLE, where ID may be the name of a contact in the data folder; a representative is =ai_representative:PRINCIPAL:FIDELITY."""
    who, _, given = text.partition("=")
    role, *more = (given or "participant").split(":")
    one_of("the role of a party", role, _ROLES)
    party: dict[str, Any] = {**_named(who, settings), "role": role}
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
    principal = _id(more[0], settings)
    return {**party, "principal_id": more[0] if principal is None else principal.hex(), "fidelity": fidelity}


def _id(text: str, settings: Settings) -> VacantId | None:
    return id_of(id_or_text(settings, text))


def _named(who: str, settings: Settings) -> dict[str, Any]:
    party = _id(who, settings)
    if party is not None:
        return {"id": party.hex()}
    name, at, node = who.rpartition("@")
    signs = _id(node, settings) if at else None
    if not name or signs is None:
        raise ConfigError(
            f"{who[:80]!r} is not a party: give a contact or the id of a node (64 digits or did:key, as `comity id show` prints it), or "
            "NAME@ID for a person for whom that node signs"
        )
    return {"id": name, "node": signs.hex()}
