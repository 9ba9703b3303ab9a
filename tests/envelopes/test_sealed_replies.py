"""Stored replies and requests are sealed: nobody reads them from a copy of the database, and old ones are still given."""

import itertools
import json
import shutil

import httpx
import msgspec
import pytest

import comity
from comity.envelopes.client.pair import CALL_SPACE, AnsweredCall, PairRecord
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc, to_a2a_message
from comity.envelopes.queues import chain_of
from comity.envelopes.sealing import ReplyVault
from comity.identity.secrets import VAULT_KEY_FILE
from comity.runtime.settings import AgentSettings
from comity.runtime.upkeep import Limits
from comity.store.interface import Delete, KeepReply, Put
from comity.testing import running_node
from comity.wire import strict_json
from comity.wire.errors import ConflictError
from tests.envelopes.peers import Caller
from tests.waiting import eventually

AGENT = AgentSettings(behaviour="echo")
SECRET = "the cat sleeps in the piano"


async def post(node, body):
    async with httpx.AsyncClient(base_url=node.url) as client:
        return await client.post("/a2a/message/send", json=body)


def bytes_of(data):
    return b"".join(file.read_bytes() for file in data.glob("comity.db*"))


async def test_what_was_said_is_in_no_file_of_either_side(tmp_path):
    async with running_node(tmp_path / "there", agent=AGENT) as node:
        async with comity.Client(data=tmp_path / "me") as client:
            reply = await client.call(node.url, SECRET, idempotency_key="order-17")
        assert SECRET in reply.text
        for data in ("there", "me"):
            assert (tmp_path / data / "comity.db").is_file()
            assert SECRET.encode() not in bytes_of(tmp_path / data)
            assert b"order-17" not in bytes_of(tmp_path / data)


async def test_a_reply_that_an_earlier_release_stored_is_given_again_byte_for_byte(tmp_path):
    async with running_node(tmp_path / "data", agent=AGENT) as node:
        caller = Caller(to_vid=node.vacant_id)
        body = to_a2a_jsonrpc(caller.next("hello"))
        first = await post(node, body)
        store, chain = node.runtime.store, chain_of(PairKey(caller.key.vacant_id, node.vacant_id))
        row = await store.reply(chain, 1)
        plain = ReplyVault(node.runtime.current_vault).open(chain, 1, row.reply)
        assert json.loads(plain) == first.json()["result"]["message"]
        await store.commit(KeepReply(chain=chain, seq=1, digest=row.digest, reply=plain, at=row.at))
        assert (await post(node, body)).content == first.content
        await node.runtime.find(Limits)._tend_replies()
        sealed = (await store.reply(chain, 1)).reply
        assert (sealed.startswith(b"enc:"), (await post(node, body)).content) == (True, first.content)


async def test_without_its_key_a_node_refuses_calls_before_the_agent_works(tmp_path):
    async with running_node(tmp_path / "data", agent=AGENT) as node:
        caller = Caller(to_vid=node.vacant_id)
        body = to_a2a_jsonrpc(caller.next("hello"))
        first = await post(node, body)
        key = tmp_path / "data" / VAULT_KEY_FILE
        shutil.move(key, tmp_path / "elsewhere")
        assert (await post(node, body)).status_code == 503, "a sealed reply was given without the key"

        numbers = itertools.count()

        async def is_refused():
            other = Caller(f"other {next(numbers)}", to_vid=node.vacant_id)
            return (await post(node, to_a2a_jsonrpc(other.next("more")))).status_code == 500

        await eventually(is_refused, 30, 0.05, "a call was taken although its reply cannot be sealed")
        shutil.move(tmp_path / "elsewhere", key)
        assert (await post(node, body)).content == first.content


@pytest.mark.parametrize("keyed", ["answered", "unanswered"])
async def test_a_call_that_an_earlier_release_stored_keeps_its_reply(tmp_path, keyed):
    """As version 0.1.0 stored it: in the record of the pair, as it was sent."""
    async with running_node(tmp_path / "there", agent=AGENT) as node:
        async with comity.Client(data=tmp_path / "me") as client:
            first = await client.call(node.url, SECRET, idempotency_key="k")
            name = f"{client.vacant_id.hex()}:{node.vacant_id.hex()}"
            request = strict_json.dumps(to_a2a_jsonrpc(first.request))
            result = {"jsonrpc": "2.0", "id": "k", "result": {"message": to_a2a_message(first.envelope)}}
            old = (
                PairRecord(answered=AnsweredCall(request, strict_json.dumps(result)))
                if keyed == "answered"
                else PairRecord(pending=request)
            )
            store = client._store
            for key, held in await store.scan("call-keys"):
                assert held.value.startswith(b"enc:"), key
                await store.commit(Delete(space="call-keys", key=key))
            await store.commit(Put(space=CALL_SPACE, key=name, value=msgspec.msgpack.encode(old)))
        async with comity.Client(data=tmp_path / "me") as client:
            await client.call(node.url, "another call")
            again = await client.call(node.url, SECRET, idempotency_key="k")
            assert (again.text, again.number) == (first.text, 1)
            with pytest.raises(ConflictError, match="was used for another message"):
                await client.call(node.url, "other content", idempotency_key="k")
            record = msgspec.msgpack.decode(
                (await client._store.get(CALL_SPACE, name)).value, type=PairRecord
            )
            assert (record.pending, record.answered) == (b"", None)
