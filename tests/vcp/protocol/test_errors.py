import json

from comity.vcp.protocol.signals import ContextError, encode_error
from comity.wire.errors import OverloadedError, StoreError


def test_an_error_says_what_is_wrong_and_where():
    said = json.loads(encode_error(ContextError("INVALID", "too much", "personal.mood")))
    assert said == {"error": {"code": "INVALID", "message": "too much", "field": "personal.mood"}}


def test_an_error_about_no_member_says_null():
    said = json.loads(encode_error(ContextError("NO_SESSION", "say hello")))
    assert said == {"error": {"code": "NO_SESSION", "message": "say hello", "field": None}}


def test_other_errors_of_ours_keep_their_own_code():
    assert json.loads(encode_error(StoreError("full")))["error"]["code"] == "STORE"
    assert json.loads(encode_error(OverloadedError("busy")))["error"]["code"] == "OVERLOADED"
