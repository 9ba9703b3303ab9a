"""The nine resources of VCP, and who may read them (vcp 7.2).

| address | who reads it |
|---|---|
| `vcp://capabilities` | everybody |
| `vcp://constitution/{csm1_code}` | everybody: it says what a code means |
| `vcp://identity/{token}` | a value token, everybody; an identity, by the beginning of its token's id, its owner |
| `vcp://bundle/{session_id}` | the owner of the session, and the session itself |
| the five of the extensions | as above, while the extension is active |

- A session of another owner is never listed, and reading it is refused.
- A credential has no place in an address: an identity token there is refused, whole or cut, and not repeated.
- Before a bundle is read, revocation is checked: of the session, of its subject, and of the constitution by its
  SHA-256. The bundle holds what a model may see, and no signal.
- Fading content may be cached until it changes, and by its reader alone (vcp 7.6).
"""

import re
from collections.abc import Callable, Collection
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from comity.identity.protocol.revocation import Status
from comity.identity.protocol.tokens import LOG_PREFIX_LENGTH, SIGNED_PREFIX, STAMPED_PREFIX, parse_identity
from comity.identity.protocol.uvc import UvcToken
from comity.mcp.protocol.results import Contents
from comity.store.vault import Vault
from comity.vcp.contexts import Contexts
from comity.vcp.extension_host import ExtensionHost, FadingContent, Owner
from comity.vcp.identity import IdentityChecker
from comity.vcp.protocol.agreement import V3_1, Identity, Session
from comity.vcp.protocol.built_in import addresses
from comity.vcp.protocol.context import SessionContext, constitution_id
from comity.vcp.protocol.csm1 import Csm1Error, parse_csm1
from comity.vcp.protocol.messages import PERSONAL
from comity.vcp.protocol.negotiation import ServerPolicy
from comity.vcp.protocol.resource_addresses import (
    ALIASES,
    BUNDLE,
    CAPABILITIES,
    CONSTITUTION,
    IDENTITY,
    MIME_TYPE,
    VcpAddress,
    shown,
)
from comity.vcp.protocol.signals import ModelSafeContext, model_safe
from comity.vcp.sessions import LiveSessions, RunningFeatures
from comity.vcp.tool_handlers import (
    InactiveExtensionError,
    RevocationUnknownError,
    RevokedError,
    describe,
    validate_token,
)
from comity.wire.errors import ComityError, ForbiddenError, InvalidError, NotFoundError

Entries = list[dict[str, Any]]

MAX_URI_LENGTH: Final = 2100
MAX_TTL: Final = 60_000
"""In milliseconds."""

_URI: Final = re.compile(r"vcp://([a-z-]+)(?:/(.*))?", re.DOTALL)
_PREFIX: Final = re.compile(rf"[0-9a-f]{{{LOG_PREFIX_LENGTH}}}")
_CREDENTIAL: Final = (SIGNED_PREFIX, STAMPED_PREFIX)
_encode = msgspec.json.Encoder().encode


