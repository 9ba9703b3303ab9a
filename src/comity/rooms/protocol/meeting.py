"""Staying in a room, and joining its peers by links: what to send to the relay, and when (peers 6, 7).

- We join, seed our stream and play the streams that we view. A peer that plays ours gets an offer; one that offers what we
  asked for gets an answer. One attempt is one link with one session id; what belongs to no attempt is ignored.
- Losing the relay ends no link. We come back after a while, twice as long each time, and play again only what has
  no link. A link that ends is asked for again in the same way.
- Candidates that come before their description wait for it. Those that we find leave in bundles.
- Attempts, candidates, descriptions and waiting times are limited; how often a peer may ask for an offer, too.

The machine holds no link and no socket. It gets events and returns what to do:
`Dial`, `SendToRelay`, `HangUp` for the relay; `MakeOffer`, `MakeAnswer`, `TakeAnswer`, `AddCandidates`, `GiveUp` for the
link of an attempt; `Notify` for the user of the room. Time and randomness come in.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from comity.rooms.protocol import signalling
from comity.rooms.protocol.effects import (
    AddCandidates,
    AttemptBegun,
    AttemptFailed,
    Dial,
    GiveUp,
    HangUp,
    MakeAnswer,
    MakeOffer,
    MeetingEffect,
    Notify,
    PeerSeen,
    SendToRelay,
    SignallingFault,
    SignallingLost,
    SignallingProblem,
    SignallingReady,
    TakeAnswer,
)
from comity.rooms.protocol.signalling import IceCandidate, Listed, RoomCipher
from comity.wire.errors import ComityError
from comity.wire.rate_limit import RateLimiter

LISTING_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 20.0
EARLY_SECONDS: Final = 15.0
STEADY_SECONDS: Final = 10.0
VIEW_SECONDS: Final = (2.0, 30.0)
PLAY_AFTER_ADDED: Final = 0.1
BUNDLE_SECONDS: Final = (0.07, 1.0)
MAX_PENDING: Final = 16
MAX_EARLY: Final = 16
MAX_PEERS: Final = 1000
OFFERS, OFFERS_PER_SECONDS = 10, 60.0

_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Attending(Struct, frozen=True, kw_only=True):
    """Where we are and as whom, in clear. A lost relay is dialled again after `first_delay` seconds, later after
    twice as long each time.
    """

    room: str
    stream: str
    cipher: RoomCipher
    first_delay: float = 3.0
    longest_delay: float = 30.0
    most_links: int = 80


class Attempt:
    """One link, from the first message about it until it is closed."""

    def __init__(self, uuid: str, session: str, stream: str, now: float, *, offering: bool) -> None:
        self.uuid = uuid
        self.session = session
        self.stream = stream
        self.offering = offering
        self.since = now
        self.opened_at: float | None = None
        self.described = False
        self.remote_known = not offering
        self.candidates_taken = 0
        self.early: list[IceCandidate] = []
        self.found: list[IceCandidate] = []
        self.bundle_at: float | None = None
        self.bundle_step = BUNDLE_SECONDS[0]

    @property
    def role(self) -> Literal["local", "remote"]:
        """Of our candidates, as the protocol names it."""
        return "local" if self.offering else "remote"


class _View:
    def __init__(self) -> None:
        self.attempt: int | None = None
        self.asked = False
        self.failures = 0
        self.play_at: float | None = None


class Meeting:
    def __init__(self, attending: Attending, draw: Callable[[int], bytes]) -> None:
        """`draw` gives that many random bytes."""
        self._attending = attending
        self._draw = draw
        self._cipher = attending.cipher
        self._views: dict[str, _View] = {}
        self._attempts: dict[int, Attempt] = {}
        self._last_attempt = 0
        self._peers: dict[str, Listed] = {}
        self._early: dict[tuple[str, str], tuple[float, list[IceCandidate]]] = {}
        self._offers = RateLimiter(OFFERS, OFFERS_PER_SECONDS, MAX_PEERS)
        self._joined = False
        self._dialling = False
        self._connected = False
        self._stopped = False
        self._delay = attending.first_delay
        self._dial_at: float | None = None
        self._listing_by: float | None = None
        self._seed_at: float | None = None
        self._seed_delay = VIEW_SECONDS[0]

    @property
    def joined(self) -> bool:
        return self._joined

    @property
    def peers(self) -> tuple[Listed, ...]:
        return tuple(self._peers.values())

    def attempt(self, number: int) -> Attempt | None:
        return self._attempts.get(number)

    def stream_behind(self, attempt: Attempt) -> str | None:
        """Return the other peer's stream: the one that we view, or what the relay says of it; a claim, no proof."""
        if not attempt.offering:
            return attempt.stream
        peer = self._peers.get(attempt.uuid)
        return None if peer is None else peer.stream

    @property
    def next_at(self) -> float | None:
        """When `tick` has something to do."""
        moments = [self._dial_at, self._listing_by, self._seed_at]
        moments += [view.play_at for view in self._views.values()]
        for attempt in self._attempts.values():
            moments.append(attempt.bundle_at)
            if attempt.opened_at is None:
                moments.append(attempt.since + CONNECT_SECONDS)
        moments += [since + EARLY_SECONDS for since, _ in self._early.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def dial(self) -> list[MeetingEffect]:
        """Go to the relay, now: at the start, or again before the time for it has come."""
        if self._dialling or self._connected or self._stopped:
            return []
        self._dialling = True
        self._dial_at = None
        return [Dial()]

    def stop(self, reason: str) -> list[MeetingEffect]:
        """Leave the room and give every link up."""
        self._stopped = True
        self._dial_at = self._listing_by = self._seed_at = None
        effects: list[MeetingEffect] = [GiveUp(number, reason) for number in self._attempts]
        self._attempts.clear()
        self._views.clear()
        if self._connected:
            effects += [SendToRelay(signalling.leave()), HangUp(reason)]
        return effects

    def view(self, stream: str, now: float) -> list[MeetingEffect]:
        """Keep a link to the peer that has this stream. Our own is left out."""
        if stream == self._attending.stream or stream in self._views or self._stopped:
            return []
        view = self._views[stream] = _View()
        return self._play_if_there(stream, view, now)

    def unview(self, stream: str) -> list[MeetingEffect]:
        view = self._views.pop(stream, None)
        if view is None or view.attempt is None:
            return []
        self._attempts.pop(view.attempt, None)
        return [GiveUp(view.attempt, "no longer wanted")]

    def connected(self, now: float) -> list[MeetingEffect]:
        """Join the room: the relay is reached."""
        self._dialling = False
        self._connected = True
        self._listing_by = now + LISTING_SECONDS
        return [SendToRelay(signalling.join_room(self._cipher.room_id(self._attending.room)))]

    def disconnected(self, reason: str, now: float) -> list[MeetingEffect]:
        """Dial later: the connection to the relay was lost or failed. Attempts that have begun continue."""
        self._dialling = self._connected = self._joined = False
        self._listing_by = self._seed_at = None
        self._peers.clear()
        self._early.clear()
        for view in self._views.values():
            view.asked = False
            view.play_at = None
        if self._stopped:
            return []
        spread = 0.8 + 0.2 * self._draw(1)[0] / 255  # so that not all come back at once
        wait = self._delay * spread
        self._delay = min(2 * self._delay, self._attending.longest_delay)
        self._dial_at = now + wait
        return [Notify(SignallingLost(reason, wait))]

    def receive(self, text: bytes, now: float) -> list[MeetingEffect]:
        """Handle a message from the relay."""
        try:
            message = signalling.read_message(text, self._cipher)
        except ComityError as fault:
            return [Notify(SignallingFault(fault.message))]
        match message:
            case signalling.Listing():
                return self._listed(message, now)
            case signalling.PeerJoined(peer):
                self._remember(peer)
                return [Notify(PeerSeen(peer))]
            case signalling.StreamAdded(peer):
                return self._added(peer, now)
            case signalling.OfferWanted(uuid):
                return self._offer_to(uuid, now)
            case signalling.Described():
                return self._offered(message, now) if message.kind == "offer" else self._answered(message)
            case signalling.Candidates():
                return self._candidates(message, now)
            case signalling.StreamTaken():
                self._seed_at = now + self._seed_delay
                self._seed_delay = min(2 * self._seed_delay, VIEW_SECONDS[1])
                taken = (
                    f"the stream id {self._attending.stream} is already in use by another peer of the room"
                )
                return [Notify(SignallingProblem(taken, "STREAMID_IN_USE"))]
            case signalling.RelayRefusal():
                return self._refused(message, now)
            case _:
                return []

    def receive_on_channel(self, number: int, message: dict[str, Any]) -> list[MeetingEffect]:
        """Handle candidates that a peer of the reference sends on the open channel."""
        attempt = self._attempts.get(number)
        if attempt is None or not ("candidates" in message or "candidate" in message):
            return []
        try:
            candidates = signalling.read_candidates(message, self._cipher)
        except ComityError as fault:
            return [Notify(SignallingFault(fault.message))]
        return self._take_candidates(number, attempt, candidates)

    def described(
        self, number: int, sdp: str, ticket: str | None, now: float, door: str | None = None
    ) -> list[MeetingEffect]:
        """Send our description of an attempt."""
        attempt = self._attempts.get(number)
        if attempt is None:
            return []
        described = signalling.Described(
            uuid=attempt.uuid,
            session=attempt.session,
            kind="offer" if attempt.offering else "answer",
            sdp=sdp,
            stream=attempt.stream,
            ticket=ticket,
            door=door,
        )
        try:
            text = signalling.write_description(described, self._cipher, self._draw(signalling.IV_BYTES))
        except ComityError as fault:
            return self._give_up(number, fault.message, now)
        attempt.described = True
        if attempt.found:
            attempt.bundle_at = now + attempt.bundle_step
        return [SendToRelay(text)] if self._connected else []

    def found(self, number: int, candidate: IceCandidate, now: float) -> None:
        """Add an address of ours to an attempt."""
        attempt = self._attempts.get(number)
        if attempt is None or len(attempt.found) >= signalling.MAX_CANDIDATES:
            return
        attempt.found.append(candidate)
        if attempt.described and attempt.bundle_at is None:
            attempt.bundle_at = now + attempt.bundle_step

    def link_opened(self, number: int, now: float) -> list[MeetingEffect]:
        """Note that the link of an attempt is open. Give up an older one to the same peer in the same role."""
        attempt = self._attempts.get(number)
        if attempt is None:
            return []
        attempt.opened_at = now
        older = [
            other
            for other, known in self._attempts.items()
            if other < number and known.uuid == attempt.uuid and known.offering is attempt.offering
        ]
        for other in older:
            del self._attempts[other]
        return [GiveUp(other, "the peer has a newer link") for other in older]

    def failed(self, number: int, reason: str, now: float) -> list[MeetingEffect]:
        """End an attempt that failed, or whose link has ended. The shell has no link for it any more."""
        attempt = self._attempts.pop(number, None)
        if attempt is None:
            return []
        self._view_again(number, attempt, now)
        if attempt.opened_at is not None:
            return []
        return [Notify(AttemptFailed(number, attempt.uuid, reason))]

    def tick(self, now: float) -> list[MeetingEffect]:
        effects: list[MeetingEffect] = []
        if self._dial_at is not None and self._dial_at <= now:
            effects += self.dial()
        if self._listing_by is not None and self._listing_by <= now:
            self._listing_by = None
            effects.append(HangUp(f"the relay did not answer within {LISTING_SECONDS:g} seconds"))
        if self._seed_at is not None and self._seed_at <= now:
            self._seed_at = None
            effects.append(self._seed())
        for stream, view in self._views.items():
            if view.play_at is not None and view.play_at <= now:
                effects += self._play(stream, view, now)
        for number, attempt in list(self._attempts.items()):
            effects += self._check_timeouts(number, attempt, now)
        self._early = {
            key: (since, found) for key, (since, found) in self._early.items() if since + EARLY_SECONDS > now
        }
        return effects

    def _check_timeouts(self, number: int, attempt: Attempt, now: float) -> Sequence[MeetingEffect]:
        if attempt.opened_at is None and attempt.since + CONNECT_SECONDS <= now:
            reason = f"no connection within {CONNECT_SECONDS:g} seconds; a firewall may need a TURN server"
            return self._give_up(number, reason, now)
        if attempt.bundle_at is not None and attempt.bundle_at <= now:
            attempt.bundle_at = None
            attempt.bundle_step = min(2 * attempt.bundle_step, BUNDLE_SECONDS[1])
            found, attempt.found = tuple(attempt.found), []
            bundle = signalling.Candidates(attempt.uuid, attempt.session, found)
            text = signalling.write_candidates(
                bundle, attempt.role, self._cipher, self._draw(signalling.IV_BYTES)
            )
            return [SendToRelay(text)] if self._connected else []
        return []

    def _listed(self, listing: signalling.Listing, now: float) -> list[MeetingEffect]:
        self._peers.clear()
        for peer in listing.peers:
            self._remember(peer)
        effects: list[MeetingEffect] = [Notify(SignallingReady(listing.peers))]
        if not self._joined:
            self._joined = True
            self._listing_by = None
            self._delay = self._attending.first_delay
            self._seed_delay = VIEW_SECONDS[0]
        effects.append(self._seed())
        for stream, view in self._views.items():
            effects += self._play_if_there(stream, view, now)
        return effects

    def _seed(self) -> SendToRelay:
        return SendToRelay(signalling.seed(self._cipher.stream_id(self._attending.stream)))

    def _remember(self, peer: Listed) -> None:
        if peer.uuid in self._peers or len(self._peers) < MAX_PEERS:
            known = self._peers.get(peer.uuid)
            if known is None or peer.stream is not None:
                self._peers[peer.uuid] = peer

    def _added(self, peer: Listed, now: float) -> list[MeetingEffect]:
        self._remember(peer)
        view = self._views.get(peer.stream or "")
        if view is not None and view.attempt is None:
            view.play_at = now + PLAY_AFTER_ADDED
        return [Notify(PeerSeen(peer))]

    def _play_if_there(self, stream: str, view: _View, now: float) -> list[MeetingEffect]:
        """Play a stream now, or when it comes; to be sure, after a while in any case."""
        if any(peer.stream == stream for peer in self._peers.values()):
            return self._play(stream, view, now)
        view.play_at = now + CONNECT_SECONDS
        return []

    def _play(self, stream: str, view: _View, now: float) -> list[MeetingEffect]:
        """Ask for it, and ask again later if nothing comes of it."""
        view.play_at = None
        if not self._joined or view.attempt is not None:
            return []
        view.asked = True
        view.play_at = now + CONNECT_SECONDS
        return [SendToRelay(signalling.play(self._cipher.stream_id(stream)))]

    def _offer_to(self, uuid: str, now: float) -> list[MeetingEffect]:
        if self._offers.take(uuid, now):
            return [Notify(SignallingFault("a peer asks for offers too often"))]
        pending = [number for number, known in self._attempts.items() if known.opened_at is None]
        stale = [
            number
            for number in pending
            if self._attempts[number].uuid == uuid and self._attempts[number].offering
        ]
        if len(pending) - len(stale) >= MAX_PENDING or len(self._attempts) >= self._attending.most_links:
            return [Notify(SignallingFault("too many peers ask for a link at once; some have to wait"))]
        for number in stale:
            del self._attempts[number]
        attempt = Attempt(uuid, self._new_session(), self._attending.stream, now, offering=True)
        number = self._begin(attempt)
        return [
            *(GiveUp(old, "the peer asked again") for old in stale),
            Notify(AttemptBegun(number, attempt.uuid)),
            MakeOffer(number),
        ]

    def _offered(self, offer: signalling.Described, now: float) -> list[MeetingEffect]:
        view = self._views.get(offer.stream or "")
        if view is None or not view.asked or offer.stream is None:
            return [Notify(SignallingFault("an offer came that was not asked for"))]
        if len(self._attempts) >= self._attending.most_links:
            return [Notify(SignallingFault("there are too many links already"))]
        view.asked = False
        view.play_at = None
        effects: list[MeetingEffect] = []
        if view.attempt is not None:
            self._attempts.pop(view.attempt, None)
            effects.append(GiveUp(view.attempt, "the peer made a new offer"))
        attempt = Attempt(offer.uuid, offer.session, offer.stream, now, offering=False)
        view.attempt = number = self._begin(attempt)
        effects += [
            Notify(AttemptBegun(number, attempt.uuid)),
            MakeAnswer(number, offer.sdp, offer.ticket, offer.door),
        ]
        _, early = self._early.pop((offer.uuid, offer.session), (0.0, []))
        return effects + self._take_candidates(number, attempt, tuple(early)) if early else effects

    def _answered(self, answer: signalling.Described) -> list[MeetingEffect]:
        number, attempt = self._attempt_of(answer.uuid, answer.session)
        if attempt is None or number is None or not attempt.offering or attempt.remote_known:
            return []
        attempt.remote_known = True
        early, attempt.early = tuple(attempt.early), []
        effects: list[MeetingEffect] = [TakeAnswer(number, answer.sdp, answer.door)]
        return [*effects, AddCandidates(number, early)] if early else effects

    def _candidates(self, bundle: signalling.Candidates, now: float) -> list[MeetingEffect]:
        number, attempt = self._attempt_of(bundle.uuid, bundle.session)
        if attempt is not None and number is not None:
            return self._take_candidates(number, attempt, bundle.candidates)
        key = (bundle.uuid, bundle.session)
        if key not in self._early and len(self._early) >= MAX_EARLY:
            return []
        _, early = self._early.setdefault(key, (now, []))
        kept = bundle.candidates[: max(0, signalling.MAX_CANDIDATES - len(early))]
        early.extend(kept)
        return [] if len(kept) == len(bundle.candidates) else [Notify(SignallingFault(_TOO_MANY))]

    def _take_candidates(
        self, number: int, attempt: Attempt, candidates: tuple[IceCandidate, ...]
    ) -> list[MeetingEffect]:
        taken = candidates[: max(0, signalling.MAX_CANDIDATES - attempt.candidates_taken)]
        attempt.candidates_taken += len(taken)
        faults = [] if len(taken) == len(candidates) else [Notify(SignallingFault(_TOO_MANY))]
        if taken and attempt.remote_known:
            return [AddCandidates(number, taken), *faults]
        attempt.early.extend(taken)
        return [*faults]

    def _refused(self, refusal: signalling.RelayRefusal, now: float) -> list[MeetingEffect]:
        if refusal.code == "PEER_GONE":
            gone = [
                number
                for number, attempt in self._attempts.items()
                if attempt.uuid == refusal.uuid and attempt.opened_at is None
            ]
            reason = "the peer is no longer at the relay"
            return [effect for number in gone for effect in self._give_up(number, reason, now)]
        effects: list[MeetingEffect] = [Notify(SignallingProblem(refusal.message, refusal.code))]
        # a room that we are not let into is tried again later, like a relay that is not there
        return (
            effects if self._joined else [*effects, HangUp(refusal.message or "the relay refused the room")]
        )

    def _attempt_of(self, uuid: str, session: str) -> tuple[int | None, Attempt | None]:
        for number, attempt in self._attempts.items():
            if attempt.uuid == uuid and attempt.session == session:
                return number, attempt
        return None, None

    def _begin(self, attempt: Attempt) -> int:
        self._last_attempt += 1
        self._attempts[self._last_attempt] = attempt
        return self._last_attempt

    def _give_up(self, number: int, reason: str, now: float) -> list[MeetingEffect]:
        return [GiveUp(number, reason), *self.failed(number, reason, now)]

    def _view_again(self, number: int, attempt: Attempt, now: float) -> None:
        view = self._views.get(attempt.stream)
        if view is None or view.attempt != number:
            return
        view.attempt = None
        steady = attempt.opened_at is not None and now - attempt.opened_at >= STEADY_SECONDS
        view.failures = 0 if steady else view.failures + 1
        shortest, longest = VIEW_SECONDS
        view.play_at = now + min(shortest * 2 ** min(view.failures, 8), longest)

    def _new_session(self) -> str:
        number = int.from_bytes(self._draw(8), "big")
        digits = ""
        for _ in range(8):
            number, digit = divmod(number, 36)
            digits += _BASE36[digit]
        return digits


_TOO_MANY: Final = f"a peer sent more than {signalling.MAX_CANDIDATES} candidates"
