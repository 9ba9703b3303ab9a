"""The statuses of `POST /a2a/message/send`, in the contract's order of checks."""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comity.envelopes.protocol.envelope import A2A_VACANT_METADATA_KEY, to_a2a_jsonrpc
from comity.runtime.system_clock import SystemClock
from comity.store.memory import MemoryStore
from tests.envelopes.peers import SERVER, Caller, Server


@pytest.fixture
async def server():
    return Server(MemoryStore(SystemClock()))


def body(**changed):
    return to_a2a_jsonrpc(Caller().next(**changed))


def detail_of(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert isinstance(response.json()["detail"], str)
    return response.json()["detail"]


def edited(**metadata):
    """The body of a good request with members of its metadata replaced, or removed where None is given."""
    changed = body()
    block = changed["params"]["message"]["metadata"][A2A_VACANT_METADATA_KEY]
    for name, value in metadata.items():
        if value is None:
            del block[name]
        else:
            block[name] = value
    return changed


async def test_a_good_envelope_is_answered_in_json_with_the_id_it_came_with(server):
    request = body()
    response = await server.post(request)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["id"] == request["id"]
    assert list(response.json()) == ["jsonrpc", "id", "result"]


@pytest.mark.parametrize("id_", [7, "x", None, 1.5, {"a": 1}])
async def test_whatever_the_id_is_it_is_echoed(server, id_):
    assert (await server.post({**body(), "id": id_})).json()["id"] == id_


async def test_a_missing_id_is_answered_with_null(server):
    request = body()
    del request["id"]
    assert (await server.post(request)).json()["id"] is None


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "", "application/vnd.x+json"])
async def test_another_content_type_is_415_before_the_body_is_looked_at(server, kind):
    response = await server.post(None, json=None, content=b"{", headers={"content-type": kind})
    assert "expected application/json" in detail_of(response, 415)


async def test_a_content_type_that_comes_twice_is_400(server):
    twice = [("content-type", "application/json"), ("content-type", "application/json")]
    assert "2 times" in detail_of(await server.post(None, json=None, content=b"{}", headers=twice), 400)


async def test_no_content_type_is_415(server):
    assert "None" in detail_of(await server.post(None, json=None, content=b"{}"), 415)


@pytest.mark.parametrize(
    "kind", ["application/json", "APPLICATION/JSON; charset=utf-8", "application/a2a+json"]
)
async def test_both_json_types_are_taken(server, kind):
    content = json.dumps(body()).encode()
    response = await server.post(None, json=None, content=content, headers={"content-type": kind})
    assert response.status_code == 200


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"nonsense", b"\xff\xfe", b'{"a":NaN}', b"[" * 100_000, b'{"jsonrpc":"2.0","jsonrpc":"2.0"}'],
)
async def test_what_is_not_json_is_400(server, content):
    response = await server.post(
        None, json=None, content=content, headers={"content-type": "application/json"}
    )
    detail_of(response, 400)


@pytest.mark.parametrize("value", [[], [1], "text", 5, None, True])
async def test_what_is_not_an_object_is_400(server, value):
    response = await server.post(
        None, json=None, content=json.dumps(value), headers={"content-type": "application/json"}
    )
    assert "object" in detail_of(response, 400)


async def test_more_than_a_mebibyte_is_413(server):
    response = await server.post(body(payload=Caller().next("x" * 1_048_577).payload))
    assert "1,048,576 bytes" in detail_of(response, 413)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_other_methods_are_405(server, method):
    response = await server.http.request(method, "/a2a/message/send")
    assert response.headers["allow"] == "POST"
    detail_of(response, 405)


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"jsonrpc": "1.0"}, "jsonrpc field must be '2.0'; got '1.0'"),
        ({"jsonrpc": None}, "jsonrpc field must be '2.0'; got None"),
        ({"method": "tasks/get"}, "method must be 'message/send'; got 'tasks/get'"),
        ({"method": None}, "method must be 'message/send'; got None"),
        ({"method": "x" * 10_000}, "method must be 'message/send'; got 'xxx"),
    ],
)
async def test_another_rpc_is_400_and_names_the_field(server, changed, detail):
    found = detail_of(await server.post({**body(), **changed}), 400)
    assert found.startswith(detail)
    assert len(found) < 200


def break_message(change):
    request = copy.deepcopy(body())
    change(request)
    return request


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.update(params=[]),
        lambda r: r.update(params=None),
        lambda r: r.pop("params"),
        lambda r: r["params"].update(message=None),
        lambda r: r["params"].update(message=[]),
        lambda r: r["params"]["message"].update(metadata=None),
        lambda r: r["params"]["message"].pop("metadata"),
        lambda r: r["params"]["message"].update(metadata={}),
        lambda r: r["params"]["message"].update(parts=None),
        lambda r: r["params"]["message"].update(parts=[{"type": "file", "text": ""}]),
        lambda r: r["params"]["message"].update(parts=[{"type": "text", "text": 5}]),
        lambda r: r["params"]["message"].update(parts=["text"]),
        lambda r: r["params"]["message"].update(role="user"),
        lambda r: r["params"]["message"].update(role=5),
        lambda r: r["params"]["message"].update(contextId=5),
        lambda r: r["params"]["message"].update(messageId=[]),
    ],
)
async def test_a_broken_message_is_400_and_never_500(server, change):
    detail_of(await server.post(break_message(change)), 400)


