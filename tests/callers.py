"""Callers as tests need them."""

from comity.requests.caller import Caller, anonymous, own_user

OWNER = own_user("admin", "127.0.0.1", "token")
STRANGER = anonymous("192.0.2.7")


def visitor(name, address="192.0.2.1"):
    return Caller(kind="oauth", id=name, address=address, proof="access token", scopes=("mcp",))


def named(owner):
    """The caller that owns what belongs to this owner."""
    return OWNER if owner == "local" else visitor(owner.removeprefix("oauth:"))


def signer(name, address="192.0.2.7"):
    return Caller(kind="vacant", id=name, address=address, proof="signature")
