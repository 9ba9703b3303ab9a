"""Events on the wire, and the ids by which a client comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.wire import jsonrpc


def test_an_event_is_one_line_of_data_with_its_id():
    assert jsonrpc.event(b'{"a":1}', "3.7") == b'id: 3.7\nevent: message\ndata: {"a":1}\n\n'
    assert jsonrpc.event(b"{}") == b"event: message\ndata: {}\n\n"


def test_the_first_event_has_an_id_and_no_message():
    assert jsonrpc.priming("0.0", 500) == b"id: 0.0\nretry: 500\ndata: \n\n"
    assert jsonrpc.priming("0.0") == b"id: 0.0\ndata: \n\n"


def test_a_sign_of_life_is_a_comment():
    assert jsonrpc.KEEPALIVE.startswith(b":")
    assert jsonrpc.KEEPALIVE.endswith(b"\n\n")


@given(st.integers(0, 10**9), st.integers(0, 10**15))
def test_an_id_names_the_stream_and_the_place(stream, number):
    assert jsonrpc.place_of(jsonrpc.event_id(str(stream), number)) == (str(stream), number)


@pytest.mark.parametrize(
    "id_", ["", ".", "7", "1.", ".1", "1.x", "1.-1", "1.²", "a.1", "1.2.3", "1.1\n", " 1.1"]
)
def test_what_is_no_id_of_ours_is_noticed(id_):
    assert jsonrpc.place_of(id_) is None


def test_an_endless_number_is_no_id():
    assert jsonrpc.place_of("0." + "9" * 5000) is None


@given(st.text())
def test_any_text_can_be_looked_at(id_):
    jsonrpc.place_of(id_)
