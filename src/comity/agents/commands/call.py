"""`comity call`: call an agent of another owner and print its signed reply.

Only the reply goes to stdout, so that other programs can use it. Every call has an idempotency key. A call without an
answer is repeated with the same key, and the agent carries it out once.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from msgspec import Struct

from comity.contacts.lookup import contact_of, id_or_text, shown
from comity.contacts.protocol.contact import Contact
from comity.directory.cards import HaloMatch
from comity.directory.finding import STDIN, DirectoryAccess, find_card
from comity.directory.outcomes import CallOutcomes
from comity.envelopes.client.calls import (
    AwaitsConsentError,
    CallRefusedError,
    DispatchResult,
    callable_endpoint,
    explained,
    rank_targets,
)
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.client.keys import keeping_of
from comity.envelopes.features import Features
from comity.envelopes.part import PROOFS_FOLDER
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.envelope import reply_is_bound
from comity.envelopes.protocol.errors import TargetUnavailableError
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.successions import Successions
from comity.envelopes.witness import Witnesses
from comity.identity.key_files import has_identity
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.identity.succession_files import read_own_line
from comity.receipts.files import refuse_existing, write_file
from comity.receipts.protocol.format import hash_of
from comity.receipts.protocol.making import call_bytes
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.help import HelpfulApp, HelpfulCommand
from comity.terminal.open_target import new_key, own_key, own_vault, refuse_memory, writing
from comity.terminal.options import Directory, Json, KeyOptions, settings_of
from comity.terminal.output import WAITS, colour_wanted, note, paint, print_foreign, print_json, waiting
from comity.wire.errors import ComityError, ConfigError, InvalidError, NoAnswerError
from comity.wire.machine import Clock

app = HelpfulApp()
pause: Final = SystemClock().sleep

_LEAST_WAIT: Final = 1.0
TEXT_LIMIT: Final = 1024 * 1024 - 4096
"""A request of one mebibyte is the most that a target reads; the rest of it is the envelope."""


class CallCommand(HelpfulCommand):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", "[TARGET]", "TEXT"]  # the parser only knows that the last of two may be left out


@app.add(
    """
    comity call http://127.0.0.1:8420 hello  call the agent at this address
    comity call 31e30ef4…d13d hello  call an agent by its id; the address comes from the directory
    comity call --capability translate "good morning"  call the best match in the directory
    comity call card.json - < question.txt  call the agent of a card file; read the text from standard input
    comity call http://127.0.0.1:8420 hello --save call.json  also write a receipt; comity verify call.json checks it
    comity call anna hello --wait  call a contact; if her owner has to agree first, wait for that
    comity call http://127.0.0.1:8420 hello --json  print as JSON who answered and what was verified
    """,
    cls=CallCommand,
)
def call(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="The agent: a contact, the URL of a node or an endpoint, an id (64 digits or did:key), or a card file. "
            "Do not give it together with --capability.",
        ),
    ],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to send; - reads it from standard input.")
    ] = None,
    capability: Annotated[
        str | None,
        typer.Option(
            "--capability",
            metavar="QUERY",
            help="Search the directory for this offer and call the best match. Use it instead of TARGET.",
        ),
    ] = None,
    directory: Directory = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="The timeout of the whole call. Default: the setting dispatch.timeout_seconds (60).",
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            metavar="KEY",
            help="A key of your choice for this call. A call that is repeated with its key and text gets its one reply.",
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Write a receipt of the call and its reply to this new file. `comity verify` checks it anywhere.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="If the owner of the agent has to agree first, ask again until that happens. Default: exit code 3.",
        ),
    ] = False,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Call an agent and print its reply.

    The identity of the data folder signs the call; it is created if it does not exist. Your calls to an agent are numbered,
    and this call gets the next number. The reply is printed only if the called agent signed it as the answer to this call.

    The exit code is 3 if the owner of the agent has to agree first. Repeat the call with its key then, or use --wait.
    """
    named, said = _arguments(target, text, capability)
    key_of_call = _checked_key(idempotency_key)
    refuse_existing(save)
    flags = {"directory.url": directory, "dispatch.timeout_seconds": timeout}
    settings = settings_of(home, **flags).settings
    refuse_memory(settings, "a call needs to know where the last one ended")
    if said == home.passphrase_file == STDIN:
        raise ConfigError("TEXT and the passphrase cannot both come from standard input; put one into a file")
    words = _words(said)
    named = named if capability is not None or named == STDIN else id_or_text(settings, named)
    key = own_key(settings, home.passphrase_file) if has_identity(settings.data) else None

    def caller() -> SigningKey:
        """Create the identity only when an agent to call was found."""
        if key is not None:
            return key
        new, made = new_key(settings, home.passphrase_file)
        if made and not as_json:
            note(f"{settings.data} had no identity; created {new.vacant_id}")
        return new

    wanted = _Wanted(
        access=DirectoryAccess(settings, key),
        find=partial(_named, named) if capability is None else partial(_offering, capability, key),
        named=capability is None,
        only=id_of(named) if capability is None else None,
        message=A2AMessage(role="ROLE_USER", parts=(A2APart(text=words),)),
        key=key_of_call,
    )
    try:
        result = asyncio.run(_call(settings, wanted, key, caller, wait=wait))
    except AwaitsConsentError as held:
        _say_waiting(held, key_of_call, as_json=as_json)
        raise typer.Exit(WAITS) from None
    contact = contact_of(settings, result.target.vacant_id.hex())
    receipt = {} if save is None else _save(save, result)
    if as_json:
        print_json({**_as_json(result, contact), **receipt})
    else:
        print_foreign(_text_of(result))
        sys.stdout.flush()
        _say_who(result, contact)


