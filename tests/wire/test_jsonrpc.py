import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.wire import jsonrpc
from comity.wire.jsonrpc import (
    BATCH_LIMIT,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Batch,
    Invalid,
    Notification,
    Response,
    RpcError,
    RpcRequest,
    error_bytes,
    parse,
    result_bytes,
)
from comity.wire.strict_json import loads
from tests.wire.json_values import same, values

ids = st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def body(**members):
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def answer(body):
    """The id and code of the answer that an unusable message gets."""
    message = parse(body)
    assert isinstance(message, Invalid)
    sent = json.loads(error_bytes(message.id, message.error))
    assert sent["jsonrpc"] == "2.0"
    assert sent["error"]["data"]["message"]
    return sent["id"], sent["error"]["code"]


def test_the_codes_are_those_of_the_specification():
    codes = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR)
    assert codes == (-32700, -32600, -32601, -32602, -32603)


@pytest.mark.parametrize("given_id", [1, 0, -5, "abc", "", 1.5, 2**70])
def test_a_request_has_an_id_that_is_a_string_or_a_number(given_id):
    message = parse(body(id=given_id, method="m", params={"a": 1}))
    assert message == RpcRequest(given_id, "m", {"a": 1})
    assert type(message.id) is type(given_id)


@given(ids, values())
def test_an_id_is_echoed_as_it_came(given_id, result):
    request = parse(body(id=given_id, method="m"))
    sent = json.loads(result_bytes(request.id, result))
    assert same(sent, {"jsonrpc": "2.0", "id": given_id, "result": json.loads(json.dumps(result))})


def test_a_notification_has_no_id():
    assert parse(body(method="m")) == Notification("m")
    assert parse(body(method="m", params=[1])) == Notification("m", [1])


def test_params_are_an_object_or_an_array_or_absent():
    assert parse(body(id=1, method="m", params=[1])) == RpcRequest(1, "m", [1])
    assert parse(body(id=1, method="m", params=None)) == RpcRequest(1, "m")
    assert parse(body(id=1, method="m")) == RpcRequest(1, "m")
    for params in (5, "a", True):
        assert answer(body(id=1, method="m", params=params)) == (1, INVALID_PARAMS)
        assert answer(body(method="m", params=params)) == (None, INVALID_PARAMS)


@pytest.mark.parametrize("data", [b"", b"{oops", b"NaN", b"[" * 100_000, b'"\\ud800"', b"\xff"])
def test_what_is_no_json_is_a_parse_error(data):
    assert answer(data) == (None, PARSE_ERROR)
    assert parse(data).message == "Parse error"


@pytest.mark.parametrize(
    ("data", "echoed"),
    [
        (b"5", None),
        (b"null", None),
        (b'"a"', None),
        (b"{}", None),
        (b'{"id":5,"method":"ping"}', 5),
        (b'{"jsonrpc":"1.0","id":"x","method":"ping"}', "x"),
        (b'{"jsonrpc":2.0,"id":"x","method":"ping"}', "x"),
        (b'{"id":1,"result":{}}', 1),
        (b'{"jsonrpc":"2.0","id":7}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":1}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":null}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":[],"result":1}', 7),
        (b'{"jsonrpc":"2.0","method":1}', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":5}', None),
    ],
)
def test_an_invalid_request_is_answered_with_its_id_when_it_has_a_usable_one(data, echoed):
    assert answer(data) == (echoed, INVALID_REQUEST)
    assert parse(data).message == "Invalid Request"


@pytest.mark.parametrize(
    ("data", "response"),
    [
        (body(id=1, result={"a": 1}), Response(1, {"a": 1})),
        (body(id=1, result=None), Response(1)),
        (body(id="x", result=1, error=None), Response("x", 1)),
        (body(id=1, error={"code": -5, "message": "no"}), Response(1, error=RpcError(-5, "no"))),
        (
            body(id=None, error={"code": -5, "message": "no", "data": None}),
            Response(None, error=RpcError(-5, "no", None)),
        ),
    ],
)
def test_a_response_is_told_apart_from_what_must_be_answered(data, response):
    assert parse(data) == response


@pytest.mark.parametrize(
    "error", ["no", None, {}, {"code": "x", "message": "y"}, {"code": True, "message": ""}]
)
def test_a_malformed_error_is_still_a_response_so_that_it_is_never_answered(error):
    message = parse(body(id=3, error=error))
    assert message == Response(3, error=RpcError(INTERNAL_ERROR, message.error.message, error))
    assert "malformed" in message.error.message


BATCH = b"[%b,%b,5,[],%b]" % (body(id=1, method="a"), body(method="b"), body(id=2, result=0))


def test_a_batch_is_one_invalid_request_by_default():
    assert answer(BATCH) == (None, INVALID_REQUEST)
    assert answer(b"[]") == (None, INVALID_REQUEST)


def test_a_batch_is_parsed_item_by_item_where_batches_are_spoken():
    batch = parse(BATCH, batches=True)
    assert isinstance(batch, Batch)
    kinds = [RpcRequest, Notification, Invalid, Invalid, Response]
    assert [type(item) for item in batch.items] == kinds
    assert all(item.code == INVALID_REQUEST for item in batch.items if isinstance(item, Invalid))
    assert parse(body(id=1, method="a"), batches=True) == RpcRequest(1, "a")


def test_an_empty_or_endless_batch_is_one_invalid_request():
    for items in (0, BATCH_LIMIT + 1):
        message = parse(json.dumps([1] * items).encode(), batches=True)
        assert (message.id, message.code) == (None, INVALID_REQUEST)
    assert len(parse(json.dumps([1] * BATCH_LIMIT).encode(), batches=True).items) == BATCH_LIMIT


def test_a_stricter_reader_can_be_given():
    data = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}'
    assert isinstance(parse(data), RpcRequest)
    assert parse(data, read=partial(loads, unique_keys=True)).code == PARSE_ERROR


def test_error_data_is_sent_only_when_it_is_given():
    error = RpcError(METHOD_NOT_FOUND, "Method not found")
    assert (
        error_bytes(1, error)
        == b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'
    )
    assert error_bytes(None, RpcError(1, "x", None)).endswith(b'"message":"x","data":null}}')
    assert result_bytes("a", {}) == b'{"jsonrpc":"2.0","id":"a","result":{}}'


@given(st.binary() | values().map(lambda value: json.dumps(value).encode()), st.booleans())
def test_parsing_never_raises(data, batches):
    message = parse(data, batches=batches)
    assert isinstance(message, RpcRequest | Notification | Response | Batch | Invalid)


members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2, None]),
        "id": ids | values(),
        "method": st.just("m") | values(),
        "params": values(),
        "result": values(),
        "error": values() | st.fixed_dictionaries({"code": values(), "message": values()}),
    },
)


@given(members)
def test_any_object_is_one_kind_of_message(value):
    message = parse(json.dumps(value).encode())
    if isinstance(message, Invalid):
        assert json.loads(error_bytes(message.id, message.error))["error"]["code"] < 0
    elif isinstance(message, RpcRequest):
        assert message.id == value["id"]
        assert message.id is not None
    elif isinstance(message, Notification):
        assert "id" not in value
    else:
        assert isinstance(message, Response)
        assert "method" not in value


# Events on the wire, and the ids by which a client comes back.


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
