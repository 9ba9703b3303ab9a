"""Headers that say what the body says: era, method, name, and the arguments a tool wants repeated."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.mcp.protocol.http_rules import accepts, check_era, check_mirrored, check_repeats, read_headers
from comity.mcp.protocol.results import McpError, status_of
from comity.wire.jsonrpc import RpcRequest
from tests.mcp.protocol.talk import meta, tool

NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
MIRRORED = tool(
    "m",
    input_schema={
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
        },
    },
)


def headers(**named):
    return read_headers([(name.replace("_", "-").encode(), value) for name, value in named.items()])


def encoded(text):
    return b"=?base64?" + base64.b64encode(text.encode()) + b"?="


def mismatch(check, *given):
    with pytest.raises(McpError) as caught:
        check(*given)
    assert caught.value.rpc.code == -32020
    assert caught.value.status == 400


@pytest.mark.parametrize("version", [b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25"])
def test_a_legacy_revision_or_none_is_legacy(version):
    assert not headers(mcp_protocol_version=version).modern
    assert not headers().modern


@pytest.mark.parametrize("version", [b"2026-07-28", b"2027-01-01", b"", b"nonsense"])
def test_any_other_revision_is_modern(version):
    assert headers(mcp_protocol_version=version).modern


def test_white_space_around_a_value_means_nothing():
    found = headers(
        mcp_name=b" \t echo \t", mcp_method=b"tools/call ", mcp_session_id=b" s ", last_event_id=b" 1.2"
    )
    assert (found.name, found.method, found.session, found.last_event) == ("echo", "tools/call", "s", "1.2")


def test_white_space_inside_base64_stays():
    assert headers(mcp_name=encoded(" é ")).name == " é "


@given(st.text())
def test_any_text_comes_through_base64(text):
    assert headers(mcp_name=encoded(text)).name == text


@pytest.mark.parametrize(
    "value", [b"=?base64?!!?=", b"=?base64?/w==?=", b"=?base64?YQ?=", b"=?base64?Y Q==?="]
)
def test_what_is_no_base64_of_utf8_is_refused(value):
    mismatch(lambda: headers(mcp_name=value))


@pytest.mark.parametrize("value", [b"=?base64?=", b"=?base64?", b"?=", b"=?utf8?YQ==?=", b"x=?base64?YQ==?="])
def test_what_only_resembles_base64_is_taken_as_it_is(value):
    assert headers(mcp_name=value).name == value.decode()


def test_a_header_of_ours_that_comes_twice_is_refused():
    for name in (b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"mcp-session-id", b"mcp-param-x"):
        mismatch(read_headers, [(name, b"a"), (name, b"a")])
    read_headers([(b"accept", b"a"), (b"accept", b"b")])


def test_a_modern_header_wants_a_modern_body():
    modern = headers(mcp_protocol_version=b"2026-07-28")
    check_era(modern, RpcRequest(1, "tools/list", {"_meta": meta()}))
    mismatch(check_era, modern, RpcRequest(1, "tools/list", {"_meta": meta(version="2027-01-01")}))
    with pytest.raises(McpError) as caught:
        check_era(modern, RpcRequest(1, "initialize", {}))
    assert (caught.value.rpc.code, caught.value.status) == (-32601, 404)


@pytest.mark.parametrize("named", [{}, {"mcp_protocol_version": b"2025-11-25"}])
def test_a_modern_body_wants_a_modern_header(named):
    legacy = headers(**named)
    mismatch(check_era, legacy, RpcRequest(1, "tools/list", {"_meta": meta()}))
    check_era(legacy, RpcRequest(1, "tools/list", {"_meta": {"progressToken": 1}}))
    check_era(legacy, RpcRequest(1, "tools/list", None))
    check_era(legacy, RpcRequest(1, "initialize", {"_meta": meta()}))


def test_the_method_is_repeated():
    request = RpcRequest(1, "tools/list", {})
    check_repeats(headers(mcp_method=b"tools/list"), request)
    mismatch(check_repeats, headers(), request)
    mismatch(check_repeats, headers(mcp_method=b"tools/call"), request)
    mismatch(check_repeats, headers(mcp_method=b"Tools/List"), request)


@pytest.mark.parametrize(("method", "member"), NAMED.items())
def test_the_name_of_what_a_request_is_about_is_repeated(method, member):
    request = RpcRequest(1, method, {member: "ö"})
    spoken = {"mcp_method": method.encode()}
    check_repeats(headers(**spoken, mcp_name=encoded("ö")), request)
    mismatch(check_repeats, headers(**spoken), request)
    mismatch(check_repeats, headers(**spoken, mcp_name=b"o"), request)
    mismatch(check_repeats, headers(**spoken, mcp_name="ö".encode()), request)


@pytest.mark.parametrize("params", [None, [], {}, {"name": 7}])
def test_a_body_without_the_name_is_refused_as_such(params):
    with pytest.raises(McpError) as caught:
        check_repeats(headers(mcp_method=b"tools/call", mcp_name=b"7"), RpcRequest(1, "tools/call", params))
    assert caught.value.rpc.code == -32602


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, {}),
        ({"region": "eu"}, {"mcp_param_region": b"eu"}),
        ({"region": "ö "}, {"mcp_param_region": encoded("ö ")}),
        ({"region": ""}, {"mcp_param_region": b""}),
        ({"count": 42}, {"mcp_param_count": b" 42 "}),
        ({"count": 42.0}, {"mcp_param_count": b"42"}),
        ({"count": -(10**30)}, {"mcp_param_count": b"-1" + b"0" * 30}),
        ({"deep": {"flag": True}}, {"mcp_param_flag": b"true"}),
        ({"deep": {"flag": False}}, {"mcp_param_flag": b"false"}),
        ({"region": None, "deep": 7}, {}),
        ({"region": "eu"}, {"mcp_param_region": b"eu", "mcp_param_unknown": b"x"}),
    ],
)
def test_arguments_that_are_repeated_rightly_pass(arguments, named):
    check_mirrored(headers(**named), MIRRORED, arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"mcp_param_region": b"us"}),
        ({"region": "eu"}, {"mcp_param_region": b"EU"}),
        ({}, {"mcp_param_region": b"eu"}),
        ({"region": None}, {"mcp_param_region": b"null"}),
        ({"count": 1}, {"mcp_param_count": b"true"}),
        ({"deep": {"flag": True}}, {"mcp_param_flag": b"1"}),
        ({"deep": {"flag": True}}, {}),
        ({"count": 1.5}, {"mcp_param_count": b"1.5"}),
        ({"region": ["eu"]}, {"mcp_param_region": b"eu"}),
        ([], {"mcp_param_region": b"eu"}),
    ],
)
def test_arguments_that_are_not_repeated_rightly_are_refused(arguments, named):
    mismatch(check_mirrored, headers(**named), MIRRORED, arguments)


def test_the_status_of_a_modern_error():
    assert [status_of(code) for code in (-32601, -32603, -32602, -32020, -32021, -32022)] == [
        404,
        200,
        400,
        400,
        400,
        400,
    ]


@pytest.mark.parametrize(
    ("header", "json", "events"),
    [
        (None, True, True),
        ("application/json, text/event-stream", True, True),
        ("Application/JSON,TEXT/Event-Stream", True, True),
        ("application/json;q=0.5 , text/event-stream; Q=0.1", True, True),
        ("application/json;charset=utf-8;q=1.0, text/event-stream", True, True),
        ("*/*", True, True),
        ("*/*;q=0.1", True, True),
        ("*/*;q=0", False, False),
        ("*/*, text/event-stream;q=0", True, False),
        ("text/event-stream;q=0, */*", True, False),
        ("application/*, text/*;q=0.000", True, False),
        ("text/*, text/event-stream;q=0", False, False),
        ("text/*;q=0, text/event-stream;q=0.001", False, True),
        ("application/json;q=nonsense", True, False),
        ("application/jsonp, text/event-streams", False, False),
        ("", False, False),
        (",;,=", False, False),
    ],
)
def test_accept_is_read_as_http_says(header, json, events):
    assert accepts(header, "application/json") is json
    assert accepts(header, "text/event-stream") is events
