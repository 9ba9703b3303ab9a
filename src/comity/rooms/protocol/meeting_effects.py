"""The effects of a meeting, and its events for the user of the room."""

from msgspec import Struct

from comity.rooms.protocol.signalling import IceCandidate, Listed


class Dial(Struct, frozen=True):
    pass


class Speak(Struct, frozen=True):
    text: bytes


class HangUp(Struct, frozen=True):
    reason: str


class MakeOffer(Struct, frozen=True):
    attempt: int


class MakeAnswer(Struct, frozen=True):
    attempt: int
    sdp: str
    ticket: str | None


class TakeAnswer(Struct, frozen=True):
    attempt: int
    sdp: str


class AddCandidates(Struct, frozen=True):
    attempt: int
    candidates: tuple[IceCandidate, ...]


class GiveUp(Struct, frozen=True):
    attempt: int
    reason: str


class SignallingUp(Struct, frozen=True):
    """The room is joined; `peers` are the others in it."""

    peers: tuple[Listed, ...]


class SignallingDown(Struct, frozen=True):
    """The room is left, or was never joined. `retry_in` seconds from now it is tried again. Links stay as they are."""

    reason: str
    retry_in: float


class PeerSeen(Struct, frozen=True):
    """Somebody came, or has a stream now."""

    peer: Listed


class OwnStreamTaken(Struct, frozen=True):
    """Another peer of the room has our stream id. We try again, in case it is only what is left of ourselves."""

    stream: str


class RelayRefused(Struct, frozen=True):
    """The relay refused something; `code` is its own."""

    code: str
    message: str


class AttemptBegun(Struct, frozen=True):
    """A link is being made; `offering`: this side is the one that is viewed."""

    attempt: int
    uuid: str
    stream: str | None
    offering: bool


class AttemptFailed(Struct, frozen=True):
    attempt: int
    uuid: str
    stream: str | None
    reason: str


class SignallingFault(Struct, frozen=True):
    """Something that no honest peer sends, and that changed nothing."""

    reason: str


News = (
    SignallingUp
    | SignallingDown
    | PeerSeen
    | OwnStreamTaken
    | RelayRefused
    | AttemptBegun
    | AttemptFailed
    | SignallingFault
)


class Tell(Struct, frozen=True):
    news: News


Effect = Dial | Speak | HangUp | MakeOffer | MakeAnswer | TakeAnswer | AddCandidates | GiveUp | Tell
