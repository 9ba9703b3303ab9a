"""The MCP endpoint as an OAuth resource server (RFC 9728): where clients get a token, and which tokens are accepted.

- A token must be meant for this resource, or it is refused; it is never passed on, and never read from a query.
- Without the scope the answer is 403, with the scope to ask for.
- A caller with a token of the authorization server sees no session of others.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from comity.http.client import HttpCarrier
from comity.identity.protocol.access_token import AccessToken, SigningKeys, UnknownKeyError, read_access_token
from comity.identity.protocol.rights import SCOPES
from comity.requests.caller import Caller
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConfigError, ForbiddenError, MalformedError
from comity.wire.machine import Clock

# The keys of an authorization server, fetched and kept, so that a token is verified without waiting.


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
        """Read the keys. Raise ConfigError for an unusable file; an address may work later."""
        if self._place.startswith(("https://", "http://")):
            await self._fetch()
        else:
            self._keys = _from_file(self._place)

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    def verify(self, token: str) -> AccessToken:
        """Return the access token. Raise UnauthenticatedError."""
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


SCOPE: Final = "mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


def metadata_paths(path: str) -> frozenset[str]:
    """Return where a client looks for the metadata of the resource at `path`."""
    return frozenset({METADATA_PATH, METADATA_PATH + path})


class MissingScopeError(ForbiddenError):
    code = "insufficient_scope"


class ResourceServer:
    def __init__(
        self, *, resource: str, path: str, issuer: str, verify: Callable[[str], AccessToken]
    ) -> None:
        """`verify` raises UnauthenticatedError."""
        self._resource = resource
        self._path = path
        self._issuer = issuer
        self._verify = verify

    def identify(self, path: str, token: str, address: str) -> Caller | None:
        """Return the caller; None for another path. Raise for a token that is not valid here."""
        if path != self._path:
            return None
        access = self._verify(token)
        if SCOPE not in access.scopes:
            raise MissingScopeError(f"the access token lacks the scope {SCOPE}; ask for one that has it")
        return Caller(
            kind="oauth",
            id=f"{access.issuer}:{access.subject}",
            address=address,
            proof="access token",
            scopes=tuple(access.scopes),
        )

    def challenge(self, path: str, error: str | None) -> bytes | None:
        """Return the value of WWW-Authenticate for a refusal at our path."""
        if path != self._path:
            return None
        metadata = self._resource.removesuffix(path) + METADATA_PATH + path
        parts = [f'realm="comity", resource_metadata="{metadata}", scope="{SCOPE}"']
        if error is not None:
            parts.append(f'error="{error}"')
        return f"Bearer {', '.join(parts)}".encode()

    def routes(self) -> list[Route]:
        async def metadata(_request: Request) -> Response:
            document = {
                "resource": self._resource,
                "authorization_servers": [self._issuer],
                "scopes_supported": list(SCOPES),
                "bearer_methods_supported": ["header"],
                "resource_name": "Comity",
            }
            return Response(strict_json.dumps(document), media_type="application/json")

        return [Route(path, metadata) for path in sorted(metadata_paths(self._path))]
