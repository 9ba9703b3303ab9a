"""The keys of an authorization server, fetched and kept, so that a token can be judged without waiting.

They are fetched at the start, then every hour, and when a token names an unknown key, but at most twice a minute. If they
cannot be fetched, the last ones stay valid.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from comity.http.client import HttpCarrier
from comity.identity.protocol.access_token import AccessToken, SigningKeys, UnknownKeyError, read_access_token
from comity.wire import strict_json
from comity.wire.clock import Clock
from comity.wire.errors import ComityError, ConfigError, MalformedError

log = logging.getLogger("comity.oauth")

HOUR: Final = 3600.0
PAUSE: Final = 30.0


class AuthorizationServer:
    def __init__(self, http: HttpCarrier, clock: Clock, *, issuer: str, keys: str, resource: str) -> None:
        """`keys` is the address of the key set, or the path of a file that holds it."""
        self.issuer = issuer
        self.resource = resource
        self._http = http
        self._clock = clock
        self._place = keys
        self._keys = SigningKeys({"keys": []})
        self._asked_at = -HOUR
        self._asking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """A file that cannot be used is refused now; an address may come to life later."""
        if self._place.startswith(("https://", "http://")):
            await self._fetch()
        else:
            self._keys = _from_file(self._place)

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    def judge(self, token: str) -> AccessToken:
        """Raises UnauthenticatedError."""
        self._refresh(HOUR)
        try:
            return read_access_token(
                token, self._keys, issuer=self.issuer, audience=self.resource, now=self._clock.now()
            )
        except UnknownKeyError:
            self._refresh(PAUSE)
            raise

    def _refresh(self, age: float) -> None:
        if not self._place.startswith(("https://", "http://")):
            return
        if self._asking is None and self._clock.monotonic() - self._asked_at > age:
            self._asking = asyncio.create_task(self._fetch())
            self._asking.add_done_callback(self._asked)

    def _asked(self, _task: "asyncio.Task[None]") -> None:
        self._asking = None

    async def _fetch(self) -> None:
        self._asked_at = self._clock.monotonic()
        try:
            answer = await self._http.request("GET", self._place)
            if answer.status != 200:
                raise MalformedError(f"it answered {answer.status}")
            self._keys = SigningKeys(strict_json.loads(answer.body))
        except ComityError as fault:
            log.warning("the keys of %s could not be had: %s", self.issuer, fault.message)


def _from_file(path: str) -> SigningKeys:
    try:
        keys = SigningKeys(strict_json.loads(Path(path).read_bytes()))
    except (OSError, MalformedError) as fault:
        raise ConfigError(f"mcp.oauth_keys: {path} holds no key set ({fault})") from None
    if not len(keys):
        raise ConfigError(
            f"mcp.oauth_keys: {path} holds no key that can be used (RSA, P-256, P-384 or Ed25519)"
        )
    return keys
