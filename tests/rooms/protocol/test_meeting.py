"""Staying in a room and joining its peers: one machine by hand."""

import json

import pytest

from comity.rooms.protocol.effects import (
    AddCandidates,
    AttemptBegun,
    AttemptFailed,
    Dial,
    GiveUp,
    HangUp,
    MakeAnswer,
    MakeOffer,
    Notify,
    SendToRelay,
    SignallingFault,
    SignallingLost,
    SignallingProblem,
    SignallingReady,
    TakeAnswer,
)
from comity.rooms.protocol.meeting import (
    CONNECT_SECONDS,
    EARLY_SECONDS,
    LISTING_SECONDS,
    MAX_PENDING,
    Attending,
    Meeting,
)
from comity.rooms.protocol.signalling import (
    Candidates,
    Described,
    IceCandidate,
    Listed,
    RoomCipher,
    effective_password,
    read_message,
    write_candidates,
    write_description,
)
from comity.testing.links import Randomness
from comity.testing.vectors import format_runner

CIPHER = RoomCipher("secret")
ADDRESS = IceCandidate("candidate:1 1 udp 1 192.0.2.1 1 typ host", "0", 0)


class Hand:
    """A machine, and what it wanted since it was last asked."""

    def __init__(self, stream="me", **more):
        attending = Attending(room="room", stream=stream, cipher=CIPHER, **more)
        self.machine = Meeting(attending, Randomness(1).bytes)
        self.now = 100.0

    def hears(self, **message):
        return self.machine.receive(json.dumps(message).encode(), self.now)

    def joins(self, *peers):
        self.machine.dial()
        self.machine.connected(self.now)
        listing = [{"UUID": uuid, "streamID": CIPHER.stream_id(stream)} for uuid, stream in peers]
        return self.hears(request="listing", list=listing)

    def hears_offer(self, uuid="u", session="s", stream="other", ticket=None, sdp="offer"):
        described = Described(uuid=uuid, session=session, kind="offer", sdp=sdp, stream=stream, ticket=ticket)
        return self.machine.receive(write_description(described, CIPHER, bytes(16)), self.now)

    def hears_answer(self, session, uuid="u", sdp="answer"):
        described = Described(uuid=uuid, session=session, kind="answer", sdp=sdp, stream="me", ticket=None)
        return self.machine.receive(write_description(described, CIPHER, bytes(16)), self.now)

    def hears_candidates(self, session, count=1, uuid="u"):
        outcome = Candidates(uuid, session, (ADDRESS,) * count)
        return self.machine.receive(write_candidates(outcome, "remote", CIPHER, bytes(16)), self.now)

    def later(self, seconds):
        self.now += seconds
        return self.machine.tick(self.now)


def spoken(effects):
    return [json.loads(effect.text) for effect in effects if isinstance(effect, SendToRelay)]


def news(effects):
    return [effect.notice for effect in effects if isinstance(effect, Notify)]


def work(effects):
    """What is to be done, without what is told."""
    return [effect for effect in effects if not isinstance(effect, Notify)]


def test_it_joins_seeds_and_plays_what_is_there():
    hand = Hand()
    assert hand.machine.dial() == [Dial()]
    assert spoken(hand.machine.connected(hand.now)) == [
        {"request": "joinroom", "roomid": CIPHER.room_id("room")}
    ]
    hand.machine.view("other", hand.now)
    effects = hand.hears(request="listing", list=[{"UUID": "u", "streamID": CIPHER.stream_id("other")}])
    assert news(effects) == [SignallingReady((Listed("u", "other"),))]
    assert spoken(effects) == [
        {"request": "seed", "streamID": CIPHER.stream_id("me")},
        {"request": "play", "streamID": CIPHER.stream_id("other")},
    ]


def test_what_comes_later_is_played_when_it_comes():
    hand = Hand()
    hand.machine.view("other", hand.now)
    assert len(spoken(hand.joins())) == 1
    hand.hears(request="videoaddedtoroom", UUID="u", streamID=CIPHER.stream_id("other"))
    assert spoken(hand.later(0.1))[0]["request"] == "play"


def test_its_own_stream_is_never_viewed():
    hand = Hand()
    hand.joins(("u", "me"))
    assert hand.machine.view("me", hand.now) == []


