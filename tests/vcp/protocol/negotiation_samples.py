"""Servers, hellos, and a conversation with a machine whose time and answers a test decides on."""

import json

from comity.vcp.protocol.agreement import CORE_FEATURES, Identity
from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.context import SessionContext, after, respond
from comity.vcp.protocol.messages import VcpError, read_hello
from comity.vcp.protocol.negotiation import (
    CheckIdentity,
    ExchangeContext,
    Happened,
    ServerPolicy,
    WatchFeatures,
    conclude,
    screen,
)
from comity.vcp.protocol.registry import ExtensionRegistry
from comity.vcp.protocol.server import ServerMachine
from comity.wire.errors import ComityError
from comity.wire.machine import (
    Answered,
    Ask,
    CancelTimer,
    Close,
    Received,
    Refused,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from comity.wire.rate_limit import RateLimiter

ALL_FEATURES = dict.fromkeys(CORE_FEATURES, True)
NO_FEATURES = dict.fromkeys(CORE_FEATURES, False)
EVERY_EXTENSION = tuple(built_in())

ALICE = Identity(issuer="creed", subject="alice", owner="creed:alice")
SOMEBODY = Identity(issuer="creed", subject="somebody")
TOKEN = "vcp-i:creed:user:u_8f3k2m:ed25519:base64url_signature"
WIRE = "🧑⚕️:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧"

HANGS = object()


def registry(*ids):
    return ExtensionRegistry(built_in()[id_] for id_ in ids or EVERY_EXTENSION)


def policy(**settings):
    return ServerPolicy(**{"core_features": ALL_FEATURES, "registry": registry()} | settings)


def negotiate(hello, policy, identity=None, *, session_id=None):
    """The one answer to a hello, for a server that need not wait for the identity check."""
    version = screen(hello, policy)
    if isinstance(version, VcpError):
        return version
    return conclude(hello, version, policy, identity, session_id=session_id)


def hello_object(*extensions, **members):
    return {"type": "vcp-hello", "version": "3.1", "extensions": list(extensions)} | members


def hello(*extensions, **members):
    return read_hello(hello_object(*extensions, **members))


def encoded(message):
    if isinstance(message, bytes):
        return message
    return json.dumps(message, ensure_ascii=False).encode()


class Conversation:
    """A client that talks to a ServerMachine. Timers fire in their order when time passes.

    `identity` is what a token is good for: an Identity, None, an error to refuse with, or HANGS.
    """

    def __init__(
        self, settings=None, *, limiter=None, peer="198.51.100.7", identity=ALICE, session_id="ses_1"
    ):
        self.now = 0.0
        self.timers = {}
        self.sent = []
        self.asked = []
        self.happened = []
        self.closed = None
        self.identity = identity
        self.context = SessionContext()
        self.exchanges = True
        limiter = RateLimiter(1_000_000, 1) if limiter is None else limiter
        self.machine = ServerMachine(settings or policy(), peer=peer, session_id=session_id, limiter=limiter)
        self.tell(Started())

    def say(self, message):
        """The answers to one message."""
        before = len(self.sent)
        self.tell(Received(encoded(message)))
        return self.sent[before:]

    def ask(self, message):
        """The one answer to one message."""
        (answer,) = self.say(message)
        return answer

    def wait_until(self, moment):
        """What was sent while time passed."""
        before = len(self.sent)
        while self.timers and min(self.timers.values()) <= moment:
            name = min(self.timers, key=self.timers.get)
            self.now = max(self.now, self.timers.pop(name))
            self.tell(TimerFired(name))
        self.now = moment
        return self.sent[before:]

    def lose_features(self, left):
        """The server finds that its features have changed to these."""
        tags = [tag for tag, request in self.asked if isinstance(request, WatchFeatures)]
        self.tell(Answered(tags[-1], left))

    def tell(self, event):
        for effect in self.machine.receive(event, self.now):
            assert self.closed is None, "something was wanted after the close"
            match effect:
                case Send(message):
                    self.sent.append(json.loads(message))
                case SetTimer(name, at):
                    self.timers[name] = at
                case CancelTimer(name):
                    self.timers.pop(name, None)
                case Close(reason):
                    self.closed = reason
                    self.timers.clear()
                case Ask(tag, request):
                    self._answer(tag, request)

    def _answer(self, tag, request):
        match request:
            case CheckIdentity():
                self.asked.append((tag, request))
                if self.identity is not HANGS:
                    self.tell(self._verdict(tag))
            case ExchangeContext(session, wanted):
                self.asked.append((tag, request))
                if self.exchanges:
                    self.context = after(self.context, wanted)
                    self.tell(Answered(tag, respond(wanted, self.context, session, {})))
            case WatchFeatures():
                self.asked.append((tag, request))
            case Happened():
                self.happened.append(request)

    def _verdict(self, tag):
        if isinstance(self.identity, ComityError):
            return Refused(tag, self.identity)
        return Answered(tag, self.identity)
