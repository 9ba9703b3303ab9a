"""The state that a client keeps for the server between two rounds of one request, so that the server stores nothing.

It is encrypted with AES-256-GCM and a key of this node, bound to the caller and the request, and valid for ten minutes. A
state that was changed, used for another request or expired is refused.
"""

import base64
import binascii
import functools
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from comity.mcp.protocol.refusals import invalid_params
from comity.wire import strict_json
from comity.wire.canonical import envelope_form
from comity.wire.errors import MalformedError

LIFETIME: Final = 600.0
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Sealer:
    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes]) -> None:
        self._key = key
        self._random = random_bytes

    @functools.cached_property
    def _aead(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # most clients never need it

        return AESGCM(self._key)

    def seal(self, state: Any, binding: bytes, now: float) -> str:
        nonce = self._random(_NONCE_BYTES)
        body = strict_json.dumps({"until": now + LIFETIME, "state": state})
        return base64.urlsafe_b64encode(nonce + self._aead.encrypt(nonce, body, binding)).decode()

    def open(self, sealed: object, binding: bytes, now: float) -> Any:
        """Raises McpError unless it is one of ours, for this request, and still good."""
        from cryptography.exceptions import InvalidTag

        try:
            data = base64.b64decode(sealed, altchars=b"-_", validate=True) if isinstance(sealed, str) else b""
            if (
                base64.urlsafe_b64encode(data).decode() != sealed
            ):  # another spelling of the same bytes is altered too
                data = b""
            body = self._aead.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], binding)
            value = strict_json.loads(body)
        except (InvalidTag, ValueError, binascii.Error, MalformedError):
            raise invalid_params("requestState is not one of ours for this request; begin again") from None
        if now > value["until"]:
            raise invalid_params("requestState has expired; begin again without it")
        return value["state"]


def binding(owner: str, method: str, params: dict[str, Any]) -> bytes:
    """What a state is good for: this owner, this request, apart from what changes between rounds. Members may
    come in another order: the client may have built the request anew.
    """
    same = {k: v for k, v in params.items() if k not in ("_meta", "inputResponses", "requestState")}
    return sha256(envelope_form([owner, method, same])).digest()
