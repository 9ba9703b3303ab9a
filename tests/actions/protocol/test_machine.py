import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.actions.protocol.machine import LIMIT, NdjsonMachine
from comity.wire.frames import FrameDecoder, Oversize
from tests.actions.protocol.driving import BOUNDARY, Faults, ask, calls, drive, machine

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OVERSIZE = b'{"ok":false,"error":"Request exceeds maximum size (512 KB)"}'
MALFORMED = b'{"ok":false,"error":"Malformed JSON request"}'
UNKNOWN = b"""{"ok":false,"error":"Unknown action: 'x'. Call list_actions to see available actions."}"""
INVOKE_X = b'{"type":"invoke","payload":{"action":"x","input":{}}}'


def invoke(name, given=None, **more):
    return json.dumps({**more, "type": "invoke", "payload": {"action": name, "input": given or {}}}).encode()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_line_end_gives_one_reply(end):
    assert drive(machine().receive(end.join([INVOKE_X, INVOKE_X, b""]))) == (UNKNOWN + b"\n") * 2


def test_a_line_separator_of_unicode_ends_no_line():
    line = invoke("echo_text", {"text": "a"}).replace(b'"a"', '"a\u2028\u2029b"'.encode())
    assert len(ask(machine(), line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  ",
        b"\xef\xbb\xbf" + INVOKE_X,
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        INVOKE_X + b"x",
        b'{"a":1,}',
        b"{'a':1}",
        b'"\x01"',
        b"01",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b'"\\u00zz"',
        b"\x00",
    ],
)
def test_what_is_no_json_is_malformed(line):
    assert ask(machine(), line) == [MALFORMED]


@pytest.mark.parametrize(
    "value",
    [
        b"1e999",
        b"-1e999",
        b"9" * 5000,
        b'"\\ud800"',
        b'"\xff\xfe"',
        b"[" * 900 + b"]" * 900,
        b"[" * 5000 + b"]" * 5000,
        b"18446744073709551617",
    ],
)
def test_what_javascript_reads_is_read(value):
    line = b'{"payload":{"action":"x","input":{"a":%b}},"type":"invoke"}' % value
    assert ask(machine(), line) == [UNKNOWN]


def test_half_a_surrogate_pair_comes_back_as_an_escape():
    line = b'{"id":"\\ud800","type":"invoke","payload":{"action":"\\udc00\\ud83d\\ude00","input":{}}}'
    error = "Unknown action: '\\udc00😀'. Call list_actions to see available actions."
    assert ask(machine(), line) == [f'{{"id":"\\ud800","ok":false,"error":"{error}"}}'.encode()]


def test_of_two_equal_keys_the_later_counts():
    line = b'{"id":5,"type":"foo","type":"invoke","id":"b","payload":1,"payload":{"action":"x","input":{}}}'
    assert ask(machine(), line)[0].startswith(b'{"id":"b","ok":false,"error":"Unknown action')


def test_a_line_of_exactly_the_limit_passes_and_one_byte_more_does_not():
    room = LIMIT - len(INVOKE_X)
    fits = INVOKE_X + b" " * room
    assert ask(machine(), fits, fits + b" ", INVOKE_X) == [UNKNOWN, OVERSIZE, UNKNOWN]


def test_the_limit_counts_bytes_and_not_characters():
    pad = "é".encode() * (LIMIT // 2)
    line = b'{"pad":"%b",%b' % (pad, INVOKE_X[1:])
    assert len(line.decode()) < LIMIT
    assert ask(machine(), line) == [OVERSIZE]


def test_a_byte_that_is_no_utf8_counts_three():
    frame = b'{"pad":"%b",%b' % (b"%b", INVOKE_X[1:])
    room = (LIMIT - len(frame) + 2) // 3
    assert ask(machine(), frame % (b"\xff" * room)) == [UNKNOWN]
    assert ask(machine(), frame % (b"\xff" * (room + 1))) == [OVERSIZE]


def test_a_gigantic_line_is_refused_once_and_not_kept():
    talker = machine()
    chunk = b"x" * 65_536
    said = []
    tracemalloc.start()
    try:
        for _ in range(1024):  # 64 MB
            said.append(drive(talker.receive(chunk)))
            assert talker.held <= LIMIT
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said.append(drive(talker.receive(b"\n" + INVOKE_X + b"\n")))
    assert b"".join(said) == OVERSIZE + b"\n" + UNKNOWN + b"\n"
    assert peak < 4 * LIMIT


def test_a_flood_of_short_lines_keeps_nothing():
    talker = machine()
    tracemalloc.start()
    try:
        for _ in range(10):
            drive(talker.receive(b"\n" * 2000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert talker.held == 0
    assert kept < 200_000


def test_the_last_line_needs_no_end():
    talker = machine()
    assert drive(talker.receive(INVOKE_X)) == b""
    assert drive(talker.end()) == UNKNOWN + b"\n"


@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_however_the_bytes_are_cut_the_replies_are_the_same(cuts):
    stream = b"\r\n".join([INVOKE_X, b"", b"[]\r{", invoke("echo_text", {"text": "é"}, id="ü")]) + b"\r\n1"
    whole = machine()
    expected = drive(whole.receive(stream)) + drive(whole.end())
    talker, said, at, turn = machine(), b"", 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        said += drive(talker.receive(stream[at : at + size]))
        at, turn = at + size, turn + 1
    assert said + drive(talker.end()) == expected
    assert expected.count(b"\n") == 6


PIECES = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"{}", b"a", b"\xff", b"b" * 7, b"c" * 30]), max_size=25
)


