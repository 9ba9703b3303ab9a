"""The party of a data folder, in its node or in a command."""

from collections.abc import Callable

from comity.envelopes.features import NO_FEATURES, Features
from comity.http.client import HttpCarrier
from comity.identity.protocol.keys import SigningKey
from comity.identity.succession_files import read_own_line
from comity.requests.record import Recorder
from comity.runtime.settings import Settings
from comity.store.interface import Store
from comity.store.vault import Vault
from comity.votes.client import VoteHostClient
from comity.votes.logs import Ledger
from comity.votes.party import VoteParty
from comity.wire.machine import Clock


def open_party(
    settings: Settings,
    *,
    store: Store,
    vault: Callable[[], Vault],
    record: Recorder,
    clock: Clock,
    key: SigningKey,
    http: HttpCarrier,
    public_http: HttpCarrier,
    holder: str,
    features: Features = NO_FEATURES,
) -> VoteParty:
    """Return the party of this folder. See `VoteHostClient` and `VoteParty`."""
    ledger = Ledger(store, vault, log_bytes=settings.deliberations.log_bytes)
    timeout = settings.dispatch.timeout_seconds
    client = VoteHostClient(
        store,
        key,
        clock,
        http,
        public_http=public_http,
        holder=holder,
        timeout=timeout,
        record=record,
        features=features,
    )
    return VoteParty(
        store=store,
        ledger=ledger,
        record=record,
        clock=clock,
        key=key,
        client=client,
        holder=holder,
        former=read_own_line(settings.data, key.vacant_id).former,
    )
