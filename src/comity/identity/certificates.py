"""A certificate that a program makes for itself, and what others know it by: the hash of its public key.

Who holds that hash, the pin, needs no authority. The certificate is good for ten years; the pin stays when a new one is made
for the same key. Import this late: it loads `cryptography`.
"""

import datetime as dt
import hashlib
import os
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

from comity.identity.private_files import read_or_create_private, read_private, replace_private
from comity.wire.errors import KeyRefusedError

KEY_FILE: Final = "tls-key.pem"
CERTIFICATE_FILE: Final = "tls-cert.pem"
_YEARS: Final = 10
_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "comity")])


class OwnCertificate(Struct, frozen=True):
    """`until` is when it expires."""

    cert: Path
    key: Path
    pin: str
    until: dt.datetime


def load_or_make_certificate(folder: Path, now: dt.datetime) -> OwnCertificate:
    """Return the certificate in that folder. A missing key or certificate is made, also one that has expired."""
    key_file, cert_file = folder / KEY_FILE, folder / CERTIFICATE_FILE
    key = _key(key_file, read_or_create_private(key_file, _new_key))
    if not os.path.lexists(cert_file):
        replace_private(cert_file, _new_certificate(key, now))
    cert = _certificate(cert_file)
    if cert.not_valid_after_utc <= now or cert.public_key() != key.public_key():
        replace_private(cert_file, _new_certificate(key, now))
    return read_certificate(folder)


def renew_certificate(folder: Path, now: dt.datetime) -> OwnCertificate:
    """Make a new certificate for the key in that folder. A missing key is made."""
    key_file = folder / KEY_FILE
    key = _key(key_file, read_or_create_private(key_file, _new_key))
    replace_private(folder / CERTIFICATE_FILE, _new_certificate(key, now))
    return read_certificate(folder)


def read_certificate(folder: Path) -> OwnCertificate:
    """Return the certificate in that folder, which is there. Raise KeyRefusedError if it cannot be used."""
    key_file, cert_file = folder / KEY_FILE, folder / CERTIFICATE_FILE
    key = _key(key_file, read_private(key_file))
    return OwnCertificate(
        cert_file, key_file, _pin(key.public_key()), _certificate(cert_file).not_valid_after_utc
    )


def _pin(key: object) -> str:
    spki = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(spki).hexdigest()


def _new_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _key(path: Path, pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KeyRefusedError(
            f"{path} holds no key of ours; move it away and a new one is made, with a new pin"
        )
    return key


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(read_private(path))
    except ValueError:
        raise KeyRefusedError(f"{path} is no certificate; remove it and a new one is made") from None


def _new_certificate(key: ec.EllipticCurvePrivateKey, now: dt.datetime) -> bytes:
    return (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=_YEARS * 365))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