@pytest.mark.parametrize(
    "metadata",
    [
        {"sequence_no": 0},
        {"sequence_no": -1},
        {"sequence_no": "1"},
        {"sequence_no": 1.0},
        {"sequence_no": True},
        {"sequence_no": 2**63},
        {"prev_envelope_hash": "00"},
        {"prev_envelope_hash": "zz" * 32},
        {"prev_envelope_hash": 5},
        {"from_vacant_id": "ab"},
        {"to_vacant_id": "not hex"},
        {"timestamp": "yesterday"},
        {"timestamp": 5},
        {"caller_signature": "xyz"},
        {"idempotency_key": 5},
        {"from_vacant_id": None},
        {"sequence_no": None},
        {"timestamp": None},
        {"caller_signature": None},
    ],
)
async def test_broken_metadata_is_400_and_names_the_member(server, metadata):
    found = detail_of(await server.post(edited(**metadata)), 400)
    assert next(iter(metadata)) in found


async def test_a_null_idempotency_key_is_400(server):
    request = body()
    request["params"]["message"]["metadata"][A2A_VACANT_METADATA_KEY]["idempotency_key"] = None
    detail_of(await server.post(request), 400)


async def test_half_a_surrogate_pair_is_400(server):
    content = json.dumps(body()).replace("hello", "\\ud800").encode()
    response = await server.post(
        None, json=None, content=content, headers={"content-type": "application/json"}
    )
    detail_of(response, 400)


async def test_another_addressee_is_421_even_before_the_signature(server):
    other = Caller("other").key.vacant_id
    request = edited(to_vacant_id=other.hex(), caller_signature="00" * 64)
    found = detail_of(await server.post(request), 421)
    assert found == f"envelope addressed to {other.short()}; this server is {SERVER.vacant_id.short()}"


@pytest.mark.parametrize(
    ("state", "status", "detail"),
    [
        ("SUNK", 410, "vacant is SUNK; calls permanently rejected"),
        ("ARCHIVED", 410, "vacant is ARCHIVED; calls permanently rejected"),
        ("HIBERNATING", 423, "vacant is HIBERNATING; not accepting calls"),
        ("STALE", 423, "vacant is STALE; not accepting calls"),
    ],
)
async def test_a_vacant_that_takes_no_calls_says_so_before_the_signature(server, state, status, detail):
    server.state = state
    assert detail_of(await server.post(edited(caller_signature="00" * 64)), status) == detail
    server.state = "LOCAL"
    assert (await server.post(body())).status_code == 200


@pytest.mark.parametrize("bit", [0, 100, 255, 511])
async def test_one_flipped_bit_of_the_signature_is_401(server, bit):
    envelope = Caller().next()
    flipped = bytearray(envelope.signature)
    flipped[bit // 8] ^= 1 << bit % 8
    request = to_a2a_jsonrpc(envelope)
    request["params"]["message"]["metadata"][A2A_VACANT_METADATA_KEY]["caller_signature"] = flipped.hex()
    found = detail_of(await server.post(request), 401)
    assert found == f"envelope signature did not verify for sender {envelope.from_vacant_id.short()}"


@pytest.mark.parametrize("signature", ["", "00", "00" * 64, "ff" * 64, "00" * 65])
async def test_no_signature_or_one_of_another_length_is_401(server, signature):
    detail_of(await server.post(edited(caller_signature=signature)), 401)


@pytest.mark.parametrize(
    "small_order",
    ["00" * 32, "01" + "00" * 31, "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"],
)
async def test_a_small_order_key_never_verifies(server, small_order):
    detail_of(await server.post(edited(from_vacant_id=small_order, caller_signature="00" * 64)), 401)


async def test_upper_case_hex_and_other_spellings_of_the_moment_are_taken(server):
    request = body()
    block = request["params"]["message"]["metadata"][A2A_VACANT_METADATA_KEY]
    block["from_vacant_id"] = block["from_vacant_id"].upper()
    block["caller_signature"] = block["caller_signature"].upper()
    block["timestamp"] = block["timestamp"].replace("+00:00", "Z")
    assert (await server.post(request)).status_code == 200


async def test_the_chain_of_the_refused_is_as_it_was(server):
    caller = Caller()
    await server.reply_to(caller.next())
    await server.post(edited(caller_signature="00" * 64))
    await server.reply_to(caller.next())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values, place=st.sampled_from(["root", "params", "message", "metadata", "block", "member"]))
async def test_any_json_anywhere_is_answered_4xx(server, value, place):
    request = body()
    message = request["params"]["message"]
    match place:
        case "root":
            request = value
        case "params":
            request["params"] = value
        case "message":
            request["params"]["message"] = value
        case "metadata":
            message["metadata"] = value
        case "block":
            message["metadata"][A2A_VACANT_METADATA_KEY] = value
        case "member":
            message["metadata"][A2A_VACANT_METADATA_KEY] = dict.fromkeys(
                message["metadata"][A2A_VACANT_METADATA_KEY], value
            )
    content = json.dumps(request, ensure_ascii=True)
    response = await server.post(
        None, json=None, content=content, headers={"content-type": "application/json"}
    )
    assert 400 <= response.status_code < 500
    assert isinstance(response.json()["detail"], str)
