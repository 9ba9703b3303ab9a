"""An authorization server that signs access tokens, with the key set it publishes."""

import base64
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER = "https://login.example"
RESOURCE = "https://node.example/mcp"
NOW = 1_800_000_000.0


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def whole(number):
    return b64(number.to_bytes((number.bit_length() + 7) // 8))


class Signer:
    """An authorization server with one key of a kind."""

    def __init__(self, kind, kid="k1"):
        self.kid = kid
        if kind == "RS256":
            self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            numbers = self._key.public_key().public_numbers()
            jwk = {"kty": "RSA", "n": whole(numbers.n), "e": whole(numbers.e)}
        elif kind == "ES256":
            self._key = ec.generate_private_key(ec.SECP256R1())
            numbers = self._key.public_key().public_numbers()
            jwk = {
                "kty": "EC",
                "crv": "P-256",
                "x": b64(numbers.x.to_bytes(32)),
                "y": b64(numbers.y.to_bytes(32)),
            }
        else:
            self._key = ed25519.Ed25519PrivateKey.generate()
            jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(self._key.public_key().public_bytes_raw())}
        self.kind = kind
        self.jwks = {"keys": [{**jwk, "kid": kid, "use": "sig"}]}

    def token(self, *, head=None, **claims):
        signed = self.unsigned(head=head, **claims)
        return f"{signed}.{b64(self._sign(signed.encode()))}"

    def unsigned(self, *, head=None, **claims):
        said = {"iss": ISSUER, "aud": RESOURCE, "sub": "ada", "exp": NOW + 60, "scope": "mcp", **claims}
        return self._joined(head, json.dumps(said))

    def sign_claims(self, text):
        """A token whose claims are this text, JSON or not."""
        signed = self._joined(None, text)
        return f"{signed}.{b64(self._sign(signed.encode()))}"

    def public_pem(self):
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def _joined(self, head, claims):
        first = {"alg": self.kind, "kid": self.kid, "typ": "at+jwt", **(head or {})}
        return f"{b64(json.dumps(first).encode())}.{b64(claims.encode())}"

    def _sign(self, data):
        if self.kind == "RS256":
            return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if self.kind == "ES256":
            r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32) + s.to_bytes(32)
        return self._key.sign(data)