class _Wanted(Struct, frozen=True, kw_only=True):
    """A call that is wanted: whom to find and how, and what to say. `only` is the agent that was named by its id."""

    access: DirectoryAccess
    find: Callable[[DirectoryAccess], Awaitable[list[CapabilityCard]]]
    named: bool
    only: VacantId | None
    message: A2AMessage
    key: str


async def _call(
    settings: Settings,
    wanted: _Wanted,
    known: SigningKey | None,
    create: Callable[[], SigningKey],
    *,
    wait: bool,
) -> DispatchResult:
    """Make the call; with `wait` until the owner of the agent agrees or refuses."""
    while True:
        try:
            return await _call_once(settings, wanted, known, create)
        except AwaitsConsentError as held:
            if not wait:
                raise
            known = known or create()
            with waiting("waiting for the owner of the agent to agree"):
                await pause(max(held.retry_after, _LEAST_WAIT))


async def _call_once(
    settings: Settings, wanted: _Wanted, known: SigningKey | None, create: Callable[[], SigningKey]
) -> DispatchResult:
    """Make the call as `known`, or with an identity that is created once there is an agent to call."""
    seconds = settings.dispatch.timeout_seconds
    clock = SystemClock()
    until = clock.monotonic() + seconds
    card: CapabilityCard | None = None
    cards: list[CapabilityCard] = []

    async def find() -> list[CapabilityCard]:
        if not cards:
            with waiting("looking for the agent"):
                cards.extend(await wanted.find(wanted.access))
            callable_endpoint(cards[0])
        return cards

    def calling(next_one: CapabilityCard) -> None:
        nonlocal card
        card = next_one
        if card.vacant_id == key.vacant_id:
            raise InvalidError(
                f"{card.vacant_id} is the identity of this data folder, and a node cannot call itself; "
                "call as somebody else, from another folder: --data DIR"
            )
        shown.close()
        shown.enter_context(waiting(f"calling {card.vacant_id}"))

    def passed_over(former: CapabilityCard, why: ComityError) -> None:
        note(f"{explained(why, former)}; trying {cards[cards.index(former) + 1].vacant_id}")

    try:
        async with asyncio.timeout(seconds):
            if known is None:
                await find()
            key = known or create()
            with ExitStack() as shown:
                async with _open_dispatcher(settings, wanted.access, key, clock) as (dispatcher, outcomes):

                    async def find_best() -> list[CapabilityCard]:
                        cards[:] = await outcomes.ranked(await find(), lambda each: each.vacant_id.hex())
                        return cards

                    return await dispatcher.call_found(
                        find_best,
                        wanted.message,
                        only=wanted.only,
                        named=wanted.named,
                        idempotency_key=wanted.key,
                        until=until,
                        calling=calling,
                        passed_over=passed_over,
                    )
    except TimeoutError:
        raise NoAnswerError(_no_answer(card, seconds, wanted.key)) from None
    except (CallRefusedError, TargetUnavailableError) as refusal:
        assert card is not None, "only an agent that was called refuses a call"
        refusal.args = (explained(refusal, card), *refusal.args[1:])
        raise


def _no_answer(card: CapabilityCard | None, seconds: float, key: str) -> str:
    if card is None:
        return f"the agent was not found within {seconds:g} seconds; nothing was sent"
    return (
        f"{card.vacant_id} did not answer within {seconds:g} seconds; the call may have been carried out. "
        f"Repeat it with --idempotency-key {key} to get its reply"
    )


