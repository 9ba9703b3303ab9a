"""What is handed out between two rounds: it opens for the same request of the same owner, for ten minutes."""

import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.mcp.protocol.results import McpError
from comity.mcp.protocol.session import LIFETIME, Sealer, binding

SEALER = Sealer(b"k" * 32, os.urandom)
PARAMS = {"name": "ask", "arguments": {"a": 1, "b": {"c": 2}}}
BOUND = binding("ann", "tools/call", PARAMS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(JSON)
def test_a_state_comes_back_as_it_was(state):
    assert SEALER.open(SEALER.seal(state, BOUND, 100.0), BOUND, 100.0 + LIFETIME) == state


def test_a_state_cannot_be_read():
    sealed = SEALER.seal({"secret": "hunter2"}, BOUND, 0.0)
    assert "hunter2" not in sealed
    assert sealed != SEALER.seal({"secret": "hunter2"}, BOUND, 0.0)


def test_a_state_expires():
    sealed = SEALER.seal(1, BOUND, 100.0)
    with pytest.raises(McpError, match="expired"):
        SEALER.open(sealed, BOUND, 100.0 + LIFETIME + 0.001)


def test_any_change_to_a_state_is_noticed():
    sealed = SEALER.seal({"a": 1}, BOUND, 0.0)
    for place in range(len(sealed)):
        changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
        with pytest.raises(McpError):
            SEALER.open(changed, BOUND, 0.0)
    for added in (" ", "\n", "!", "é", "="):
        with pytest.raises(McpError):
            SEALER.open(added + sealed, BOUND, 0.0)


@pytest.mark.parametrize("state", ["", "a", "ab"])  # so that the text ends in each way that base64 has
def test_another_spelling_of_the_same_bytes_is_noticed(state):
    sealed = SEALER.seal(state, BOUND, 0.0)
    end = len(sealed.rstrip("=")) - 1
    for last in string.ascii_letters + string.digits + "-_":
        if last != sealed[end]:
            with pytest.raises(McpError):
                SEALER.open(sealed[:end] + last + sealed[end + 1 :], BOUND, 0.0)


@pytest.mark.parametrize("sealed", ["", "x", "é", "====", "AAAA", "A" * 64, "a b", 7, None, [], {"a": 1}])
def test_what_is_no_state_is_refused_with_what_to_do(sealed):
    with pytest.raises(McpError, match="begin again") as caught:
        SEALER.open(sealed, BOUND, 0.0)
    assert caught.value.rpc.code == -32602


def test_another_key_opens_nothing():
    with pytest.raises(McpError):
        Sealer(b"j" * 32, os.urandom).open(SEALER.seal(1, BOUND, 0.0), BOUND, 0.0)


def test_a_state_is_bound_to_owner_method_and_arguments():
    others = [
        binding("bob", "tools/call", PARAMS),
        binding("ann", "prompts/get", PARAMS),
        binding("ann", "tools/call", {**PARAMS, "name": "other"}),
        binding("ann", "tools/call", {**PARAMS, "arguments": {"a": 1, "b": {"c": 3}}}),
        binding("ann", "tools/call", {**PARAMS, "arguments": {"a": 2**53, "b": 0}}),
        binding("ann", "tools/call", {**PARAMS, "arguments": {"a": 2**53 + 1, "b": 0}}),
    ]
    assert len({BOUND, *others}) == 7
    for other in others:
        with pytest.raises(McpError):
            SEALER.open(SEALER.seal(1, BOUND, 0.0), other, 0.0)


def test_what_changes_between_rounds_and_the_order_of_members_do_not_matter():
    again = {
        "_meta": {"x": 1},
        "inputResponses": {},
        "requestState": "s",
        "arguments": {"b": {"c": 2}, "a": 1},
        "name": "ask",
    }
    assert binding("ann", "tools/call", again) == BOUND
