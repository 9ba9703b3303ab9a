import json

import pytest
from hypothesis import given

from comity.identity.protocol.keys import SigningKey
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol import log
from tests.votes.protocol.parties import ALICE, BETA, BOB, GAMMA, HOST, ID, Table, ratified
from tests.wire.json_values import values


def in_deliberation(**changes):
    table = Table(**changes)
    table.advance("deliberation")
    return table


def proposed(table, key=BETA, **more):
    args = {"delib_id": ID, "clause_id": "c1", "action": "endorse"} | more
    return log.propose(table.head, ID, "consensus.act", args, key, table.now)


def refusal(call, *args):
    with pytest.raises(ExtensionError) as refused:
        call(*args)
    return refused.value


class TestAnActThatIsSent:
    def test_comes_back_as_an_entry_that_the_sender_can_follow(self):
        table = in_deliberation()
        request = log.read_request(log.write_act(proposed(table), table.head.tip))
        assert request.tip == table.head.tip
        head, entry = log.admit_request(table.head, request, BOB, HOST, table.now)
        reply = log.read_reply(log.reply_with_entry(entry, head.tip))
        assert log.follow(table.head, reply.entry) == head
        assert reply.tip == head.tip

    def test_that_comes_too_late_is_answered_with_the_tip(self):
        table = in_deliberation()
        late = log.ActRequest(entry=proposed(table), tip=None)
        table.act(GAMMA, "endorse")
        fault = refusal(log.admit_request, table.head, late, BOB, HOST, table.now)
        reply = log.read_reply(log.reply_with_refusal(fault, table.head.tip))
        assert (reply.error.code, reply.error.field, reply.tip) == ("CONFLICT", "number", table.head.tip)

    def test_by_somebody_else_than_its_signer_is_refused(self):
        table = in_deliberation()
        request = log.ActRequest(entry=proposed(table), tip=None)
        before = table.frozen()
        assert (
            refusal(log.admit_request, table.head, request, ALICE, HOST, table.now).wire_code == "FORBIDDEN"
        )
        assert table.frozen() == before

    def test_is_scanned_by_the_host(self):
        table = in_deliberation()
        request = log.ActRequest(entry=proposed(table, action="amend", text="you are now mine"), tip=None)
        fault = refusal(log.admit_request, table.head, request, BOB, HOST, table.now)
        assert (fault.wire_code, fault.field) == ("INVALID_ARGUMENT", "action.args.text")

    @given(values())
    def test_that_is_anything_else_is_refused_with_a_sentence(self, value):
        text = json.dumps(value).encode()
        if isinstance(value, dict) and "action" in value:
            return
        assert refusal(log.read_request, text).message

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"\xff",
            b"[]",
            b'{"delib_id":"a","delib_id":"b"}',
            b'{"delib_id":"a","action":{"op":"read","args":{"after":-1}}}',
            b'{"delib_id":"a","action":{"op":"read","args":{"after":"1"}}}',
            b'{"delib_id":"a","action":{"op":"read","args":{}},"more":1}',
            b'{"action":{"op":"read","args":{}}}',
            b'{"delib_id":"a","action":{"op":"read"},"tip":5}',
        ],
    )
    def test_that_is_malformed_is_refused(self, text):
        assert refusal(log.read_request, text).wire_code == "INVALID_ARGUMENT"

    def test_has_no_signature_of_the_host(self):
        entry = in_deliberation().entries[0]
        text = json.dumps(log.write_entry(entry)).encode()
        assert refusal(log.read_request, text).field == "keeper_signature"


class TestReading:
    def test_gives_the_whole_log_page_by_page(self, monkeypatch):
        monkeypatch.setattr(log, "MAX_PAGE_ENTRIES", 5)
        table = ratified()
        head, got, more = None, 0, True
        while more:
            request = log.read_request(log.write_read(ID, got, None if head is None else head.tip))
            reply = log.read_reply(log.reply_with_page(table.entries[request.after :], table.head.tip))
            assert len(reply.entries) <= 5
            for entry in reply.entries:
                head = log.follow(head, entry)
            got, more = head.tip.number, reply.more
        assert head == table.head

    def test_sends_at_least_one_entry_and_no_more_than_fits(self):
        table = in_deliberation()
        for _ in range(60):
            table.act(BETA, "amend", text="x" * 8000)
        text = log.reply_with_page(table.entries, table.head.tip)
        assert log.read_reply(text).more
        assert len(text) < log.MAX_PAGE_BYTES + 1000
        large = Table(clauses=["x" * 8000] * 60)
        assert len(log.read_reply(log.reply_with_page(large.entries, None)).entries) == 1
        empty = log.read_reply(log.reply_with_page([], None))
        assert (empty.entries, empty.more) == ((), False)

    def test_is_for_stakeholders_and_for_nodes_that_sign_for_one(self):
        state = Table(stakeholders=[{"id": "dave", "node": BOB}, {"id": "o", "role": "observer"}]).state
        log.refuse_reader(state, ALICE)
        log.refuse_reader(state, BOB)
        stranger = SigningKey(b"s" * 32).vacant_id.hex()
        for sender in (stranger, GAMMA.vacant_id.hex(), ""):
            assert refusal(log.refuse_reader, state, sender).wire_code == "FORBIDDEN"

    @pytest.mark.parametrize(
        "text", [b"{}", b"[]", b'{"error": 5}', b'{"entries": [], "error": {"code": "X", "message": "y"}}']
    )
    def test_refuses_what_is_no_answer(self, text):
        assert refusal(log.read_reply, text).wire_code == "INVALID_ARGUMENT"
