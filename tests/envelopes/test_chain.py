"""`comity chain show`: both books, of everybody or of one."""

import asyncio
import json

import pytest

from comity.identity.key_files import stored_vacant_id
from comity.runtime.system_clock import SystemClock
from comity.store.audit_trail import AuditTrail, HeadFile
from comity.store.interface import Advance, ChainKey, Tip
from comity.store.sqlite import SqliteStore


@pytest.fixture
def after_two_calls(comity, neighbourhood, data, tmp_path):
    """`data` has called the node of `there` twice."""
    there = tmp_path / "there"
    node = neighbourhood.node(there)
    for text in ("one", "two"):
        assert comity("call", node.url, text).code == 0
    return there


def peers(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["peers"]


def test_both_sides_see_the_same_chains_in_their_own_book(comity, data, after_two_calls):
    us, them = stored_vacant_id(data).hex(), stored_vacant_id(after_two_calls).hex()
    (called,) = peers(comity("chain", "show", "--json"))
    (caller,) = peers(comity("chain", "show", "--json", "--data", after_two_calls))
    assert (called["vacant_id"], caller["vacant_id"]) == (them, us)
    assert called["serve"] is None
    assert caller["call"] is None
    for way in ("requests", "replies"):
        assert called["call"][way] == caller["serve"][way]
        assert called["call"][way]["seq"] == 2
        assert len(bytes.fromhex(called["call"][way]["tip"])) == 32
    assert caller["serve"]["stored_replies"] == 2
    assert caller["serve"]["pending"] == 0
    assert (called["call"]["pending"], called["call"]["replies_lost"]) == (None, False)


def test_a_chain_of_calls_is_forgotten_and_begins_again(comity, data, after_two_calls, neighbourhood):
    them = stored_vacant_id(after_two_calls)
    refused = comity("chain", "forget", them.hex())
    assert (refused.code, "--yes" in refused.err) == (2, True)
    done = comity("chain", "forget", them.hex()[:8], "--yes")
    assert done.out == f"Deleted: the chain of 2 calls to {them}. The next call is number 1.\n"
    assert peers(comity("chain", "show", "--json")) == []
    assert "CALL_CHAIN_FORGOTTEN" in comity("audit", "tail", "--json").out
    assert comity("audit", "verify").code == 0
    again = comity("chain", "forget", them.hex(), "--yes")
    assert (again.code, "there is no chain" in again.err) == (1, True)


def test_an_agent_of_ours_leads_a_caller_who_forgot_back_to_where_they_were(comity, after_two_calls):
    (called,) = peers(comity("chain", "show", "--json"))
    comity("chain", "forget", called["vacant_id"], "--yes")
    card = json.loads(comity("card", "show", "--data", after_two_calls, "--json").out)
    assert comity("call", card["endpoint"], "three").code == 0
    (caller,) = peers(comity("chain", "show", "--json", "--data", after_two_calls))
    assert caller["serve"]["requests"]["seq"] == 3


def test_what_was_accepted_from_others_is_never_forgotten(comity, data, after_two_calls):
    us = stored_vacant_id(data)
    refused = comity("chain", "forget", us.hex(), "--yes", "--data", after_two_calls)
    assert (refused.code, "no chain of calls" in refused.err) == (1, True)
    (caller,) = peers(comity("chain", "show", "--json", "--data", after_two_calls))
    assert caller["serve"]["requests"]["seq"] == 2


def test_for_people_there_is_a_table_of_all_and_a_page_of_one(comity, data, after_two_calls):
    them = stored_vacant_id(after_two_calls).hex()
    (peer,) = peers(comity("chain", "show", "--json"))
    title, row = comity("chain", "show").out.splitlines()
    assert title.split() == ["peer", "book", "requests", "tip", "replies", "tip", "notes"]
    tips = [peer["call"][way]["tip"] for way in ("requests", "replies")]
    assert row.split() == [them[:12], "call", "2", tips[0][:12], "2", tips[1][:12]]
    for named in (
        them,
        them[:5],
        f"vacant:{them[:12]}",
        them.upper(),
        stored_vacant_id(after_two_calls).did_key(),
    ):
        page = comity("chain", "show", named).out
        assert page.startswith(f"peer  {them}\n\ncall: what this node asked of it\n")
        assert all(tip in page for tip in tips)
    theirs = comity("chain", "show", "--data", after_two_calls).out
    assert theirs.splitlines()[1].split()[-2:] == ["2", "kept"]
    page = comity("chain", "show", stored_vacant_id(data).hex(), "--data", after_two_calls).out
    assert "serve: what it asked of this node" in page
    assert "kept      2, given again" in page


def test_a_peer_that_is_not_there_is_refused(comity, after_two_calls):
    for named in ("ff" * 32, "zz", ""):
        outcome = comity("chain", "show", named)
        assert (outcome.code, outcome.out) == (1, "")
        assert "there is no chain with" in outcome.err


async def _write_chains(data, key, peers):
    head = HeadFile(data / "audit" / "main.head")
    store = await SqliteStore.open(data / "comity.db", SystemClock(), AuditTrail("main", key, head))
    own = key.vacant_id.hex()
    await store.commit(
        *(
            Advance(chain=ChainKey("serve", peer, own), expected=Tip(), to=Tip(1, b"\x01" * 32))
            for peer in peers
        )
    )
    await store.close()


def test_a_beginning_that_two_share_is_refused_and_a_long_list_is_cut_for_people(comity, data, identity):
    many = [f"{number:02x}" * 32 for number in range(60)]
    asyncio.run(_write_chains(data, identity, many))
    outcome = comity("chain", "show", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "16 ids begin with '0'; give more digits" in outcome.err
    assert comity("chain", "show", "01").code == 0
    lines = comity("chain", "show").out.splitlines()
    assert len(lines) == 1 + 50 + 1
    assert lines[-1] == "… and 10 more; --json shows all of them."
    assert [peer["vacant_id"] for peer in peers(comity("chain", "show", "--json"))] == many


def test_where_nobody_has_called_yet_nothing_is_made(comity, data, identity):
    before = sorted(data.iterdir())
    outcome = comity("chain", "show")
    assert (outcome.code, outcome.out) == (1, "")
    assert "start with `comity call`" in outcome.err
    assert sorted(data.iterdir()) == before


def test_a_store_without_chains_says_so(comity, record):
    record(1)
    assert comity("chain", "show").out == "No calls yet, in either direction.\n"
    assert peers(comity("chain", "show", "--json")) == []


def test_a_damaged_database_is_told_and_not_shown(comity, record, data):
    record(5)
    (data / "comity.db").write_bytes(b"not a database at all" * 500)
    outcome = comity("chain", "show")
    assert (outcome.code, outcome.out) == (1, "")
    assert "is damaged" in outcome.err


async def _change_the_end(data, key, chain, tip):
    """Behind the back of the program, and without an entry of its own."""
    head = HeadFile(data / "audit" / "main.head")
    store = await SqliteStore.open(data / "comity.db", SystemClock(), AuditTrail("main", key, head))
    now = await store.tip(chain)
    await store.commit(Advance(chain=chain, expected=now, to=Tip(now.seq, tip)))
    await store.close()


def test_both_sides_verify_their_chains(comity, data, after_two_calls):
    them = stored_vacant_id(after_two_calls).hex()
    assert comity("chain", "verify", them[:8]).out.splitlines()[1].split(maxsplit=1) == [
        them[:12],
        "sound; calls on record: 2, stored replies: 1",
    ]
    shown = json.loads(comity("chain", "verify", "--json", "--data", after_two_calls).out)
    (peer,) = shown["peers"]
    assert (shown["ok"], peer["vacant_id"]) == (True, stored_vacant_id(data).hex())
    assert (peer["calls"], peer["replies"]) == (2, 2)


def test_a_chain_whose_end_was_changed_is_bad_and_the_number_is_named(
    comity, data, identity, after_two_calls
):
    them = stored_vacant_id(after_two_calls).hex()
    chain = ChainKey("call", identity.vacant_id.hex(), them)
    asyncio.run(_change_the_end(data, identity, chain, bytes(range(32))))
    outcome = comity("chain", "verify", them)
    assert outcome.code == 1
    assert "BAD: call by us, number 2: the chains do not end on" in outcome.out
    shown = json.loads(comity("chain", "verify", "--json").out)
    assert (shown["ok"], shown["peers"][0]["book"], shown["peers"][0]["number"]) == (False, "call", 2)


def test_a_chain_that_began_again_is_sound(comity, after_two_calls):
    (called,) = peers(comity("chain", "show", "--json"))
    comity("chain", "forget", called["vacant_id"], "--yes")
    card = json.loads(comity("card", "show", "--data", after_two_calls, "--json").out)
    assert comity("call", card["endpoint"], "three").code == 0
    assert comity("chain", "verify").code == 0
    assert comity("chain", "verify", "--data", after_two_calls).code == 0


def test_where_there_is_no_chain_nothing_is_verified(comity, record):
    record(1)
    assert comity("chain", "verify").out == "No calls yet, in either direction.\n"
