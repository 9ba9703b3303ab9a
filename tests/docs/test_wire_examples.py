"""Every example of the page of wire formats, read and written by the code of this release."""

import json
import re
from datetime import datetime
from hashlib import sha256

import jsonschema
import pytest
from msgspec import convert
from websockets.asyncio.client import connect

import comity
from comity.envelopes.protocol.chain import ReplayState, check_chain
from comity.envelopes.protocol.envelope import (
    from_a2a_jsonrpc,
    from_a2a_result,
    reply_is_bound,
    to_a2a_jsonrpc,
    to_a2a_result,
)
from comity.identity.protocol.keys import SigningKey
from comity.requests.events import NodeEvent, encode
from comity.rooms.protocol.channel import read_text_message, write_envelope
from comity.testing import running_node
from comity.votes.protocol.provenance import verify_record
from tests.actions.protocol.driving import Served
from tests.docs.markdown import DOCS

_EXAMPLE = re.compile(r"<!-- example: ([a-z-]+) -->\n```[a-z]+\n(.*?)\n```", re.DOTALL)
PAGE = (DOCS / "reference" / "wire-examples.md").read_text("utf-8")
EXAMPLES = dict(_EXAMPLE.findall(PAGE))


def example(name):
    return EXAMPLES[name]


@pytest.mark.parametrize("name", ["vcp-hello", "vcp-ack", "vcp-error"])
def test_a_message_of_the_handshake_is_of_its_schema(name):
    message = json.loads(example(name))
    jsonschema.validate(message, comity.HANDSHAKE_SCHEMA)
    assert message["type"] == name


async def test_a_node_answers_the_hello_and_a_wrong_version_as_the_page_says():
    hello = json.loads(example("vcp-hello"))
    async with running_node() as node:
        for sent, name in (
            (hello, "vcp-ack"),
            ({**hello, "version": "9.0", "min_version": "9.0"}, "vcp-error"),
        ):
            shown = json.loads(example(name))
            async with connect(node.url.replace("http", "ws") + "/vcp") as socket:
                await socket.send(json.dumps(sent))
                told = json.loads(await socket.recv())
            for own in ("session_id", "server_id"):
                assert (own in told) == (own in shown)
                told.pop(own, None)
                shown.pop(own, None)
            assert told == shown


def test_the_signed_messages_verify_and_follow_each_other():
    caller, called = SigningKey.from_seed(b"\x02" * 32), SigningKey.from_seed(b"\x01" * 32)
    first, second = (from_a2a_jsonrpc(json.loads(example(name))) for name in ("request", "second-request"))
    reply = from_a2a_result(json.loads(example("reply")))
    assert [one.from_vacant_id for one in (first, reply, second)] == [
        caller.vacant_id,
        called.vacant_id,
        caller.vacant_id,
    ]
    assert all(one.verify() for one in (first, reply, second))
    assert first.signing_payload().decode() == example("signing-payload")
    assert reply_is_bound(reply, first) is True
    assert check_chain(check_chain(ReplayState(), first), second).last_sequence_no == 2
    assert check_chain(ReplayState(), reply).last_sequence_no == 1
    for name, made in (
        ("request", to_a2a_jsonrpc(first)),
        ("second-request", to_a2a_jsonrpc(second)),
        ("reply", to_a2a_result(reply, "call-1")),
    ):
        assert json.loads(example(name)) == made


@pytest.mark.parametrize(
    ("sent", "told"), [("action-request", "action-reply"), ("action-refused-request", "action-refusal")]
)
def test_an_action_answers_as_the_page_says(sent, told):
    answered = Served("strict").send(example(sent).encode() + b"\n")
    assert json.loads(answered) == json.loads(example(told))


def test_the_message_of_a_peer_is_sealed_with_the_key_of_the_page():
    text = example("peer-message")
    key = sha256(b"an example, and never a key").digest()
    message = read_text_message(text.encode())
    assert message.is_sealed_by(key)
    assert not message.is_sealed_by(bytes(32))
    assert json.loads(write_envelope(message, key)) == json.loads(text)


def test_the_record_of_a_deliberation_is_recounted():
    record = json.loads(example("deliberation-record"))
    recount = verify_record(json.dumps(record).encode())
    assert (recount.ok, recount.entries) == (True, 1), recount.reason
    changed = json.dumps(record).replace("within a day", "within a week")
    assert not verify_record(changed.encode()).ok


def test_an_event_is_written_as_the_page_says():
    shown = json.loads(example("event"))
    when = datetime.fromisoformat(shown.pop("time")).timestamp()
    assert encode(convert({**shown, "time": when}, NodeEvent)).decode() == example("event")


def test_every_example_of_the_page_is_read_by_a_test():
    source = (DOCS.parent / "tests" / "docs" / "test_wire_examples.py").read_text("utf-8")
    assert {name for name in EXAMPLES if f'"{name}"' not in source} == set()
    assert len(EXAMPLES) == PAGE.count("\n```") // 2
