"""Demands on peers that join: two sets of them add up, and none takes anything back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.rooms.protocol.tool_table import Demands
from comity.wire.errors import ConfigError, ForbiddenError

NAMES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True).map(tuple)
DEMANDS = st.builds(
    Demands,
    join_token_secret=st.none() | st.sampled_from(["s", "t", ""]),
    enforce_join_token=st.booleans(),
    require_session_mac=st.booleans(),
    allow_peer_stream_ids=NAMES,
)


def test_enforcing_needs_a_secret():
    for secret in (None, ""):
        with pytest.raises(ConfigError, match="--join-token-secret"):
            Demands(enforce_join_token=True, join_token_secret=secret).check()
    Demands(enforce_join_token=True, join_token_secret="s").check()
    Demands().check()


@given(DEMANDS, DEMANDS)
def test_what_either_demands_is_demanded(node, more):
    try:
        both = node.tightened(more)
    except ForbiddenError:
        allowed = set(node.allow_peer_stream_ids) & set(more.allow_peer_stream_ids)
        apart = node.allow_peer_stream_ids and more.allow_peer_stream_ids and not allowed
        assert apart or node.join_token_secret != more.join_token_secret
        return
    assert both.enforce_join_token == (node.enforce_join_token or more.enforce_join_token)
    assert both.require_session_mac == (node.require_session_mac or more.require_session_mac)
    for one in (node, more):
        if one.allow_peer_stream_ids:
            assert set(both.allow_peer_stream_ids) <= set(one.allow_peer_stream_ids)
            assert both.allow_peer_stream_ids
    if node.join_token_secret:
        assert both.join_token_secret == node.join_token_secret


@given(DEMANDS)
def test_no_demands_change_nothing_and_an_empty_secret_is_none(node):
    plain = replace(node, join_token_secret=node.join_token_secret or None)
    assert node.tightened(Demands()) == node.tightened(Demands(join_token_secret="")) == plain
    assert Demands().tightened(node) == plain


def test_allowed_peers_are_those_of_both_and_never_none():
    node = Demands(allow_peer_stream_ids=("a", "b"))
    assert node.tightened(Demands(allow_peer_stream_ids=("b", "c"))).allow_peer_stream_ids == ("b",)
    assert Demands().tightened(node).allow_peer_stream_ids == ("a", "b")
    with pytest.raises(ForbiddenError, match="no peer is allowed"):
        node.tightened(Demands(allow_peer_stream_ids=("c",)))


def test_a_connection_cannot_bring_another_secret():
    node = Demands(join_token_secret="s")
    assert node.tightened(Demands(join_token_secret="s")) == node
    assert Demands().tightened(node).join_token_secret == "s"
    with pytest.raises(ForbiddenError, match="another secret"):
        node.tightened(Demands(join_token_secret="t"))
