"""The MCP endpoint as an OAuth resource server (RFC 9728): who is sent where for a token, and whose are taken.

- A token must be meant for this resource, or it is refused; it is never passed on, and never read from a query.
- Without the scope the answer is 403, with the scope to ask for.
- Whoever comes with a token of the authorization server is a caller of their own, and sees no session of others.
"""

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from comity.identity.protocol.access_token import AccessToken
from comity.identity.protocol.rights import SCOPES
from comity.requests.caller import Caller
from comity.wire import strict_json
from comity.wire.errors import ForbiddenError

SCOPE: Final = "mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


def metadata_paths(path: str) -> frozenset[str]:
    """Where a client looks for the metadata of the resource at `path`."""
    return frozenset({METADATA_PATH, METADATA_PATH + path})


class MissingScopeError(ForbiddenError):
    code = "insufficient_scope"


class ResourceServer:
    def __init__(self, *, resource: str, path: str, issuer: str, judge: Callable[[str], AccessToken]) -> None:
        """`judge` raises UnauthenticatedError."""
        self._resource = resource
        self._path = path
        self._issuer = issuer
        self._judge = judge

    def identify(self, path: str, token: str, address: str) -> Caller | None:
        """Who came; None for another path than ours. Raises for a token that is not good here."""
        if path != self._path:
            return None
        access = self._judge(token)
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
        """What WWW-Authenticate says to who was refused at our path."""
        if path != self._path:
            return None
        metadata = self._resource.removesuffix(path) + METADATA_PATH + path
        told = [f'realm="comity", resource_metadata="{metadata}", scope="{SCOPE}"']
        if error is not None:
            told.append(f'error="{error}"')
        return f"Bearer {', '.join(told)}".encode()

    def routes(self) -> list[Route]:
        async def metadata(_request: Request) -> Response:
            told = {
                "resource": self._resource,
                "authorization_servers": [self._issuer],
                "scopes_supported": list(SCOPES),
                "bearer_methods_supported": ["header"],
                "resource_name": "Comity",
            }
            return Response(strict_json.dumps(told), media_type="application/json")

        return [Route(path, metadata) for path in sorted(metadata_paths(self._path))]
