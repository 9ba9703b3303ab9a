"""Whose tokens a node believes, from its settings and its data folder: issuers with keys, with shared secrets, itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from comity.identity.private_files import read_private
from comity.identity.protocol.keys import VacantId
from comity.identity.protocol.revocation import CrlSource
from comity.identity.protocol.signature import PublicKey, SharedSecret, TrustKey
from comity.identity.protocol.tokens import Issuer, IssuerRegistry, SharedKey, SignatureKey
from comity.runtime.settings import Settings
from comity.vcp.issuers import OwnRevocations
from comity.wire.errors import ComityError, KeyRefusedError

SECRETS_FOLDER: Final = "issuers"


class NodeIssuers(IssuerRegistry):
    """Those that the settings name, and this node under each name that it has issued tokens under by now."""

    def __init__(self, issuers: Iterable[Issuer], own: VacantId, lists: OwnRevocations) -> None:
        super().__init__(issuers)
        self._own = own
        self._lists = lists

    def get(self, name: str) -> Issuer | None:
        found = super().get(name)
        if (found is not None and found.signature_keys) or name not in self._lists.issuers():
            return found
        keys = (SignatureKey(self._own.public),)
        return (
            Issuer(name=name, signature_keys=keys) if found is None else replace(found, signature_keys=keys)
        )


def issuers_of(settings: Settings, own: VacantId | None) -> IssuerRegistry:
    vcp = settings.vcp
    keys = {name: bytes.fromhex(key) for name, key in _pairs(vcp.issuers).items()}
    secrets = {name: read_secrets(secret_file(settings.data, name)) for name in vcp.secret_issuers}
    addresses = _pairs(vcp.crls)
    issuers = []
    for name in (*keys, *(name for name in secrets if name not in keys)):
        shared = secrets.get(name, ())
        source = None
        if name in addresses:
            trusted: TrustKey = PublicKey(keys[name]) if name in keys else SharedSecret(shared[0].secret)
            source = CrlSource(
                issuer_id=name,
                uri=addresses[name],
                key=trusted,
                accept_unsigned=name in vcp.unsigned_crls,
            )
        issuers.append(
            Issuer(
                name=name,
                signature_keys=(SignatureKey(keys[name]),) if name in keys else (),
                shared_keys=shared,
                crl=source,
            )
        )
    if own is None:
        return IssuerRegistry(issuers)
    return NodeIssuers(issuers, own, OwnRevocations(settings.data, own))


def own_names(settings: Settings, own: VacantId) -> tuple[str, ...]:
    """The names under which the settings give this node's own key."""
    return tuple(name for name, key in _pairs(settings.vcp.issuers).items() if key == own.hex())


def foreign_key(settings: Settings, name: str, own: VacantId) -> bool:
    """Whether the settings give the name to somebody else."""
    return _pairs(settings.vcp.issuers).get(name, own.hex()) != own.hex()


def secret_file(data: Path, name: str) -> Path:
    return data / SECRETS_FOLDER / f"{name}.secret"


def read_secrets(path: Path) -> tuple[SharedKey, ...]:
    """One on each line. All verify; the first one also issues, so that a new one goes on top."""
    lines = [line.rstrip(b"\r") for line in read_private(path).split(b"\n")]
    try:
        secrets = tuple(SharedKey(line) for line in lines if line)
    except ComityError as fault:
        raise KeyRefusedError(f"{path} cannot be used: {fault.message}") from None
    if not secrets:
        raise KeyRefusedError(f"{path} is empty; put the shared secret of the issuer into its first line")
    return secrets


def _pairs(entries: tuple[str, ...]) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in entries)
