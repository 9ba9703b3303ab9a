"""The contacts of a node: what is stored, what is refused, and who may decide."""

import pytest

from comity.contacts.protocol.contact import BLOCKED, CONTACT_RIGHTS, ContactRights
from comity.contacts.service import MAX_CONTACTS, OUTSIDE
from comity.requests.caller import MODEL, OWN_PROCESS, UNKNOWN, own_user
from comity.wire.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from tests.callers import OWNER, signer, visitor
from tests.contacts.people import OWN, People, id_of

ANNA, BEN = id_of("anna"), id_of("ben")
PIN = "ab" * 32


async def _people(**settings):
    people = People(**settings)
    await people.open()
    return people, people.contacts


async def test_a_contact_is_found_by_name_and_id_in_every_spelling():
    _, contacts = await _people()
    anna = await contacts.add(
        "Anna", ANNA, caller=OWN_PROCESS, addresses=["https://anna.example"], pins=[PIN]
    )
    for spelled in ("Anna", "anna", "ＡＮＮＡ", ANNA, f"vacant:{ANNA}", anna.id.upper()):  # noqa: RUF001 - wide letters
        assert contacts.find(spelled) == anna, spelled
    assert contacts.find("ben") is None
    assert contacts.name_of(ANNA) == "Anna"
    assert str(anna) == f"Anna (vacant:{ANNA[:12]})"
    with pytest.raises(NotFoundError):
        contacts.require("ben")


async def test_contacts_are_there_again_after_a_restart():
    people, contacts = await _people()
    await contacts.add("anna", ANNA, caller=OWN_PROCESS, addresses=["https://anna.example"], pins=[PIN])
    await contacts.add("ben", BEN, caller=OWN_PROCESS)
    await contacts.rename("ben", "benjamin", caller=OWN_PROCESS)
    await contacts.limit("anna", {"call": "hold", "wake": "accept"}, caller=OWN_PROCESS)
    before = contacts.all()
    assert (await people.open()).all() == before
    assert [each.name for each in before] == ["anna", "benjamin"]
    assert before[0].rights == ContactRights(call="hold", wake="accept")


async def test_every_change_has_its_audit_entry():
    people, contacts = await _people()
    await contacts.add("anna", ANNA, caller=OWN_PROCESS)
    await contacts.rename("anna", "ann", caller=OWN_PROCESS)
    await contacts.limit("ann", {"call": "hold"}, caller=OWN_PROCESS)
    await contacts.reach("ann", caller=OWN_PROCESS, addresses=["https://anna.example"])
    await contacts.block("ann", caller=OWN_PROCESS)
    await contacts.block("ann", caller=OWN_PROCESS)  # changes nothing
    await contacts.remove("ann", caller=OWN_PROCESS)
    assert await people.results() == [
        "CONTACT_ADDED",
        "CONTACT_RENAMED",
        "CONTACT_LIMITED",
        "CONTACT_MOVED",
        "CONTACT_BLOCKED",
        "CONTACT_REMOVED",
    ]


async def test_one_name_and_one_id_belong_to_one_contact():
    _, contacts = await _people()
    await contacts.add("anna", ANNA, caller=OWN_PROCESS)
    with pytest.raises(ConflictError):
        await contacts.add("ＡＮＮＡ", BEN, caller=OWN_PROCESS)  # noqa: RUF001 - wide letters
    with pytest.raises(ConflictError):
        await contacts.add("ben", ANNA, caller=OWN_PROCESS)
    await contacts.add("ben", BEN, caller=OWN_PROCESS)
    with pytest.raises(ConflictError):
        await contacts.rename("ben", "ANNA", caller=OWN_PROCESS)
    assert (await contacts.rename("ben", "Ben", caller=OWN_PROCESS)).name == "Ben"
    assert contacts.free_name("anna") == "anna-2"
    await contacts.remove("anna", caller=OWN_PROCESS)
    assert contacts.free_name("anna") == "anna"
    await contacts.rename("ben", "anna", caller=OWN_PROCESS)


async def test_the_node_is_no_contact_of_itself():
    _, contacts = await _people()
    with pytest.raises(InvalidError):
        await contacts.add("me", OWN.vacant_id.hex(), caller=OWN_PROCESS)


async def test_two_processes_never_give_one_name_to_two_contacts():
    people, mine = await _people()
    other = People()
    other.disk, other.clock = people.disk, people.clock
    theirs = await other.open()
    await mine.add("anna", ANNA, caller=OWN_PROCESS)
    with pytest.raises(ConflictError):
        await theirs.add("Anna", BEN, caller=OWN_PROCESS)
    assert [each.id for each in theirs.all()] == [ANNA]
    await theirs.rename("anna", "ann", caller=OWN_PROCESS)
    await mine.limit(ANNA, {"call": "refuse"}, caller=OWN_PROCESS)
    assert mine.find("ann").rights.call == "refuse"


