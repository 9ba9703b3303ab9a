"""How a reader of the directory proves who it is: three query parameters, signed with its own key.

A card of visibility NONE is shown to its owner and to its parent. The contract's `caller` parameter
only *names* a reader, so alone it opens nothing. Together with these two it is a proof:

    ?caller=<64 hex>&caller_ts_ms=<milliseconds since 1970>&caller_signature_hex=<128 hex>

The signature covers, under a heading of its own (so that no card, event, envelope or statement can
be passed off as a proof, nor a proof as one of them), the canonical JSON of

    {"caller": <64 hex>, "host": <authority>, "method": "GET", "path": <path>, "ts_ms": <integer>}

- bound to the *path*: a proof for one card opens no other;
- bound to the *host*, as the Host header has it in lower case: a directory that is shown a proof
  cannot take it to another one and read there in the reader's name;
- limited in *time*: it holds for a minute to either side of the reader's clock. Within that minute
  it can be used again, for the same read only, by those who saw it: they saw the answer as well.

Nothing is stored for it, on either side. The parameters that page a reading are not covered.
"""

import re
from collections.abc import Mapping

from comity.identity.protocol.keys import SigningKey, VacantId, verify
from comity.wire.canonical import envelope_form
from comity.wire.errors import InvalidError, MalformedError, UnauthenticatedError

WINDOW_SECONDS = 60.0

_HEADING = b"comity directory read 1\n"
_SIGNATURE = re.compile("[0-9a-fA-F]{128}")
_MILLISECONDS = re.compile("[0-9]{1,16}")


def prove_reader(key: SigningKey, *, host: str, path: str, now: float) -> dict[str, str]:
    """The query parameters that prove the owner of `key`; `host` is what the Host header will say."""
    ts_ms = int(now * 1000)
    signature = key.sign(_signed_bytes(key.vacant_id, host.lower(), path, ts_ms))
    return {
        "caller": key.vacant_id.hex(),
        "caller_ts_ms": str(ts_ms),
        "caller_signature_hex": signature.hex(),
    }


def proven_reader(query: Mapping[str, str], *, host: str, path: str, now: float) -> VacantId | None:
    """Who reads: None for somebody who offers no proof, whatever it calls itself."""
    named = query.get("caller")
    caller = None if named is None else VacantId.from_hex(named)
    ts_text, signature = query.get("caller_ts_ms"), query.get("caller_signature_hex")
    if ts_text is None and signature is None:
        return None
    if caller is None or ts_text is None or signature is None:
        raise InvalidError("a proof is caller, caller_ts_ms and caller_signature_hex; send all three or none")
    if not _MILLISECONDS.fullmatch(ts_text):
        raise MalformedError("caller_ts_ms is a number of milliseconds since 1970")
    if not _SIGNATURE.fullmatch(signature):
        raise MalformedError("caller_signature_hex is written as 128 hexadecimal digits")
    skew = int(ts_text) / 1000 - now
    if abs(skew) > WINDOW_SECONDS:
        raise UnauthenticatedError(
            f"the proof is {abs(skew):.0f} seconds {'ahead of' if skew > 0 else 'behind'} this node's clock, "
            f"{WINDOW_SECONDS:.0f} are allowed; sign a new one, and look at the clock"
        )
    signed = _signed_bytes(caller, host.lower(), path, int(ts_text))
    if not verify(caller.public, signed, bytes.fromhex(signature)):
        raise UnauthenticatedError(
            f"the proof is not signed by {caller.short()} for this host, path and moment"
        )
    return caller


def _signed_bytes(caller: VacantId, host: str, path: str, ts_ms: int) -> bytes:
    read = {"caller": caller.hex(), "host": host, "method": "GET", "path": path, "ts_ms": ts_ms}
    return _HEADING + envelope_form(read)
