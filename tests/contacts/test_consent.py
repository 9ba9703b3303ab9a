"""Consent to calls: who is answered, who waits, who is refused, and that none of it moves a chain."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from comity.contacts.held import (
    HELD_SECONDS,
    MAX_HELD,
    MAX_OF_ADDRESS,
    MAX_OF_CALLER,
    MAX_OF_CONTACT,
    MAX_OF_UNKNOWN,
    MAX_WORDS,
)
from comity.contacts.protocol.contact import BLOCKED, CONSENTS
from comity.contacts.service import OUTSIDE
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.queues import SERVE_BOOK, chain_of
from comity.requests.caller import MODEL, OWN_PROCESS
from comity.store.interface import scan_all
from comity.wire.errors import ForbiddenError, InvalidError, NotFoundError
from tests.callers import visitor
from tests.contacts.callers import Agent
from tests.envelopes.peers import SERVER, Caller

HOLD = {"detail": "waiting for the owner's consent", "code": "waits_for_consent"}
REFUSE = {"detail": "the owner does not accept calls from you", "code": "refused_by_owner"}
STATUS = {"accept": 200, "hold": 403, "refuse": 403}


@pytest.fixture
async def agent():
    return await Agent(unknown_call="hold").open()


async def _tip(agent, caller):
    return await agent.store.tip(chain_of(PairKey(caller.key.vacant_id, SERVER.vacant_id), SERVE_BOOK))


@pytest.mark.parametrize("listener", ["", OUTSIDE])
@pytest.mark.parametrize("consent", CONSENTS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("state", "unless"), [("ACTIVE", None), ("LOCAL", None), ("HIBERNATING", 423), ("SUNK", 410)]
)
async def test_the_table_of_callers_rights_doors_and_states(listener, consent, known, state, unless):
    agent = await Agent(listener=listener, state=state, unknown_call="refuse" if known else consent).open()
    caller = Caller("anna")
    if known:
        await agent.contacts.add("anna", caller.key.vacant_id.hex(), caller=OWN_PROCESS)
        await agent.contacts.limit("anna", {"call": consent}, caller=OWN_PROCESS)
    answer = await agent.call(caller.next())
    assert answer.status_code == (unless or STATUS[consent])
    if unless is None and consent != "accept":
        assert answer.json() == (HOLD if consent == "hold" else REFUSE)
        assert ("retry-after" in answer.headers) == (consent == "hold")
    ran = answer.status_code == 200
    assert (len(agent.runs), (await _tip(agent, caller)).seq) == (ran, ran)
    assert len(agent.held.waiting()) == (consent == "hold" and unless is None)


@pytest.mark.parametrize(
    ("public", "listener", "status"),
    [(True, OUTSIDE, 200), (False, OUTSIDE, 403), (True, "", 200), (False, "", 200)],
)
async def test_at_the_outside_door_unknown_callers_wait_unless_the_card_is_public(public, listener, status):
    agent = await Agent(listener=listener).open()
    agent.contacts.is_public = lambda: public
    assert (await agent.call(Caller("anna").next())).status_code == status


@pytest.mark.parametrize("rule", ["hold", "refuse"])
async def test_the_signature_is_checked_before_consent_and_consent_before_the_chain(rule):
    agent = await Agent(unknown_call=rule).open()
    caller = Caller("anna")
    good = caller.next()
    forged = (
        replace(good, caller_signature=bytes(64))
        if hasattr(good, "caller_signature")
        else replace(good, signature=bytes(64))
    )
    assert (await agent.call(forged)).status_code == 401
    assert agent.held.waiting() == []
    late = caller.next(sequence_no=9)
    assert (await agent.call(late)).status_code == 403
    await agent.contacts.add("anna", caller.key.vacant_id.hex(), caller=OWN_PROCESS)
    assert (await agent.call(late)).status_code == 409


async def test_a_held_call_is_shown_to_the_owner_and_tells_the_caller_nothing_more(agent):
    caller = Caller("anna")
    envelope = caller.next("hello\x1b[31m\u202e there " + "x" * 1000)
    first, again = await agent.call(envelope), await agent.call(envelope)
    assert first.content == again.content
    (held,) = (await agent.do("held"))["held"]
    assert held["sender"] == caller.key.vacant_id.hex()
    assert held["id"] == envelope.compute_hash().hex()
    assert held["words"].startswith("hello [31m  there x")
    assert len(held["words"]) <= MAX_WORDS
    assert await agent.results() == ["CALL_HELD"]


async def test_an_admitted_caller_runs_once_when_it_asks_again(agent):
    caller = Caller("anna")
    envelope = caller.next()
    assert (await agent.call(envelope)).json() == HOLD
    done = await agent.do("accept", caller.key.vacant_id.hex()[:12], name="anna")
    assert done["contact"]["name"] == "anna"
    assert [each["id"] for each in done["calls"]] == [envelope.compute_hash().hex()]
    assert agent.held.waiting() == []
    first, again = await agent.call(envelope), await agent.call(envelope)
    assert first.status_code == 200
    assert first.content == again.content
    assert agent.runs == ["hello"]
    assert (await agent.call(caller.next("more"))).status_code == 200


async def test_a_single_call_that_is_allowed_runs_once_and_its_sender_stays_unknown(agent):
    caller = Caller("anna")
    envelope = caller.next()
    await agent.call(envelope)
    await agent.do("accept", envelope.compute_hash().hex()[:12], once=True)
    assert agent.contacts.all() == []
    other = Caller("anna").next("another text with the same number")
    assert (await agent.call(other)).json() == HOLD
    first, again = await agent.call(envelope), await agent.call(envelope)
    assert (first.status_code, first.content) == (200, again.content)
    assert agent.runs == ["hello"]
    assert (await agent.call(caller.next())).json() == HOLD


@pytest.mark.parametrize("once", [True, False])
async def test_consent_and_what_waits_survive_a_restart(agent, once):
    caller = Caller("anna")
    envelope = caller.next()
    await agent.call(envelope)
    await agent.open()
    (held,) = agent.held.waiting()
    await agent.do("accept", held.id if once else held.sender, once=once)
    await agent.open()
    first = await agent.call(envelope)
    assert first.status_code == 200
    await agent.open()
    assert (await agent.call(envelope)).content == first.content
    assert agent.runs == ["hello"]


async def test_a_refused_caller_stays_refused_and_a_refused_call_too(agent):
    caller, other = Caller("anna"), Caller("ben")
    envelope, single = caller.next(), other.next()
    await agent.call(envelope)
    await agent.call(single)
    done = await agent.do("refuse", caller.key.vacant_id.hex())
    assert agent.contacts.find(done["contact"]["name"]).rights == BLOCKED
    assert (await agent.call(envelope)).json() == REFUSE
    assert (await agent.call(caller.next())).json() == REFUSE
    await agent.do("refuse", single.compute_hash().hex(), once=True)
    assert (await agent.call(single)).json() == REFUSE
    assert (await agent.call(other.next())).json() == HOLD
    assert agent.runs == []


async def test_a_blocked_contact_is_refused_though_one_of_its_calls_was_allowed(agent):
    caller = Caller("anna")
    await agent.contacts.add("anna", caller.key.vacant_id.hex(), caller=OWN_PROCESS)
    await agent.do("limit", "anna", rights={"call": "hold"})
    envelope = caller.next()
    await agent.call(envelope)
    await agent.do("accept", envelope.compute_hash().hex(), once=True)
    await agent.do("block", "anna")
    assert (await agent.call(envelope)).json() == REFUSE
    assert agent.runs == []


async def test_nothing_of_a_refused_caller_is_stored():
    agent = await Agent(unknown_call="refuse").open()
    for number in range(20):
        await agent.call(Caller(f"caller {number}").next())
    assert await agent.results() == []
    assert agent.held.waiting() == []
    assert [key async for key, _ in scan_all(agent.store, "held-calls")] == []


async def test_fifty_strangers_fill_their_share_and_contacts_are_still_held_and_answered(agent):
    anna, ben = Caller("anna"), Caller("ben")
    await agent.contacts.add("anna", anna.key.vacant_id.hex(), caller=OWN_PROCESS)
    await agent.contacts.add("ben", ben.key.vacant_id.hex(), caller=OWN_PROCESS)
    await agent.do("limit", "ben", rights={"call": "hold"})
    said = set()
    for number in range(50):
        stranger = Caller(f"stranger {number}")
        for text in range(MAX_OF_CALLER + 2):
            answer = await agent.call(stranger.next(f"{number} {text}"), address=f"192.0.2.{number}")
            said.add((answer.status_code, answer.content, answer.headers["retry-after"]))
    assert len(said) == 1  # whether the call was kept or not
    assert len(agent.held.waiting()) == MAX_OF_UNKNOWN
    assert len([key async for key, _ in scan_all(agent.store, "held-calls")]) == MAX_OF_UNKNOWN
    assert (await agent.call(anna.next())).status_code == 200
    assert (await agent.call(ben.next("let me in"))).json() == HOLD
    assert agent.held.waiting()[-1].words == "let me in"
    await agent.open()
    assert len(agent.held.waiting()) == MAX_OF_UNKNOWN + 1 < MAX_HELD


async def test_one_address_takes_a_small_share_however_many_keys_it_makes(agent):
    for number in range(MAX_OF_ADDRESS + 10):
        await agent.call(Caller(f"key {number}").next())
    assert len(agent.held.waiting()) == MAX_OF_ADDRESS


async def test_a_contact_has_a_share_too(agent):
    ben = Caller("ben")
    await agent.contacts.add("ben", ben.key.vacant_id.hex(), caller=OWN_PROCESS)
    await agent.do("limit", "ben", rights={"call": "hold"})
    for number in range(MAX_OF_CONTACT + 5):
        await agent.call(ben.next(f"call {number}"))
    assert len(agent.held.waiting()) == MAX_OF_CONTACT


async def test_what_waits_is_forgotten_after_a_week(agent):
    envelope = Caller("anna").next()
    await agent.call(envelope)
    agent.clock.time += HELD_SECONDS + 1
    assert agent.held.waiting() == []
    with pytest.raises(NotFoundError):
        await agent.do("accept", envelope.compute_hash().hex(), once=True)
    await agent.open()
    assert agent.held.waiting() == []


async def test_what_waits_is_encrypted_where_it_is_stored(agent):
    await agent.call(Caller("anna").next("a secret"))
    ((_, held),) = [row async for row in scan_all(agent.store, "held-calls")]
    assert b"secret" not in held.value


@dataclass
class Attempt:
    do: str
    once: bool = False


@pytest.mark.parametrize("caller", [MODEL, visitor("eve")], ids=["model", "visitor"])
@pytest.mark.parametrize("attempt", [Attempt("accept"), Attempt("accept", once=True), Attempt("refuse")])
async def test_no_model_and_no_visitor_admits_a_caller(agent, caller, attempt):
    envelope = Caller("anna").next()
    await agent.call(envelope)
    who = envelope.compute_hash().hex() if attempt.once else envelope.from_vacant_id.hex()
    with pytest.raises(ForbiddenError):
        await agent.do(attempt.do, who, once=attempt.once, caller=caller)
    assert (await agent.call(envelope)).json() == HOLD
    assert len(agent.held.waiting()) == 1


async def test_a_model_may_refuse_one_call_and_a_visitor_may_not(agent):
    envelope = Caller("anna").next()
    await agent.call(envelope)
    with pytest.raises(ForbiddenError):
        await agent.do("refuse", envelope.compute_hash().hex(), once=True, caller=visitor("eve"))
    await agent.do("refuse", envelope.compute_hash().hex(), once=True, caller=MODEL)
    assert (await agent.call(envelope)).json() == REFUSE


async def test_the_beginning_of_an_id_is_long_enough_and_means_one_call(agent):
    envelope = Caller("anna").next()
    await agent.call(envelope)
    with pytest.raises(InvalidError):
        await agent.do("accept", envelope.compute_hash().hex()[:7], once=True)
    for wrong in ("0123456789abcdef", "anna", ""):
        with pytest.raises(NotFoundError):
            await agent.do("accept", wrong)
