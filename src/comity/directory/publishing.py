"""Publishing the own card: only what the directory does not have yet is sent.

What a directory has is read from the last event of the agent, which the agent itself signed, and from the state that
the directory shows. State and visibility are two things (ruling 42): a card is published in the state that the agent is
in, and hiding it changes no state.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.directory.client import DirectoryClient
from comity.envelopes.protocol.card import CapabilityCard, RuntimeState, Visibility, is_gone
from comity.http.addresses import read_url
from comity.identity.protocol.keys import VacantId
from comity.system import is_unspecified
from comity.wire.errors import (
    ComityError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TargetRefusedError,
    UnusableAnswerError,
)
from comity.wire.machine import Clock

log = logging.getLogger("comity.publication")

REFRESH_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 15.0
"""After a first failure. It doubles with each further one, up to `REFRESH_SECONDS`."""

ENDPOINT_HINT: Final = (
    "set agent.endpoint to its public URL, such as https://agent.example/a2a/message/send "
    "(COMITY_AGENT_ENDPOINT, or --endpoint of `comity up`)"
)


class Registered(Struct, frozen=True, kw_only=True):
    """The entry of an agent in a directory. `state` is None if the directory does not return it."""

    event_seq: int
    card_hash: str
    visibility: Visibility
    state: RuntimeState | None

    def is_current(self, card: CapabilityCard, visibility: Visibility, state: RuntimeState) -> bool:
        """Return whether publishing would change nothing. A directory that returns no state counts as ACTIVE."""
        known = RuntimeState.ACTIVE if self.state is None else self.state
        return (self.card_hash, self.visibility, known) == (card.card_hash().hex(), visibility, state)


class PublishedCard(Struct, frozen=True):
    """`changed` is False if the directory was up to date."""

    event_seq: int
    changed: bool


class _Payload(Struct, frozen=True):
    card_hash: str
    visibility: Visibility


async def registered(directory: DirectoryClient, vacant_id: VacantId) -> Registered | None:
    """Return what the directory has of this agent; None for one that it does not know."""
    event = await directory.last_event(vacant_id)
    if event is None:
        return None
    try:
        payload = msgspec.json.decode(event.payload_json, type=_Payload)
    except msgspec.DecodeError as reason:
        raise UnusableAnswerError(
            f"event {event.seq} of the directory does not say what was registered: {reason}"
        ) from None
    try:
        state = await directory.state_of(vacant_id)
    except NotFoundError:  # the events are there, the card is not
        return None
    except ForbiddenError:  # a directory that does not take our proof
        state = None
    return Registered(
        event_seq=event.seq, card_hash=payload.card_hash, visibility=payload.visibility, state=state
    )


async def publish_card(
    directory: DirectoryClient, card: CapabilityCard, visibility: Visibility, state: RuntimeState
) -> PublishedCard:
    """Publish the card, unless the directory has it already."""
    return await _publish_over(
        await registered(directory, card.vacant_id), directory, card, visibility, state
    )


async def _publish_over(
    known: Registered | None,
    directory: DirectoryClient,
    card: CapabilityCard,
    visibility: Visibility,
    state: RuntimeState,
) -> PublishedCard:
    if known is not None and known.is_current(card, visibility, state):
        return PublishedCard(known.event_seq, changed=False)
    try:
        published = await directory.publish(card, visibility=visibility, runtime_state=state)
    except ConflictError:  # another process published with the same key, perhaps this same card
        known = await registered(directory, card.vacant_id)
        if known is None or not known.is_current(card, visibility, state):
            raise
        return PublishedCard(known.event_seq, changed=True)
    return PublishedCard(published.event_seq, changed=True)


def refuse_unspecified(card: CapabilityCard) -> None:
    """Refuse to publish a card that names all addresses of a machine: nobody can call that."""
    if is_unspecified(read_url(card.endpoint or "").host):
        raise ConfigError(
            f"the card names {card.endpoint}, where nobody can call it, because the node listens on all addresses; "
            + ENDPOINT_HINT
        )


class PublicationReport(Struct, frozen=True, kw_only=True):
    """How the agent stands in a directory. Without an `event_seq` the directory has nothing of it, as far as we know.
    `problem` says why it is not as it should be.
    """

    directory: str
    event_seq: int | None = None
    visibility: Visibility | None = None
    state: RuntimeState | None = None
    problem: str = ""

    def in_words(self) -> str:
        known = (
            "not yet"
            if self.event_seq is None
            else f"event {self.event_seq}, {self.visibility}, {self.state}"
        )
        return f"{known}; {self.problem}" if self.problem else known


class KeptPublication:
    """Publishes a card, and keeps it up to date.

    - At the start the card is published, and a LOCAL agent becomes ACTIVE.
    - From then on the directory is asked now and then whether it has the current card and state, and at once when the
      state changes. What differs is published again. A directory that cannot be reached is asked again later.
    - What the owner decided stays: a card that was hidden is not shown again, and an agent that was set to LOCAL is not
      activated again.
    """

    def __init__(
        self,
        directory: DirectoryClient,
        url: str,
        clock: Clock,
        *,
        card: Callable[[], CapabilityCard],
        state: Callable[[], RuntimeState],
        changed: asyncio.Event,
        activate: Callable[[], Awaitable[None]],
        notify: Callable[[PublicationReport], None],
    ) -> None:
        """`changed` is set when the card or the state has changed. `notify` is called after each publication and each new problem."""
        self.report = PublicationReport(directory=url)
        self.attempted = asyncio.Event()
        """Set after the first attempt, whatever came of it."""
        self._directory = directory
        self._clock = clock
        self._card = card
        self._state = state
        self._changed = changed
        self._activate = activate
        self._notify = notify
        self._begun = False

    async def run(self) -> None:
        failures = 0
        while True:
            self._changed.clear()
            changed = False
            try:
                report, changed = await self._refresh()
                failures = 0
            except TargetRefusedError as refusal:
                failures += 1
                hint = "to allow it, add its host to dispatch.allowed_hosts"
                report = replace(self.report, problem=f"{refusal.message}; {hint}")
            except ComityError as reason:
                failures += 1
                report = replace(self.report, problem=reason.message)
            except Exception:
                failures += 1
                log.exception("the card could not be published")
                report = replace(self.report, problem="failed on our side; the log of this node says why")
            changed = changed or report.problem != self.report.problem
            self.report = report
            self.attempted.set()
            if changed:
                self._notify(report)
            await self._pause(_wait_after(failures))

    async def _refresh(self) -> tuple[PublicationReport, bool]:
        """Return how the agent stands there now, and whether something was published for it."""
        card = self._card()
        known = await registered(self._directory, card.vacant_id)
        if known is not None and known.state is None and known.event_seq == self.report.event_seq:
            known = replace(known, state=self.report.state)  # it was us who said it
        visibility = Visibility.PUBLIC if known is None else known.visibility
        state = self._state()
        if known is None and is_gone(state):
            return replace(self.report, problem=f"the agent is {state} and takes no calls"), False
        activates = state is RuntimeState.LOCAL and visibility is not Visibility.NONE and not self._begun
        if activates:
            state = RuntimeState.ACTIVE
        published = await _publish_over(known, self._directory, card, visibility, state)
        self._begun = True
        if activates:
            await self._activate()
        report = PublicationReport(
            directory=self.report.directory, event_seq=published.event_seq, visibility=visibility, state=state
        )
        return report, published.changed

    async def _pause(self, seconds: float) -> None:
        waits = [
            asyncio.ensure_future(self._clock.sleep(seconds)),
            asyncio.ensure_future(self._changed.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _wait_after(failures: int) -> float:
    """Return how many seconds until the directory is asked again."""
    if failures == 0:
        return REFRESH_SECONDS
    return min(RETRY_SECONDS * 2.0 ** min(failures - 1, 16), REFRESH_SECONDS)
