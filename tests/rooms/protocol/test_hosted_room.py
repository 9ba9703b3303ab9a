"""The record of a room that people are invited to: whatever is done to it, an invite lets in as many as it says, and a new epoch
begins whenever somebody must not know the secret any more.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from comity.rooms.protocol import hello
from comity.rooms.protocol.hello import JoinTokenError
from comity.rooms.protocol.hosted_room import HostedRoom
from comity.rooms.protocol.invite import invite_secret
from comity.rooms.protocol.membership import Epoch, Membership, RoomMembers
from comity.wire.errors import InvalidError, NotFoundError

NODE = b"n" * 32
NOW = 1_000_000.0
HOST, ANN, EVE = "0a" * 32, "aa" * 32, "ee" * 32


def room(**more):
    return HostedRoom(room="lab", room_id="r", password="p", epoch=Epoch(number=1, secret="01" * 32), **more)


def with_invite(before, uses=1, exp=int(NOW) + 1000):
    return before.with_invite(exp=exp, uses=uses, relay=None)


def shown(name, invite, place="lab", secret=None, node=None):
    """The token of Ann, or of somebody else by that name."""
    secret = secret or invite_secret(NODE, place, invite.n, invite.exp)
    node = node or {"eve": EVE}.get(name, ANN)
    return hello.mint(secret, room=place, stream_id=name, exp=invite.exp, nonce="join_0", n=invite.n, id=node)


def admit(before, node, token, name="ann", now=NOW, secret="02" * 32):
    return before.admit(node, name, token, NODE, now_ms=now, secret=secret)


def test_the_last_use_begins_an_epoch_and_the_others_do_not():
    one = with_invite(room(), uses=2)
    two = admit(one, ANN, shown("ann", one.invite))
    assert (two.epoch, two.invite.left) == (one.epoch, 1)
    three = admit(two, EVE, shown("eve", one.invite), "eve")
    assert (three.epoch.number, three.epoch.secret, three.invite) == (2, "02" * 32, None)
    assert three.ids == {ANN, EVE}


def test_a_member_is_known_without_another_use():
    one = with_invite(room())
    two = admit(one, ANN, shown("ann", one.invite))
    assert admit(two, ANN, None) is two


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (lambda invite: None, "join token required"),
        (lambda invite: "a.b.c", "invalid token format"),
        (lambda invite: shown("ann", invite, secret="00" * 32), "invalid token signature"),
        (lambda invite: shown("bob", invite), "join token stream mismatch"),
        (lambda invite: shown("ann", invite, "hall"), "invalid token signature"),
        (lambda invite: shown("ann", invite, node=EVE), "join token of another node"),
        (
            lambda invite: hello.mint("01" * 32, room="lab", stream_id="ann", exp=2**50, nonce="j", epoch=1),
            "you are not a member; ask the host for an invite",
        ),
    ],
)
def test_a_token_that_does_not_count_is_refused_with_its_reason(token, reason):
    one = with_invite(room())
    with pytest.raises(JoinTokenError) as refused:
        admit(one, ANN, token(one.invite))
    assert refused.value.message == reason


def test_an_invite_ends_by_the_clock_of_the_host():
    one = with_invite(room())
    with pytest.raises(JoinTokenError, match="expired"):
        admit(one, ANN, shown("ann", one.invite), now=one.invite.exp + 1.0)


def test_a_token_cannot_make_its_invite_last_longer():
    one = with_invite(room())
    longer = with_invite(room(), exp=int(NOW) + 9_000_000).invite
    token = shown("ann", longer, secret=invite_secret(NODE, "lab", one.invite.n, one.invite.exp))
    with pytest.raises(JoinTokenError, match="signature"):
        admit(one, ANN, token)


def test_the_invite_that_a_removed_member_knows_ends_with_it():
    one = with_invite(room(), uses=9)
    two = admit(one, ANN, shown("ann", one.invite))
    three, member = two.without("ann", "03" * 32)
    assert (member.id, three.invite, three.epoch.removed, three.ids) == (ANN, None, (ANN,), frozenset())
    four = with_invite(three, uses=2)
    with pytest.raises(JoinTokenError, match="used or revoked"):
        admit(four, ANN, shown("ann", one.invite))
    five = admit(four, ANN, shown("ann", four.invite))
    assert five.epoch.removed == ()
    assert five.epoch.number > four.epoch.number


def test_nobody_of_that_name_and_two_of_one_name_are_told_apart():
    one = with_invite(room(), uses=2)
    two = admit(admit(one, ANN, shown("ann", one.invite)), EVE, shown("ann", one.invite, node=EVE))
    with pytest.raises(NotFoundError, match="bob is not a member of the room lab; members: ann, ann"):
        two.without("bob", "03" * 32)
    with pytest.raises(InvalidError, match="name one by its id"):
        two.without("ann", "03" * 32)
    assert two.without(EVE, "03" * 32)[0].ids == {ANN}


class Hosting(RuleBasedStateMachine):
    """Against a model that counts: how many may still come, and which secrets somebody outside may know."""

    @initialize()
    def begin(self):
        self.room = room()
        self.left = 0
        self.invites = []
        self.known_outside = set()
        self.count = 1

    def secret(self):
        self.count += 1
        return f"{self.count:064x}"

    @rule(uses=st.integers(1, 3))
    def invite(self, uses):
        self.room = with_invite(self.room, uses)
        self.left = uses
        self.invites.append(self.room.invite)

    @rule(who=st.integers(0, 5), which=st.integers(0, 5))
    def come(self, who, which):
        if not self.invites:
            return
        invite = self.invites[which % len(self.invites)]
        node, name = f"{who:064x}", f"p{who}"
        was_member = node in self.room.ids
        may = was_member or (self.left > 0 and invite is self.invites[-1])
        try:
            self.room = admit(self.room, node, shown(name, invite, node=node), name, secret=self.secret())
        except JoinTokenError:
            assert not may
            return
        assert may
        self.left -= not was_member

    @rule()
    def revoke(self):
        if self.room.invite is not None:
            self.room = self.room.revoked(self.secret())
            self.left = 0

    @rule(who=st.integers(0, 5))
    def remove(self, who):
        if f"{who:064x}" in self.room.ids:
            self.known_outside.add(self.room.epoch.secret)
            self.room, _ = self.room.without(f"{who:064x}", self.secret())
            self.left = 0 if self.room.invite is None else self.left

    @invariant()
    def nobody_outside_knows_the_secret(self):
        if hasattr(self, "room"):
            assert self.room.epoch.secret not in self.known_outside
            assert not self.room.ids & set(self.room.epoch.removed)
            assert (self.room.invite.left if self.room.invite else 0) == self.left


TestHosting = Hosting.TestCase


# What members think of each other.


def members(own=ANN, epoch=None, known=()):
    return RoomMembers(
        Membership(host=HOST, n=1, secret="5e" * 32, exp=2**50),
        own,
        room="lab",
        stream_id="ann",
        epoch=epoch,
        members=frozenset(known),
    )


def of_epoch(number, secret="01" * 32, name="eve", node=EVE):
    return hello.mint(
        secret, room="lab", stream_id=name, exp=int(NOW) + 1000, nonce="join_0", epoch=number, id=node
    )


def test_a_guest_believes_the_host_by_its_id_and_others_by_the_epoch():
    guest = members(epoch=Epoch(number=3, secret="01" * 32, removed=("bb" * 32,)))
    assert guest.judge(HOST, None, "host", NOW, admitted=False) == "admitted"
    assert guest.judge(EVE, of_epoch(3), "eve", NOW, admitted=False) == "admitted"
    assert guest.judge(EVE, of_epoch(4), "eve", NOW, admitted=False) == "wait"
    stolen = of_epoch(3, node=ANN)
    for token, words in (
        (stolen, "another node"),
        (of_epoch(2), "older epoch"),
        (of_epoch(3, "02" * 32), "signature"),
        (None, "required"),
    ):
        with pytest.raises(JoinTokenError, match=words):
            guest.judge(EVE, token, "eve", NOW, admitted=False)
    for admitted in (True, False):
        with pytest.raises(JoinTokenError, match="removed"):
            guest.judge("bb" * 32, of_epoch(3), "eve", NOW, admitted=admitted)


def test_a_guest_without_an_epoch_shows_its_invite_and_waits_for_everybody_but_the_host():
    guest = members()
    assert not guest.may_greet
    assert hello.unproven_claims(guest.token(5, "join_0"))["n"] == 1
    assert guest.judge(EVE, of_epoch(1), "eve", NOW, admitted=False) == "wait"


def test_the_host_asks_its_record_about_whom_it_does_not_know():
    host = members(HOST, Epoch(number=3, secret="01" * 32), known=[ANN])
    assert host.judge(ANN, None, "ann", NOW, admitted=False) == "admitted"
    assert host.judge(EVE, of_epoch(3), "eve", NOW, admitted=False) == "ask"


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": "4"},
        {"epoch": True},
        {"epoch": 0},
        {"epoch": 2**53},
        {"secret": "x"},
        {"removed": "x"},
        {"removed": ["x"]},
        {"removed": [EVE] * 257},
        {"names": None},
        {"names": [5]},
        {"epoch": 2},
        {"secret": "02" * 32},
    ],
)
def test_news_of_an_epoch_that_no_host_sends_changes_nothing(change):
    guest = members(epoch=Epoch(number=3, secret="01" * 32))
    with pytest.raises(InvalidError):
        guest.read_news({**guest.news(), **change})


def test_the_news_of_a_host_are_read_once():
    host = members(HOST, Epoch(number=4, secret="04" * 32, removed=(EVE,)))
    guest = members(epoch=Epoch(number=3, secret="01" * 32))
    epoch, why, names = guest.read_news(host.news("removed", ("eve",)))
    assert (epoch, why, names) == (host.epoch, "removed", ("eve",))
    guest.epoch = epoch
    assert guest.read_news(host.news()) is None
    assert guest.read_news({**host.news("made up"), "epoch": 5})[1] is None