def test_who_plays_our_stream_gets_an_offer_and_its_answer_is_taken():
    hand = Hand()
    hand.joins()
    begun, made = hand.hears(request="offerSDP", UUID="u")
    assert begun == Notify(AttemptBegun(1, "u"))
    assert isinstance(made, MakeOffer)
    (offer,) = spoken(hand.machine.described(made.attempt, "our sdp", "ticket", hand.now))
    assert list(offer) == ["UUID", "session", "streamID", "description", "vector"]
    outcome = read_message(json.dumps(offer).encode(), CIPHER)
    assert (outcome.uuid, outcome.kind, outcome.sdp, outcome.stream, outcome.ticket) == (
        "u",
        "offer",
        "our sdp",
        "me",
        "ticket",
    )
    assert len(outcome.session) == 8
    assert hand.hears_candidates(outcome.session) == []
    assert hand.hears_answer(outcome.session) == [
        TakeAnswer(made.attempt, "answer"),
        AddCandidates(made.attempt, (ADDRESS,)),
    ]
    assert hand.hears_candidates(outcome.session) == [AddCandidates(made.attempt, (ADDRESS,))]
    assert hand.hears_answer(outcome.session, sdp="again") == []
    assert hand.hears_answer("other session") == []


def test_an_offer_that_was_asked_for_is_answered_with_its_early_candidates():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    assert hand.hears_candidates("s", 2) == []
    assert hand.hears_offer(ticket="t") == [
        Notify(AttemptBegun(1, "u")),
        MakeAnswer(1, "offer", "t"),
        AddCandidates(1, (ADDRESS, ADDRESS)),
    ]
    (answer,) = spoken(hand.machine.described(1, "sdp", None, hand.now))
    assert read_message(json.dumps(answer).encode(), CIPHER).kind == "answer"


def test_an_offer_that_nobody_asked_for_is_a_fault():
    hand = Hand()
    hand.joins(("u", "other"))
    (fault,) = news(hand.hears_offer())
    assert isinstance(fault, SignallingFault)
    hand.machine.view("other", hand.now)
    hand.hears_offer()
    assert isinstance(news(hand.hears_offer(session="second"))[0], SignallingFault)
    assert hand.hears_offer(stream="third", session="x") == [Notify(fault)]


def test_early_candidates_are_forgotten_after_a_while():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    hand.hears_candidates("s")
    hand.later(EARLY_SECONDS)
    assert work(hand.hears_offer()) == [MakeAnswer(1, "offer", None)]


def test_candidates_leave_in_bundles_after_the_description():
    hand = Hand()
    hand.joins()
    hand.hears(request="offerSDP", UUID="u")
    hand.machine.found(1, ADDRESS, hand.now)
    assert hand.machine.next_at == hand.now + CONNECT_SECONDS
    hand.machine.described(1, "sdp", None, hand.now)
    hand.machine.found(1, ADDRESS, hand.now)
    (bundle,) = spoken(hand.later(0.07))
    assert list(bundle) == ["UUID", "type", "candidates", "session", "vector"]
    assert bundle["type"] == "local"
    assert len(read_message(json.dumps(bundle).encode(), CIPHER).candidates) == 2
    hand.machine.found(1, ADDRESS, hand.now)
    assert spoken(hand.later(0.07)) == []
    assert len(spoken(hand.later(0.08))) == 1


def test_more_than_100_candidates_of_a_peer_are_refused():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    hand.hears_offer()
    assert len(hand.hears_candidates("s", 99)[0].candidates) == 99
    added, fault = hand.hears_candidates("s", 2)
    assert len(added.candidates) == 1
    assert fault.notice == SignallingFault("a peer sent more than 100 candidates")
    assert [type(effect) for effect in hand.hears_candidates("s", 2)] == [Notify]


def test_an_attempt_that_does_not_connect_is_given_up_and_the_view_tried_again():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    hand.hears_offer()
    effects = hand.later(CONNECT_SECONDS)
    assert isinstance(effects[0], GiveUp)
    (failed,) = news(effects)
    assert isinstance(failed, AttemptFailed)
    assert "20 seconds" in failed.reason
    assert spoken(hand.later(3.9)) == []
    assert spoken(hand.later(0.1))[0]["request"] == "play"