@pytest.mark.parametrize(
    "caller",
    [
        MODEL,
        UNKNOWN,
        visitor("eve"),
        signer(ANNA),
        *(own_user(kind, "", "token") for kind in ("act", "read", "browser")),
    ],
    ids=lambda caller: caller.kind,
)
async def test_nobody_but_the_owner_adds_contacts_or_raises_rights(caller):
    people, contacts = await _people()
    anna = await contacts.add("anna", ANNA, caller=OWN_PROCESS, rights=ContactRights(call="hold"))
    for attempt in (
        lambda: contacts.add("ben", BEN, caller=caller),
        lambda: contacts.limit("anna", {"call": "accept"}, caller=caller),
        lambda: contacts.limit("anna", {"wake": "hold", "call": "refuse"}, caller=caller),
        lambda: contacts.rename("anna", "ann", caller=caller),
        lambda: contacts.reach("anna", caller=caller, addresses=["https://eve.example"]),
        lambda: contacts.remove("anna", caller=caller),
    ):
        with pytest.raises(ForbiddenError):
            await attempt()
    assert contacts.all() == [anna]
    assert await people.results() == ["CONTACT_ADDED"]


async def test_a_model_may_lower_rights_and_a_visitor_may_not():
    _, contacts = await _people()
    await contacts.add("anna", ANNA, caller=OWNER)
    assert (await contacts.limit("anna", {"call": "hold"}, caller=MODEL)).rights.call == "hold"
    assert (await contacts.block("anna", caller=MODEL)).rights == BLOCKED
    with pytest.raises(ForbiddenError):
        await contacts.block("anna", caller=visitor("eve"))
    assert (await contacts.limit("anna", {"call": "accept"}, caller=OWNER)).rights.call == "accept"


@pytest.mark.parametrize("rights", [{}, {"call": "maybe"}, {"shout": "accept"}, {"call": "ACCEPT"}])
async def test_a_right_that_does_not_exist_is_refused(rights):
    _, contacts = await _people()
    await contacts.add("anna", ANNA, caller=OWN_PROCESS)
    with pytest.raises(InvalidError):
        await contacts.limit("anna", rights, caller=OWN_PROCESS)


@pytest.mark.parametrize(
    ("listener", "public", "rights"),
    [
        ("", False, ContactRights()),
        ("", True, ContactRights()),
        (OUTSIDE, True, ContactRights()),
        (OUTSIDE, False, ContactRights(call="hold", room="hold", file="hold", see="hold")),
    ],
)
async def test_what_unknown_callers_may_do_follows_from_the_door_and_the_card(listener, public, rights):
    _, contacts = await _people()
    contacts.is_public = lambda: public
    assert contacts.rights_of(ANNA, listener) == rights
    for right in CONTACT_RIGHTS:
        assert contacts.right_of(ANNA, right, listener) == getattr(rights, right)


async def test_the_owner_says_what_unknown_callers_may_do_at_every_door():
    _, contacts = await _people(unknown_call="refuse", unknown_see="hold")
    for listener in ("", OUTSIDE):
        assert contacts.right_of(ANNA, "call", listener) == "refuse"
        assert contacts.right_of(ANNA, "see", listener) == "hold"


@pytest.mark.parametrize("listener", ["", OUTSIDE])
async def test_a_contact_has_its_own_rights_at_every_door(listener):
    _, contacts = await _people(unknown_call="refuse")
    await contacts.add("anna", ANNA, caller=OWN_PROCESS)
    assert contacts.right_of(ANNA, "call", listener) == "accept"
    await contacts.block("anna", caller=OWN_PROCESS)
    assert contacts.rights_of(ANNA, listener) == BLOCKED
    await contacts.remove("anna", caller=OWN_PROCESS)
    assert contacts.right_of(ANNA, "call", listener) == "refuse"


async def test_when_a_contact_was_last_seen_is_stored_now_and_then():
    people, contacts = await _people()
    await contacts.add("anna", ANNA, caller=OWN_PROCESS)
    people.clock.time += 100
    contacts.touch(ANNA)
    contacts.touch(BEN)
    await contacts.flush()
    assert (await people.open()).find("anna").last == people.clock.now()
    people.contacts.right_of(ANNA, "call")
    people.clock.time += 5
    await people.contacts.flush()
    assert (await people.open()).find("anna").last == people.clock.now()


async def test_the_number_of_contacts_is_bounded(monkeypatch):
    _, contacts = await _people()
    monkeypatch.setattr("comity.contacts.service.MAX_CONTACTS", 2)
    await contacts.add("anna", ANNA, caller=OWN_PROCESS)
    await contacts.add("ben", BEN, caller=OWN_PROCESS)
    with pytest.raises(InvalidError):
        await contacts.add("eve", id_of("eve"), caller=OWN_PROCESS)
    assert MAX_CONTACTS >= 1000
