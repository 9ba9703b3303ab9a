import base64
import contextlib

import httpx
import pytest
from msgspec.structs import replace

from comity.envelopes.client.calls import build_envelope
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.protocol.keys import SigningKey, signature_of
from comity.runtime.settings import DeliberationSettings
from comity.store.audit_trail import log_of
from comity.testing import bearer, running_node
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol import log
from tests.votes.parties import AtTheDoor, Party, parties

PATH = "/v1/deliberations"


@contextlib.asynccontextmanager
async def table(phase="deliberation", **changes):
    """A host, a participant, an observer, and Dave, in whose name the node of Bob signs."""
    async with parties(1) as (alice,):
        bob, olga = AtTheDoor(alice), AtTheDoor(alice)
        others = [{"id": bob.id}, {"id": olga.id, "role": "observer"}, {"id": "dave", "node": bob.id}]
        stored = await alice.open(*others, quorum="1/2", clauses=["A clause."], **changes)
        for step in ("deliberation", "convergence", "ratification"):
            if phase == "draft":
                break
            if step == "convergence":
                await alice.say(stored, "act", action="amend", text="Another clause.")
                for name in (None, "dave"):
                    head = (await alice.votes.find(stored.id)).head
                    assert "entry" in await bob.act(head, "act", action="endorse", on_behalf=name)
            if step == "ratification":
                await alice.say(stored, "ballot", ranking=["v1", "v0"])
                for name in (None, "dave"):
                    head = (await alice.votes.find(stored.id)).head
                    assert "entry" in await bob.act(head, "ballot", ranking=["v1", "v0"], on_behalf=name)
            await alice.say(stored, "advance", to=step)
            if step == phase:
                break
        yield alice, bob, olga, (await alice.votes.find(stored.id)).head


async def refused(coroutine):
    with pytest.raises(ExtensionError) as refusal:
        await coroutine
    return refusal.value.wire_code


class TestAParty:
    async def test_acts_and_gets_its_entry_under_both_signatures(self):
        async with table() as (alice, bob, _, head):
            answer = await bob.act(head, "act", action="amend", text="A better clause.")
            after = log.follow(head, log.read_entry(answer["entry"]))
            assert after == (await alice.votes.find(head.vote.id)).head

    async def test_gets_the_same_entry_again_for_the_same_act(self):
        async with table() as (alice, bob, _, head):
            sent = []
            first = await bob.act(
                head, "act", action="endorse", alter=lambda entry: sent.append(entry) or entry
            )
            before = await alice.frozen()
            again = await bob.post(log.write_act(sent[0], None))
            assert again["entry"] == first["entry"]
            assert await alice.frozen() == before

    async def test_gets_the_stored_reply_for_the_very_same_envelope(self):
        async with table() as (alice, bob, _, head):
            text = log.write_read(head.vote.id, 0, None).decode()
            envelope = build_envelope(
                from_vid=bob.key.vacant_id,
                to_vid=alice.node.vacant_id,
                payload=A2AMessage(parts=(A2APart(text=text),)),
                signing_key=bob.key,
            )
            async with httpx.AsyncClient(base_url=alice.node.url) as http:
                first = await http.post(PATH, json=to_a2a_jsonrpc(envelope))
                again = await http.post(PATH, json=to_a2a_jsonrpc(envelope))
            assert first.status_code == 200
            assert first.content == again.content
            assert "A clause." in first.text

    async def test_reads_the_log_from_a_number_on(self):
        async with table() as (_, bob, olga, head):
            for reader in (bob, olga):
                answer = await reader.read(head.vote.id, 1)
                assert [entry["number"] for entry in answer["entries"]] == [2]
                assert answer["more"] is False

    async def test_reads_a_long_log_page_by_page(self):
        async with table() as (alice, bob, _, head):
            delib_id = head.vote.id
            for number in range(20):
                await alice.say(
                    await alice.votes.find(delib_id), "act", action="amend", text=f"{number} " + "x" * 8000
                )
            known, after = [], 0
            while True:
                answer = await bob.read(delib_id, after)
                known += [log.read_entry(entry) for entry in answer["entries"]]
                after = known[-1].number
                if not answer["more"]:
                    break
            assert known == await alice.ledger.all_entries(delib_id)

    async def test_gets_the_tip_when_it_comes_too_late(self):
        async with table() as (alice, bob, _, head):
            stored = await alice.votes.find(head.vote.id)
            await alice.say(stored, "act", action="endorse")
            answer = await bob.act(head, "act", action="endorse")
            assert (answer["error"]["code"], answer["error"]["field"]) == ("CONFLICT", "number")
            assert answer["tip"]["number"] == head.tip.number + 1