def test_a_link_that_ends_is_asked_for_again_and_less_often_when_it_keeps_ending():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    waits = []
    for number in range(1, 7):
        hand.hears_offer(session=f"s{number}")
        hand.machine.link_opened(number, hand.now)
        assert hand.machine.failed(number, "ended", hand.now) == []
        waits.append(hand.machine.next_at - hand.now)
        assert spoken(hand.later(waits[-1]))[0]["request"] == "play"
    assert waits == [4, 8, 16, 30, 30, 30]
    hand.hears_offer(session="steady")
    hand.machine.link_opened(7, hand.now)
    hand.later(60)
    hand.machine.failed(7, "ended", hand.now)
    assert hand.machine.next_at - hand.now == 2


def test_losing_the_relay_gives_no_link_up_and_plays_nothing_that_is_linked():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    hand.hears_offer()
    hand.machine.link_opened(1, hand.now)
    effects = hand.machine.disconnected("gone", hand.now)
    (down,) = news(effects)
    assert isinstance(down, SignallingLost)
    assert len(effects) == 1
    assert 2.4 <= down.retry_in <= 3.0
    assert hand.later(down.retry_in) == [Dial()]
    again = hand.joins(("new", "other"))
    assert [message["request"] for message in spoken(again)] == ["seed"]
    assert hand.machine.attempt(1) is not None


def test_the_relay_is_tried_less_and_less_often():
    hand = Hand(first_delay=1.0, longest_delay=5.0)
    hand.machine.dial()
    waits = [news(hand.machine.disconnected("no", hand.now))[0].retry_in for _ in range(5)]
    for wait, step in zip(waits, [1, 2, 4, 5, 5], strict=True):
        assert 0.8 * step <= wait <= step
    hand.joins()
    assert news(hand.machine.disconnected("no", hand.now))[0].retry_in <= 1.0


def test_a_relay_that_is_dialled_or_reached_is_not_dialled_again():
    hand = Hand()
    assert hand.machine.dial() == [Dial()]
    assert hand.machine.dial() == []
    hand.machine.connected(hand.now)
    assert hand.machine.dial() == []
    (down,) = news(hand.machine.disconnected("lost", hand.now))
    assert down.reason == "lost"
    assert hand.machine.dial() == [Dial()]


def test_it_can_be_told_to_come_back_before_its_time():
    hand = Hand()
    hand.joins()
    hand.machine.disconnected("lost", hand.now)
    assert hand.machine.dial() == [Dial()]
    assert hand.later(100) == []


def test_a_relay_that_does_not_answer_is_hung_up_on():
    hand = Hand()
    hand.machine.connected(hand.now)
    assert isinstance(hand.later(LISTING_SECONDS)[0], HangUp)


def test_a_room_that_is_refused_is_told_and_tried_later():
    hand = Hand()
    hand.machine.connected(hand.now)
    effects = hand.hears(request="error", message="the room is full", code="ROOM_FULL")
    assert effects == [Notify(SignallingProblem("the room is full", "ROOM_FULL")), HangUp("the room is full")]


def test_a_stream_id_that_is_taken_is_told_and_tried_again():
    hand = Hand()
    hand.joins()
    effects = hand.hears(request="alert", message="Stream ID is already in use.")
    taken = "the stream id me is already in use by another peer of the room"
    assert effects == [Notify(SignallingProblem(taken, "STREAMID_IN_USE"))]
    assert spoken(hand.later(2))[0]["request"] == "seed"
    hand.hears(request="alert", message="Stream ID is already in use.")
    assert spoken(hand.later(2)) == []
    assert spoken(hand.later(2))[0]["request"] == "seed"


def test_a_peer_that_left_the_relay_is_not_waited_for():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    hand.hears_offer()
    effects = hand.hears(request="error", code="PEER_GONE", message="gone", UUID="u")
    assert isinstance(effects[0], GiveUp)
    assert hand.hears(request="error", code="PEER_GONE", message="gone", UUID="x") == []


def test_a_peer_that_asks_again_replaces_what_is_under_way_and_not_what_is_open_until_it_opens():
    hand = Hand()
    hand.joins()
    hand.hears(request="offerSDP", UUID="u")
    effects = work(hand.hears(request="offerSDP", UUID="u"))
    assert effects == [GiveUp(1, "the peer asked again"), MakeOffer(2)]
    assert hand.machine.link_opened(2, hand.now) == []
    assert work(hand.hears(request="offerSDP", UUID="u")) == [MakeOffer(3)]
    assert hand.machine.link_opened(3, hand.now) == [GiveUp(2, "the peer has a newer link")]


