"""The refusal of a server, as an error of the client. Its text comes from a stranger and is cleaned before it is shown."""

from typing import Final

from msgspec import UNSET

from comity.core.errors import ComityError
from comity.core.negotiation.messages import VcpError

_REMEDIES: Final = {
    "IDENTITY_REQUIRED": "connect with an identity, or without the extensions that need one",
    "IDENTITY_INVALID": "get a fresh token and connect with it",
    "EXTENSION_CONFLICT": "leave one of the two out",
    "INTERNAL_ERROR": "try again later",
}


class VcpRefusedError(ComityError):
    """There is no session, or no longer. `error` is what the server sent."""

    code = "vcp_refused"

    def __init__(self, error: VcpError) -> None:
        super().__init__(f"{clean(error.code)}: {clean(error.message).rstrip('.')}; {remedy(error)}")
        self.error = error


def remedy(error: VcpError) -> str:
    if error.code == "VERSION_UNSUPPORTED" and error.supported_versions is not UNSET:
        offered = ", ".join(map(clean, error.supported_versions[:16]))
        return f"the server speaks {offered or 'none'}: ask for one of these, or another server"
    if error.retry_after is not None:
        return f"try again in {error.retry_after} s"
    return _REMEDIES.get(error.code, "change the hello or ask another server")


def clean(foreign: str) -> str:
    """One line without anything that a terminal would obey."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in foreign).split())
