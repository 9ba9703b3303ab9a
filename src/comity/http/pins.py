"""Trust in one key: TLS with whoever shows the public key that has a given hash, signed by anybody, for any name."""

import hashlib
import hmac
import ssl
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from comity.identity.protocol.pins import pin_of_certificate
from comity.wire.errors import ConfigError, MalformedError


class PinMismatch(ssl.SSLCertVerificationError):
    """The other side showed another key. `verify_message` says both fingerprints."""

    def __init__(self, wanted: str, shown: str) -> None:
        super().__init__("another key")
        self.verify_message = f"the key of its certificate is {shown}, and {wanted} is the one that is known"


@lru_cache(256)
def pinned_context(pin: str) -> ssl.SSLContext:
    """Return TLS with the one certificate whose public key has this hash, or which has it itself."""

    class Pinned(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            certificate = self.getpeercert(binary_form=True) or b""
            try:
                shown = pin_of_certificate(certificate)
            except MalformedError:
                shown = "none"
            whole = hashlib.sha256(certificate).hexdigest()
            if not hmac.compare_digest(shown, pin) and not hmac.compare_digest(whole, pin):
                raise PinMismatch(pin, shown)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslobject_class = Pinned
    return context


def pin_of_file(cert: Path) -> str:
    """Return the pin of the first certificate in a PEM file. Raise ConfigError if there is none."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    text = cert.read_text("ascii", "replace")
    first = begin + text.partition(begin)[2].partition(end)[0] + end
    try:
        return pin_of_certificate(ssl.PEM_cert_to_DER_cert(first))
    except (ValueError, MalformedError):
        raise ConfigError(f"{cert} holds no certificate; check tls.cert") from None


def pin_mismatch_in(reason: BaseException) -> PinMismatch | None:
    """Return the mismatch that caused this failure, if one did."""
    return next((cause for cause in _causes(reason) if isinstance(cause, PinMismatch)), None)


def _causes(reason: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = reason
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