def test_asking_for_offers_is_limited():
    hand = Hand()
    hand.joins()
    answers = [hand.hears(request="offerSDP", UUID="u") for _ in range(12)]
    assert [isinstance(answer[-1], MakeOffer) for answer in answers] == [True] * 10 + [False] * 2
    for number in range(MAX_PENDING + 5):
        hand.hears(request="offerSDP", UUID=f"flood {number}")
    pending = sum(hand.machine.attempt(number) is not None for number in range(100))
    assert pending == MAX_PENDING


def test_links_are_limited():
    hand = Hand(most_links=2)
    hand.joins()
    for number in range(4):
        hand.hears(request="offerSDP", UUID=f"u{number}")
        hand.machine.link_opened(number + 1, hand.now)
    assert [hand.machine.attempt(number) is not None for number in (1, 2, 3, 4)] == [True, True, False, False]


def test_leaving_gives_everything_up_and_says_so():
    hand = Hand()
    hand.joins()
    hand.hears(request="offerSDP", UUID="u")
    effects = hand.machine.stop("bye")
    assert effects[0] == GiveUp(1, "bye")
    assert spoken(effects) == [{"leave": True}]
    assert effects[-1] == HangUp("bye")
    assert hand.machine.disconnected("x", hand.now) == []
    assert hand.machine.next_at is None


def test_what_is_no_longer_viewed_is_given_up():
    hand = Hand()
    hand.machine.view("other", hand.now)
    hand.joins(("u", "other"))
    hand.hears_offer()
    assert hand.machine.unview("other") == [GiveUp(1, "no longer wanted")]
    assert hand.machine.unview("other") == []
    assert hand.machine.failed(1, "closed", hand.now) == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"\xff" * 10,
        b"[" * 100_000,
        b'{"request":"offerSDP"}',
        b'{"UUID":"u","description":"00","vector":"11"}',
    ],
)
def test_garbage_is_a_fault_and_nothing_else(text):
    hand = Hand()
    hand.joins()
    assert [type(item) for item in news(hand.machine.receive(text, hand.now))] == [SignallingFault]


def test_candidates_on_the_channel_are_taken_too():
    hand = Hand()
    hand.joins()
    hand.hears(request="offerSDP", UUID="u")
    (offer,) = spoken(hand.machine.described(1, "sdp", None, hand.now))
    hand.hears_answer(offer["session"])
    outcome = json.loads(write_candidates(Candidates("u", "s", (ADDRESS,)), "remote", CIPHER, bytes(16)))
    assert hand.machine.receive_on_channel(1, outcome) == [AddCandidates(1, (ADDRESS,))]
    assert hand.machine.receive_on_channel(1, {"ping": 1}) == []
    assert hand.machine.receive_on_channel(9, outcome) == []


def recorded_signalling(content):
    yield "WebSocket", {"lines": [line for line in content if line["via"] == "WebSocket"]}


@format_runner("peers", "tap_a", "tap_b", cases=recorded_signalling)
def test_vector_peers_a_recorded_peer_says_the_same_to_the_relay(case):
    """What came in is fed in; what went out has the same members in the same order, and the same ids (ruling 64)."""
    out = [line["msg"] for line in case["lines"] if line["dir"] == "OUT"]
    cipher = RoomCipher(effective_password(None))
    stream = cipher.clear_stream(out[1]["streamID"])
    machine = Meeting(Attending(room="lab_1", stream=stream, cipher=cipher), Randomness(1).bytes)
    if len(out) == 5:  # the one that views the other
        machine.view("agent_a", 0.0)
    machine.dial()
    said = spoken(machine.connected(0.0))
    for line in case["lines"]:
        if line["dir"] == "IN":
            effects = machine.receive(json.dumps(line["msg"]).encode(), 0.0)
            said += spoken(effects)
            for effect in effects:
                if isinstance(effect, MakeOffer | MakeAnswer):
                    said += spoken(machine.described(effect.attempt, "v=0", None, 0.0))
                    machine.found(effect.attempt, ADDRESS, 0.0)
    said += spoken(machine.tick(1.0))
    assert [list(message) for message in said] == [list(message) for message in out]
    fixed = ("request", "roomid", "streamID", "UUID", "type")
    for mine, theirs in zip(said, out, strict=True):
        assert [mine.get(name) for name in fixed] == [theirs.get(name) for name in fixed]
