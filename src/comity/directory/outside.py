"""How a command reaches others: through the guarded client, and a directory.

Loopback may be called while the node of this folder listens there only (ruling 12); whatever else is not
public needs a word in dispatch.allowed_hosts.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final

from comity.directory import finding
from comity.directory.client import DirectoryClient
from comity.envelopes.protocol.card import CapabilityCard
from comity.http.addresses import read_url
from comity.http.client import GuardedHttp, HttpResponse
from comity.identity.protocol.keys import SigningKey
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.system import is_loopback
from comity.terminal.running_node import own_node
from comity.wire.errors import ConfigError, TargetRefusedError

STDIN: Final = "-"


async def find_card(target: str, ways: "Outside") -> CapabilityCard:
    """The card of whomever `target` names, as it was found; - reads it from standard input."""
    if target == STDIN:
        return finding.read_card(sys.stdin.buffer.read(finding.CARD_LIMIT + 1), target)
    return await finding.find_card(target, ways)


class OutgoingHttp(GuardedHttp):
    """The guarded client, whose refusal of an address also tells the owner how to allow it."""

    async def request(
        self,
        method: str,
        url: str,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
    ) -> HttpResponse:
        host = read_url(url).host
        try:
            return await super().request(method, url, json, headers, body=body)
        except TargetRefusedError as refusal:
            written = f"[{host}]" if ":" in host else host
            raise TargetRefusedError(
                f"{refusal.message}; to allow it, add {written} to dispatch.allowed_hosts, "
                f"or set COMITY_DISPATCH_ALLOWED_HOSTS={written}"
            ) from None


class Outside:
    """The event loop of a command closes its connections when the loop ends. So keep it until then: if it is dropped as the
    last coroutine returns, the loop does not wait until the connections are closed.
    """

    def __init__(self, settings: Settings, key: SigningKey | None = None) -> None:
        """`key` signs requests to a directory, so that it also shows cards that are not public."""
        own = self.own = own_node(settings)
        self._key = key
        self._named = settings.directory.url.rstrip("/")
        self.http = OutgoingHttp(
            allow=settings.dispatch.hosts,
            allow_loopback=is_loopback(read_url(own.url).host if own else settings.host),
            timeout=settings.dispatch.timeout_seconds,
        )

    @property
    def directory_url(self) -> str:
        if self._named:
            return self._named
        if self.own is None:
            raise ConfigError(
                "no directory is known: give one with --directory URL, set directory.url, "
                "or start a node, which has a directory of its own: `comity up`"
            )
        return self.own.url

    def directory(self) -> DirectoryClient:
        """Asked in the name of the key, if there is one."""
        url = self.directory_url
        if self.own is not None and url == self.own.url:
            return DirectoryClient(self.own.http, self.own.base, clock=SystemClock(), key=self._key)
        return DirectoryClient(self.http, url, clock=SystemClock(), key=self._key)