class VcpResources:
    def __init__(
        self,
        *,
        policy: ServerPolicy,
        features: RunningFeatures,
        sessions: LiveSessions,
        contexts: Contexts,
        vault: Callable[[], Vault],
        checker: IdentityChecker,
        extensions: ExtensionHost | None = None,
    ) -> None:
        self.readers = {} if extensions is None else dict(extensions.readers(sessions))
        self._policy = policy
        self._features = features
        self._sessions = sessions
        self._contexts = contexts
        self._vault = vault
        self._checker = checker
        self._extensions = extensions

    async def list(self, owner: Owner, active: Collection[str]) -> Entries:
        """Return what this owner may read: `uri`, `name`, `title`, `description` and `mimeType` of each."""
        listed = [shown(CAPABILITIES)]
        listed += [shown(BUNDLE, id_) for id_ in self._sessions.ids_for(owner.session, owner.id)]
        if owner.token_prefix is not None:
            listed.append(shown(IDENTITY, owner.token_prefix))
        for host, reader in self.readers.items():
            address = addresses()[host]
            if address.extension in active:
                listed += [shown(address, id_) for id_ in await reader.ids(owner)]
        return listed

    async def read(self, uri: str, owner: Owner, active: Collection[str]) -> Contents:
        """Return one content with `uri`, `mimeType` and `text`. Raises NotFoundError, ForbiddenError (also as
        InactiveExtensionError, RevokedError, UnreadableContextError) and InvalidError.
        """
        host, id_ = _parse(uri)
        content: Any
        if host in addresses():
            content = await self._read_extension(addresses()[host], id_, owner, active)
        elif host == CAPABILITIES.host and not id_:
            content = self._capabilities()
        elif host == CONSTITUTION.host and id_:
            content = _constitution(id_)
        elif host == IDENTITY.host and id_:
            content = await self._identity(id_, owner)
        elif host == BUNDLE.host and id_:
            content = await self._bundle(id_, owner)
        else:
            raise _no_such()
        ttl = 0
        if isinstance(content, FadingContent):
            ttl = MAX_TTL if content.unchanged_for is None else int(content.unchanged_for * 1000)
            content = content.value
        shown = {"uri": uri, "mimeType": MIME_TYPE, "text": _encode(content).decode()}
        return Contents([shown], min(ttl, MAX_TTL))

    async def _read_extension(
        self, address: VcpAddress, id_: str, owner: Owner, active: Collection[str]
    ) -> Any:
        reader = self.readers.get(address.host)
        assert address.extension is not None
        if reader is None or address.extension not in active:
            raise InactiveExtensionError(address.extension)
        if not id_:
            raise _no_such()
        if address.of_session:
            await self._refuse_others(id_, owner)
        return await reader.read(id_, owner)

    async def _refuse_others(self, session_id: str, owner: Owner) -> None:
        """Look up the owner of a closed session in the store."""
        if self._session(session_id, owner) is not None:
            return
        stored = None if self._extensions is None else await self._extensions.owner_of(session_id)
        if stored is None:
            raise NotFoundError("there is no such session; begin a new one")
        if stored != owner.id:
            raise ForbiddenError("this session belongs to another owner; start your own session")

    def _capabilities(self) -> dict[str, Any]:
        registry = self._policy.registry
        return {
            "server_id": self._policy.server_id,
            "versions": [str(version) for version in sorted(set(self._policy.versions))],
            "extensions": registry.capabilities(registry.supported),
            "core_features": self._features.running(),
        }

    async def _identity(self, token: str, owner: Owner) -> dict[str, Any]:
        if token.lower().startswith(_CREDENTIAL):
            raise InvalidError(
                "an identity token is a credential and has no place in an address; ask by the first "
                f"{LOG_PREFIX_LENGTH} digits of its SHA-256, or have it checked by vcp_validate_token"
            )
        if not _PREFIX.fullmatch(token):
            return (await validate_token(token, self._checker)).structured
        if owner.identity is None or token != owner.token_prefix:
            raise NotFoundError("this is not the identity that you came with; only your own can be read")
        return {"token_prefix": token, **_who(owner.identity)}

    async def _bundle(self, session_id: str, owner: Owner) -> dict[str, Any]:
        session = self._session(session_id, owner)
        identity = owner.identity if session is None else session.identity
        await self._refuse_revoked(session_id, identity)
        if session is None:
            context = await self._contexts.resume(session_id, identity, self._vault())
        else:
            context = await self._contexts.known(session, self._vault())
        if context.constitution is not None:
            await self._refuse_revoked(constitution_id(context.constitution), identity)
        safe = await self._model_safe(session_id, session, identity, context)
        return {
            "session_id": session_id,
            **_promised(session),
            **_who(identity),
            **_known(context),
            "model_safe_context": safe,
        }

    async def _model_safe(
        self, session_id: str, session: Session | None, identity: Identity | None, context: SessionContext
    ) -> ModelSafeContext:
        if self._extensions is None:
            return model_safe(context.signals, context.categorical, session_active=session is not None)
        # the signals of a closed session count, whichever extensions were active in it
        asking = session or Session(
            id=session_id, version=str(V3_1), extensions=(PERSONAL,), identity=identity
        )
        return await self._extensions.model_safe_context(asking, context, active=session is not None)

    def _session(self, session_id: str, owner: Owner) -> Session | None:
        """Return the session if it is the owner's; None if it is not open any more."""
        if owner.session is not None and owner.session.id == session_id:
            return owner.session
        if session_id not in self._sessions:
            return None
        return self._sessions.of(session_id, owner.identity)

    async def _refuse_revoked(self, jti: str, identity: Identity | None) -> None:
        status = await self._checker.still_good((jti,), identity)
        if status.status is Status.REVOKED:
            raise RevokedError(status.detail or "no reason was given")
        if status.refuses:
            raise RevocationUnknownError


def _parse(uri: str) -> tuple[str, str]:
    found = _URI.fullmatch(uri) if len(uri) <= MAX_URI_LENGTH else None
    if found is None:
        raise _no_such()
    host, id_ = found.groups(default="")
    return ALIASES.get(host, host), unquote(id_)


def may_watch(uri: str, owner: Owner, active: Collection[str]) -> bool:
    """Return whether this owner may watch the address: its own session's, and no other's."""
    try:
        host, id_ = _parse(uri)
        if host == CONSTITUTION.host:
            parse_csm1(id_)
            return True
        if host == IDENTITY.host:
            return id_ == owner.token_prefix or isinstance(parse_identity(id_), UvcToken)
    except ComityError:
        return False
    if host == CAPABILITIES.host:
        return not id_
    address = BUNDLE if host == BUNDLE.host else addresses().get(host)
    if address is None or not id_ or (address.extension is not None and address.extension not in active):
        return False
    return not address.of_session or (owner.session is not None and owner.session.id == id_)


def _constitution(code: str) -> dict[str, Any]:
    try:
        return describe(parse_csm1(code))
    except Csm1Error as fault:
        raise InvalidError(f"the address holds no CSM-1 code ({fault.label}): {fault.message}") from None


def _promised(session: Session | None) -> dict[str, Any]:
    if session is None:
        return {"session_active": False}
    return {
        "session_active": True,
        "version": session.version,
        "extensions": list(session.extensions),
        "core_features": session.core_features,
    }


def _who(identity: Identity | None) -> dict[str, Any]:
    if identity is None:
        return {"identity": None}
    return {
        "identity": {"issuer": identity.issuer, "subject": identity.subject, "verified": identity.verified}
    }


def _known(context: SessionContext) -> dict[str, Any]:
    return {
        "constitution": None
        if context.constitution is None
        else {"id": constitution_id(context.constitution), "text": context.constitution},
        "generation_preferences": context.preferences,
    }


def _no_such() -> NotFoundError:
    return NotFoundError(
        "there is no such VCP resource; resources/list and resources/templates/list name them"
    )