@given(pieces=PIECES, cuts=st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_lines_are_split_as_the_decoder_splits_them(pieces, cuts):
    stream = b"".join(pieces)
    decoder = FrameDecoder(8, lines_only=True)
    events = decoder.feed(stream) + decoder.end()
    talker, said, at, turn = NdjsonMachine(calls(), limit=8), b"", 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        said += drive(talker.receive(stream[at : at + size]))
        assert talker.held <= 8
        at, turn = at + size, turn + 1
    replies = (said + drive(talker.end())).splitlines()
    assert len(replies) == len(events)
    for event, reply in zip(events, replies, strict=True):
        if isinstance(event, Oversize):
            assert reply == OVERSIZE
        elif event.body == b"{}":
            assert b"Invalid request envelope" in reply


def test_a_success_has_its_keys_in_order():
    (reply,) = ask(machine(), invoke("echo_text", {"text": "ü"}, id=""))
    data = (
        f'{{"action":"echo_text","boundaryNotice":"{BOUNDARY}","uncertainty":"low","assumptions":["none"],'
        '"output":{"said":"ü","mode":"enhanced"}}'
    )
    assert reply.decode() == f'{{"id":"","ok":true,"data":{data}}}'


def test_a_refusal_of_the_action_goes_out_as_it_is():
    assert ask(machine(), invoke("refuse_all", id="a")) == [
        b'{"id":"a","ok":false,"error":"This cannot be worked with."}'
    ]


@pytest.mark.parametrize("name", ["break_down", "say_nonsense", "say_unspeakable", "break_schema"])
def test_a_handler_that_fails_is_an_internal_error_and_the_stream_goes_on(name):
    faults = Faults()
    replies = ask(machine(faults=faults), invoke(name, id="a"), INVOKE_X)
    assert replies == [b'{"id":"a","ok":false,"error":"Internal error"}', UNKNOWN]
    assert [told for told, _ in faults] == [name]


def test_work_is_settled_in_its_place():
    lines = [INVOKE_X, invoke("need_pages", id="p"), invoke("take_long", {"text": "t"}, id="l"), INVOKE_X]
    replies = ask(machine(), *lines)
    assert replies[0] == replies[3] == UNKNOWN
    assert json.loads(replies[1])["data"]["output"] == {"got": ["https://a.example/", "https://b.example/"]}
    assert json.loads(replies[2])["data"]["output"]["said"] == "t"


def test_replies_leave_before_work_begins():
    steps = machine().receive(INVOKE_X + b"\n" + invoke("take_long", id="l") + b"\n")
    assert next(steps) == [UNKNOWN + b"\n"]


def test_only_enhanced_keeps_the_id_of_a_bad_envelope():
    line = b'{"id":"q","type":"foo"}'
    assert ask(machine("enhanced"), line)[0].startswith(
        b'{"id":"q","ok":false,"error":"Invalid request envelope"'
    )
    assert ask(machine("strict"), line)[0].startswith(b'{"ok":false,"error":"Invalid request envelope"')
    assert ask(machine("enhanced"), b'{"id":1,"type":"foo"}')[0].startswith(b'{"ok":false')


def test_an_action_is_described_in_enhanced_only():
    line = b'{"id":"d","type":"describe_action","payload":{"action":"echo_text"}}'
    (described,) = ask(machine("enhanced"), line)
    assert list(json.loads(described)["data"]) == [
        "skill",
        "action",
        "description",
        "inputSchema",
        "outputSchema",
        "safetyBoundary",
    ]
    assert (
        b"Invalid enum value. Expected 'list_actions' | 'invoke', received 'describe_action'"
        in (ask(machine("strict"), line)[0])
    )
    bad, unknown = ask(
        machine("enhanced"),
        b'{"type":"describe_action"}',
        b'{"type":"describe_action","payload":{"action":"x"}}',
    )
    assert json.loads(bad)["error"] == "Invalid describe_action payload"
    assert unknown == UNKNOWN


def test_compat_names_another_way_to_the_list():
    assert json.loads(ask(machine("compat"), INVOKE_X)[0])["error"] == (
        "Unknown action: 'x'. Use tools/list to see available actions."
    )


PLACES = st.sampled_from(["line", "id", "type", "payload", "action", "input", "text"])


@given(place=PLACES, value=JSON, mode=st.sampled_from(["strict", "compat", "enhanced"]))
@settings(max_examples=200, deadline=None)
def test_any_value_anywhere_gives_one_valid_line(place, value, mode):
    request = {"id": "a", "type": "invoke", "payload": {"action": "echo_text", "input": {"text": "t"}}}
    if place == "line":
        request = value
    elif place in request:
        request[place] = value
    elif place in request["payload"]:
        request["payload"][place] = value
    else:
        request["payload"]["input"][place] = value
    replies = ask(machine(mode), json.dumps(request).encode(), INVOKE_X)
    assert len(replies) == 2
    answer = json.loads(replies[0])
    assert answer["ok"] is ("data" in answer)
    assert isinstance(answer.get("error", ""), str)


@given(data=st.binary(max_size=200))
def test_any_bytes_give_one_reply_for_each_line(data):
    talker = machine()
    said = drive(talker.receive(data)) + drive(talker.end())
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = text.split(b"\n")
    expected = len(lines) - (0 if lines[-1] else 1)
    replies = said.split(b"\n")[:-1]
    assert len(replies) == expected
    assert all(isinstance(json.loads(reply), dict) for reply in replies)