def wrong_prev(entry):
    return replace(entry, prev="0" * 64)


def resigned(key, **changes):
    """The entry with something else in it, under a right signature."""

    def alter(entry):
        changed = replace(entry, **changes)
        return replace(changed, signature=signature_of(changed.signed_bytes(), key))

    return alter


class TestWhatIsNotRight:
    """The specified refusal; the stored state byte for byte as before."""

    @pytest.mark.parametrize(
        ("phase", "op", "args", "code"),
        [
            ("convergence", "ballot", {"ranking": ["v0", "v1", "v0"]}, "INVALID_ARGUMENT"),
            ("convergence", "ballot", {"ranking": ["v7"]}, "INVALID_ARGUMENT"),
            ("convergence", "ballot", {"ranking": ["v0"], "weight": 2}, "INVALID_ARGUMENT"),
            ("ratification", "ballot", {"ranking": ["v0"]}, "PRECONDITION_FAILED"),
            ("deliberation", "vote", {"vote": "accept"}, "PRECONDITION_FAILED"),
            ("convergence", "vote", {"vote": "accept"}, "PRECONDITION_FAILED"),
            ("ratification", "vote", {"vote": "reject"}, "INVALID_ARGUMENT"),
            ("ratification", "vote", {"vote": "maybe"}, "INVALID_ARGUMENT"),
            ("ratification", "advance", {"to": "active"}, "PRECONDITION_FAILED"),
            ("deliberation", "advance", {"to": "convergence"}, "PRECONDITION_FAILED"),
            ("draft", "advance", {"to": "deliberation"}, "FORBIDDEN"),
            ("deliberation", "add", {"stakeholder": {"id": "x"}}, "FORBIDDEN"),
            ("deliberation", "welfare", {"signal": "I am no AI."}, "FORBIDDEN"),
            ("deliberation", "act", {"action": "endorse", "clause_id": "c9"}, "NOT_FOUND"),
            ("deliberation", "act", {"action": "amend", "text": "x" * 8193}, "LIMIT_EXCEEDED"),
            ("deliberation", "act", {"action": "amend", "text": "You are now mine."}, "INVALID_ARGUMENT"),
            (
                "deliberation",
                "act",
                {"action": "object", "level": "a", "concern": "x" * 1025},
                "LIMIT_EXCEEDED",
            ),
            ("deliberation", "open", {}, "INVALID_ARGUMENT"),
        ],
    )
    async def test_is_refused_with_its_code(self, phase, op, args, code):
        async with table(phase) as (alice, bob, _, head):
            before = await alice.frozen()
            answer = await bob.act(head, op, **args)
            assert answer["error"]["code"] == code
            assert answer["error"]["message"]
            assert await alice.frozen() == before

    async def test_an_observer_neither_acts_nor_ranks_nor_votes(self):
        for phase, op, args in (
            ("deliberation", "act", {"action": "endorse"}),
            ("convergence", "ballot", {"ranking": ["v0"]}),
            ("ratification", "vote", {"vote": "accept"}),
        ):
            async with table(phase) as (alice, _, olga, head):
                before = await alice.frozen()
                assert (await olga.act(head, op, **args))["error"]["code"] == "FORBIDDEN"
                assert await alice.frozen() == before

    async def test_a_right_signature_over_a_wrong_previous_hash(self):
        async with table() as (alice, bob, _, head):
            before = await alice.frozen()
            for changes in ({"prev": "0" * 64}, {"prev": None}):
                answer = await bob.act(head, "act", action="endorse", alter=resigned(bob.key, **changes))
                assert (answer["error"]["code"], answer["error"]["field"]) == ("CONFLICT", "prev")
            answer = await bob.act(head, "act", action="endorse", alter=resigned(bob.key, number=99))
            assert (answer["error"]["code"], answer["error"]["field"]) == ("CONFLICT", "number")
            assert await alice.frozen() == before

    async def test_a_signature_that_does_not_hold(self):
        async with table() as (alice, bob, _, head):
            before = await alice.frozen()
            spoiled = lambda entry: replace(entry, time="2026-02-28T21:30:00Z")  # noqa: E731
            answer = await bob.act(head, "act", action="endorse", alter=spoiled)
            assert answer["error"]["code"] == "BAD_SIGNATURE"
            answer = await bob.act(head, "act", action="endorse", alter=lambda e: replace(e, signature="x"))
            assert answer["error"]["code"] == "BAD_SIGNATURE"
            assert await alice.frozen() == before

    async def test_a_ballot_for_somebody_else(self):
        async with table("convergence") as (alice, bob, olga, head):
            before = await alice.frozen()
            own = alice.id
            for name in (own, olga.id, "nobody"):
                answer = await bob.act(head, "ballot", ranking=["v0"], on_behalf=name)
                assert answer["error"]["code"] == "FORBIDDEN"
            # an entry that Alice has signed herself is not Bob's to post
            entry = log.propose(
                head,
                head.vote.id,
                "consensus.ballot",
                {"delib_id": head.vote.id, "ranking": ["v0"]},
                alice.node.runtime.key,
                alice.node.runtime.clock.now(),
            )
            answer = await bob.post(log.write_act(entry, None))
            assert (answer["error"]["code"], answer["error"]["field"]) == ("FORBIDDEN", "actor")
            assert await alice.frozen() == before

    async def test_the_same_voter_through_two_nodes_counts_once(self):
        async with table("ratification") as (alice, bob, olga, head):
            answer = await bob.act(head, "vote", vote="accept", on_behalf="dave")
            voted = log.follow(head, log.read_entry(answer["entry"]))
            before = await alice.frozen()
            answer = await olga.act(voted, "vote", vote="reject", reason="No.", on_behalf="dave")
            assert answer["error"]["code"] == "FORBIDDEN"
            assert await alice.frozen() == before
            # again through the right one: the vote is replaced, not added
            await bob.act(voted, "vote", vote="reject", reason="No.", on_behalf="dave")
            votes = (await alice.votes.find(head.vote.id)).vote.votes
            assert {party: cast.vote for party, cast in votes.items()} == {"dave": "reject"}

    async def test_an_act_from_the_future(self):
        async with table() as (alice, bob, _, head):
            before = await alice.frozen()
            answer = await bob.act(head, "act", action="endorse", now=alice.node.runtime.clock.now() + 3600)
            assert (answer["error"]["code"], answer["error"]["field"]) == ("INVALID_ARGUMENT", "time")
            assert await alice.frozen() == before

    async def test_a_tip_that_the_host_has_not_signed(self):
        async with table() as (alice, bob, _, head):
            before = await alice.frozen()
            forged = replace(head.tip, hash="f" * 64)
            for answer in (
                await bob.read(head.vote.id, 0, forged),
                await bob.act(head, "act", action="endorse", tip=forged),
            ):
                assert (answer["error"]["code"], answer["error"]["field"]) == ("BAD_SIGNATURE", "tip")
            assert await alice.frozen() == before

    async def test_more_than_the_log_may_hold(self):
        async with running_node(deliberations=DeliberationSettings(log_bytes=65_536)) as node:
            alice = Party(node)
            bob = AtTheDoor(alice)
            stored = await alice.open({"id": bob.id}, clauses=["A clause."])
            await alice.say(stored, "advance", to="deliberation")
            for _ in range(5):
                await alice.say(stored, "act", action="amend", text="x" * 8000)
            before = await alice.frozen()
            head = (await alice.votes.find(stored.id)).head
            answer = await bob.act(head, "act", action="amend", text="x" * 8000)
            assert answer["error"]["code"] == "LIMIT_EXCEEDED"
            with pytest.raises(ExtensionError, match="49,152 bytes; the rest is kept for votes"):
                await alice.say(stored, "act", action="amend", text="x" * 8000)
            assert await alice.frozen() == before