@asynccontextmanager
async def _open_dispatcher(
    settings: Settings, access: DirectoryAccess, key: SigningKey, clock: Clock
) -> AsyncIterator[tuple[Dispatcher, CallOutcomes]]:
    """Open what calls with this key, and what remembers how calls went."""
    async with writing(settings, key) as (store, record, chain):
        outcomes = CallOutcomes(store, clock)
        line = Successions(store, record, key, read_own_line(settings.data, key.vacant_id))
        witnesses = Witnesses(store, key, clock, record, proofs=settings.data / PROOFS_FOLDER)
        try:
            yield (
                Dispatcher(
                    store,
                    key,
                    clock,
                    access.http,
                    holder=chain,
                    record=record,
                    vault=own_vault(settings),
                    keeping=keeping_of(settings.record),
                    outcomes=outcomes,
                    features=Features([line, witnesses]),
                    cards=line,
                ),
                outcomes,
            )
        finally:
            await outcomes.flush()


async def _named(target: str, access: DirectoryAccess) -> list[CapabilityCard]:
    return [await find_card(target, access, stdin=True)]


async def _offering(query: str, key: SigningKey | None, access: DirectoryAccess) -> list[CapabilityCard]:
    """Return the agents in the directory that offer it, without the caller itself, best match first."""
    directory = access.directory()

    async def others(**asked: Any) -> list[HaloMatch]:
        found = await directory.aggregation_search(**asked)
        return [match for match in found if key is None or match.vacant_id != key.vacant_id.hex()]

    return await rank_targets(query, others, None)


def _arguments(target: str, text: str | None, capability: str | None) -> tuple[str, str]:
    """Return whom to call, and what to say; with --capability the first and only argument is the text."""
    if capability is None:
        if text is None:
            raise ConfigError("TEXT is missing: comity call TARGET TEXT")
        return target, text
    if text is not None:
        raise ConfigError("--capability finds whom to call: leave TARGET out, or leave --capability out")
    return "", target


def _checked_key(given: str | None) -> str:
    if given is None:
        return str(uuid4())
    if not given or len(given) > 256 or not given.isprintable():
        raise ConfigError("--idempotency-key must be 1 to 256 printable characters")
    return given


def _words(said: str) -> str:
    data = sys.stdin.buffer.read(TEXT_LIMIT + 1) if said == STDIN else said.encode("utf-8", "surrogateescape")
    if len(data) > TEXT_LIMIT:
        raise ConfigError(f"TEXT is limited to {TEXT_LIMIT:,} bytes; say less or split it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("TEXT must be UTF-8; convert it first") from None


def _text_of(result: DispatchResult) -> str:
    return "\n".join(part.text for part in result.response_envelope.payload.parts)


def _as_json(result: DispatchResult, contact: Contact | None) -> dict[str, Any]:
    request, reply = result.request_envelope, result.response_envelope
    return {
        "target": result.target.vacant_id.hex(),
        "contact": None if contact is None else contact.name,
        "endpoint": result.target.endpoint,
        "request_seq": request.sequence_no,
        "response_role": reply.payload.role,
        "response_text": _text_of(result),
        "response_seq": reply.sequence_no,
        "caller": request.from_vacant_id.hex(),
        "idempotency_key": request.idempotency_key,
        "verified": True,
        "bound": reply_is_bound(reply, request) is True,
    }


def _save(file: str, result: DispatchResult) -> dict[str, str]:
    """Write the receipt. The call was made: a disk that is full does not take the reply away."""
    try:
        data = call_bytes(result.request_envelope, result.response_envelope)
        write_file(file, data)
    except (ConfigError, InvalidError) as why:
        note(f"the receipt was not saved: {why.message}; `comity receipt call` writes it within a day")
        return {}
    return {"saved": file, "receipt": hash_of(data)}


def _say_waiting(held: AwaitsConsentError, key: str, *, as_json: bool) -> None:
    again = f"repeat it with --idempotency-key {key}, or call with --wait"
    if as_json:
        print_json({"waiting": held.code, "idempotency_key": key, "retry_after": held.retry_after})
    else:
        words = paint("waiting:", "bold yellow", wanted=colour_wanted(sys.stderr))
        sys.stderr.write(f"{words} {held.message}: {again}\n")


def _say_who(result: DispatchResult, contact: Contact | None) -> None:
    words = (
        f"answered by {shown(contact, result.target.vacant_id.hex())}, message {result.request_envelope.sequence_no} between you, "
        "signature verified"
    )
    sys.stderr.write(paint(words, "dim", wanted=colour_wanted(sys.stderr)) + "\n")
