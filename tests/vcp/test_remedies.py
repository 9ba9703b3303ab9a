import pytest

from comity.vcp.contexts import UnreadableContextError
from comity.vcp.protocol.signals import ContextError
from comity.vcp.tool_handlers import InactiveExtensionError, RevokedError, refused
from comity.wire.errors import NotFoundError, UnauthenticatedError


@pytest.mark.parametrize(
    ("error", "last_line"),
    [
        (UnauthenticatedError("not accepted"), "Re-authenticate with a valid VCP/I token"),
        (
            ContextError("CONSTITUTION_REFUSED", "failed (role_delimiter)", "constitution"),
            "Constitution content failed safety scan",
        ),
        (RevokedError("key_compromise"), "Bundle has been revoked: key_compromise"),
        (
            InactiveExtensionError("VCP-X-Torch"),
            "Extension VCP-X-Torch is not active. Re-initialize with the extension in your VCP-Hello",
        ),
        (UnreadableContextError("anything"), "Context decryption failed. Session may be corrupted"),
        (NotFoundError("no such session; begin one"), "no such session; begin one"),
    ],
)
def test_the_last_line_says_what_to_do(error, last_line):
    answer = refused(error)
    assert answer.is_error
    assert answer.text.splitlines()[-1] == last_line
    assert answer.structured["error"] == answer.text


def test_what_was_wrong_is_told_before():
    assert refused(UnauthenticatedError("the token has expired")).text.startswith("the token has expired\n")


def test_a_fault_in_a_context_names_its_field():
    told = refused(ContextError("INVALID", "too much", "personal.mood")).structured
    assert (told["code"], told["field"]) == ("invalid", "personal.mood")