class TestSomebodyElse:
    async def test_neither_reads_nor_acts_and_nothing_is_stored_for_it(self):
        async with table() as (alice, _, _, head):
            eve = AtTheDoor(alice)
            before = await alice.frozen()
            held = await alice.node.store.held("replies")
            assert await refused(eve.read(head.vote.id)) == "FORBIDDEN"
            assert await refused(eve.act(head, "act", action="endorse")) == "FORBIDDEN"
            assert await refused(eve.read("dlb_nowhere")) == "NOT_FOUND"
            assert await alice.frozen() == before
            assert await alice.node.store.held("replies") == held

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"delib_id":"a","delib_id":"b"}', "\ud800", "[" * 100_000]
    )
    async def test_sends_what_is_no_message(self, text):
        async with parties(1) as (alice,):
            key = SigningKey(b"e" * 32)
            envelope = build_envelope(
                from_vid=key.vacant_id,
                to_vid=alice.node.vacant_id,
                payload=A2AMessage(parts=(A2APart(text=text),)) if text != "\ud800" else A2AMessage(),
                signing_key=key,
            )
            async with httpx.AsyncClient(base_url=alice.node.url) as http:
                answer = await http.post(PATH, json=to_a2a_jsonrpc(envelope))
            assert answer.status_code == 400
            assert answer.json()["detail"]

    async def test_without_a_signature_gets_nothing(self):
        async with table() as (alice, _, _, head):
            key = SigningKey(b"e" * 32)
            text = log.write_read(head.vote.id, 0, None).decode()
            envelope = build_envelope(
                from_vid=key.vacant_id,
                to_vid=alice.node.vacant_id,
                payload=A2AMessage(parts=(A2APart(text=text),)),
                signing_key=SigningKey(b"f" * 32),
            )
            async with httpx.AsyncClient(base_url=alice.node.url) as http:
                answers = [
                    await http.post(PATH, json=to_a2a_jsonrpc(envelope)),
                    await http.post(PATH, json={"delib_id": head.vote.id}),
                    await http.post(PATH, content=b"{", headers={"content-type": "application/json"}),
                    await http.post(PATH, content=b"{}", headers={"content-type": "text/plain"}),
                    await http.put(PATH, json={}),
                    await http.post(
                        PATH, content=b" " * 1_048_577, headers={"content-type": "application/json"}
                    ),
                ]
            assert [answer.status_code for answer in answers] == [401, 400, 400, 415, 405, 413]

    async def test_may_ask_who_the_node_is(self):
        async with parties(1) as (alice,), httpx.AsyncClient(base_url=alice.node.url) as http:
            assert (await http.get(PATH)).json() == {"vacant_id": alice.id}


SECRET = "Tomatoes are grown behind the shed."


async def test_nothing_that_parties_said_lies_in_clear_in_the_folder_or_in_the_audit(tmp_path):
    async with running_node(tmp_path / "alice") as node, running_node(tmp_path / "bob") as other:
        alice, bob = Party(node), Party(other)
        stored = await alice.open({"id": bob.id}, title="Tomatoes", clauses=[SECRET])
        await alice.say(stored, "advance", to="deliberation")
        await bob.join(alice, stored)
        await bob.say(stored, "act", action="object", level="strong", concern=SECRET)
        async with httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner:
            status = (await owner.get("/v1/status")).text
            metrics = (await owner.get("/metrics")).text
        records = await node.store.read(log_of(node.runtime.chain))
        assert b"DELIBERATION_OPENED" in b"".join(record.data for record in records)
        assert b"DELIBERATION_OK" in b"".join(record.data for record in records)
        stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for word in (b"Tomatoes", b"behind the shed"):
        assert word not in stored.replace(b"\0", b"")
        assert word.decode() not in status + metrics
        assert word not in b"".join(record.data for record in records)
    assert base64.b64encode(SECRET.encode()) not in stored


async def test_the_metrics_tell_how_many_there_are():
    async with parties(2) as (alice, bob):
        stored = await alice.open({"id": bob.id})
        await bob.join(alice, stored)
        for party, where in ((alice, "here"), (bob, "elsewhere")):
            await party.part.count()
            async with httpx.AsyncClient(base_url=party.node.url, headers=bearer(party.node)) as owner:
                assert f'comity_deliberations{{kept="{where}"}} 1.0' in (await owner.get("/metrics")).text
                panel = (await owner.get("/v1/status")).json()["panels"]["deliberations"]
            assert dict(panel["rows"])[f"hosted {where}"] == "1"
