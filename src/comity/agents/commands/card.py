"""`comity card`: what an agent says of itself, signed: what it offers, and where it takes calls.

The own card is the one that the running node shows. When none runs, it is made from the settings, so that
it can be looked at before.
"""

import asyncio
import contextlib
from typing import Annotated, Any

import msgspec
import typer

from comity.agents.residence import make_card, new_state, store_state, stored_state
from comity.directory.cards import move_record
from comity.directory.finding import CARD_PATH, DirectoryAccess, find_card, read_card
from comity.directory.publishing import publish_card, refuse_unspecified
from comity.envelopes.protocol.card import (
    CapabilityCard,
    RuntimeState,
    Visibility,
    refuse_control_characters,
    serialize,
)
from comity.envelopes.protocol.envelope import MESSAGE_SEND_PATH
from comity.envelopes.protocol.errors import EnvelopeFormatError, EnvelopeSignatureError
from comity.http.addresses import read_url
from comity.identity.key_files import has_identity, load_identity, needs_passphrase
from comity.identity.protocol.keys import SigningKey
from comity.identity.succession_files import read_own_line
from comity.requests.record import own_act
from comity.runtime.opening import has_database, reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.system import is_loopback
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import OwnNode, own_id, own_key, own_node, refuse_memory, writing
from comity.terminal.options import (
    Directory,
    HomeOptions,
    Json,
    KeyOptions,
    Yes,
    argument,
    confirm,
    settings_of,
)
from comity.terminal.output import FAILED, note, one_line, paint, print_fields, print_json, print_line, say
from comity.wire import strict_json
from comity.wire.errors import ConfigError, NotFoundError

# `comity state`: whether this folder's agent takes calls; asked of the node that serves it, else kept in the database.

STATE_PATH = "/v1/state"
HEALTH_PATH = "/health"
STATE_SET = "STATE_SET"


async def current_state(settings: Settings, own: OwnNode | None) -> RuntimeState:
    if own is not None:
        with contextlib.suppress(NotFoundError):  # it serves no agent
            return RuntimeState((await own.ask("GET", HEALTH_PATH))["state"])
    refuse_memory(settings, "only a running node knows the state")
    if not has_database(settings):
        return RuntimeState.LOCAL
    async with reading(settings, SystemClock()) as store:
        return await stored_state(store)


async def set_state(
    settings: Settings, own: OwnNode | None, wanted: RuntimeState, passphrase_file: str | None
) -> RuntimeState:
    """Set it, and return what it was."""
    if own is not None:
        with contextlib.suppress(NotFoundError):
            answer = await own.ask("POST", STATE_PATH, {"state": wanted.value})
            return RuntimeState(answer["former"])
    refuse_memory(settings, "a state needs to be kept")
    key = own_key(settings, passphrase_file)
    async with writing(settings, key, claim=own is None) as (store, record, _chain):
        former = await stored_state(store)
        operation = store_state(new_state(former, wanted.value))
        moved = await move_record(store, key.vacant_id, wanted)
        await record.commit((operation, *moved), own_act(STATE_SET, f"state:{wanted.value}"))
        return former


state_app = HelpfulApp(
    "Show or set the state of the agent of this node. The state says whether the agent accepts calls."
)

MEANINGS = {
    RuntimeState.LOCAL: "accepts calls from everybody who knows its address; not published",
    RuntimeState.ACTIVE: "accepts calls; directories show its card if it is published",
    RuntimeState.HIBERNATING: "paused, refuses calls for now (423)",
    RuntimeState.STALE: "paused for a long time, refuses calls until you set another state (423)",
    RuntimeState.SUNK: "shut down, refuses all calls (410)",
    RuntimeState.ARCHIVED: "closed permanently, refuses all calls (410)",
}


@state_app.add(
    """
    comity state show  show whether the agent accepts calls
    comity state show --json  print JSON
""",
    name="show",
)
def show_state(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show the state of the running node, or the stored state if no node runs."""
    settings = settings_of(home).settings
    own = own_node(settings)
    vacant_id = own_id(settings)
    state = asyncio.run(current_state(settings, own))
    if as_json:
        print_json({"vacant_id": vacant_id.hex(), "state": state.value, "node": own.url if own else None})
        return
    print_fields(
        (
            ("agent", str(vacant_id)),
            ("state", state.value),
            ("", MEANINGS[state]),
            ("node", f"running at {own.url}" if own else "not running"),
        )
    )


@state_app.add("""
    comity state set hibernating  refuse calls for now
    comity state set active  accept calls again
    comity state set archived --yes  refuse calls permanently
""")
def set_(
    wanted: Annotated[
        str,
        argument(
            "STATE",
            ". ".join(f"{state.value}: {meaning}" for state, meaning in MEANINGS.items()) + ".",
            autocompletion=lambda incomplete: [
                state for state in map(str.lower, RuntimeState) if state.startswith(incomplete.lower())
            ],
        ),
    ],
    home: KeyOptions = KeyOptions(),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Set the state. It takes effect at once and survives a restart. ARCHIVED cannot be undone.

    The directory of this node shows the new state at once, and so does the directory that was given with `comity up
    --directory`. Any other directory shows it after the next `comity card publish`.
    """
    state = read_state(wanted)
    settings = settings_of(home).settings
    own = own_node(settings)
    if state is RuntimeState.ARCHIVED:
        confirm("An archived agent never takes a call again. This cannot be undone. Archive it?", yes=yes)
    former = asyncio.run(set_state(settings, own, state, home.passphrase_file))
    if as_json:
        print_json({"state": state.value, "former": former.value, "node": own.url if own else None})
        return
    moved = f"{state.value}, unchanged" if former is state else f"{former.value} → {state.value}"
    print_line(f"{moved}: {MEANINGS[state]}")


def read_state(text: str) -> RuntimeState:
    try:
        return RuntimeState(text.upper())
    except ValueError:
        raise ConfigError(f"STATE must be one of {', '.join(RuntimeState)}, not {text[:60]!r}") from None


_HOW_TO_SERVE = "start one with `comity up --agent echo`, or set agent.behaviour"

card_app = HelpfulApp(
    "Show, publish or verify a capability card. The card says what an agent offers and where; the agent signs it."
)

_MEANINGS = {
    Visibility.PUBLIC: "anybody can find it",
    Visibility.RESTRICTED: "whoever knows the id can read it, a search does not show it",
    Visibility.NONE: "only its owner and its parent can read it",
}


@card_app.add("""
    comity card show  show the card of your agent
    comity card show http://127.0.0.1:8420  show the card of the agent at this address
    comity card show --json > card.json  save your card to a file for others
""")
def show(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="The URL of a node, an id (64 digits or did:key), or a card file. Default: your own card.",
        ),
    ] = None,
    directory: Directory = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Show a card: the agent, its offer, its address, and whether the signature is valid."""
    settings = settings_of(home, **{"directory.url": directory}).settings
    more: dict[str, Any] = {}
    facts: list[tuple[str, str]] = []
    if target is not None:
        card = _found(settings, target)
    else:
        access = DirectoryAccess(settings)
        card, state = asyncio.run(_own(settings, access, home.passphrase_file))
        node = None if access.own is None else access.own.url
        more = {"state": state.value, "node": node}
        where = f"running at {node}" if node else "not running; this is made from the settings"
        facts = [("state", state.value), ("node", where)]
    if as_json:
        print_json({**_as_json(card), "verified": card.verify(), **more})
    else:
        print_fields([*_facts(card), *facts])


@card_app.add("""
    comity card publish  publish in the directory of your settings, else in that of your node
    comity card publish --directory https://directory.example  publish in another directory
    comity card publish --visibility none  hide the published card
""")
def publish(
    visibility: Annotated[
        str,
        typer.Option(
            "--visibility",
            metavar="VISIBILITY",
            show_default=False,
            help="PUBLIC (default): everybody can find the card. RESTRICTED: everybody who knows the id can read it, but a search does not show it. NONE: only you can read it.",
        ),
    ] = "PUBLIC",
    directory: Directory = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Publish the card of your agent in a directory, so that others can find it. A LOCAL agent becomes ACTIVE.

    You can repeat this: a card that is already published is not published again.
    """
    wanted = _visibility(visibility)
    settings = settings_of(home, **{"directory.url": directory}).settings
    key = own_key(settings, home.passphrase_file)
    card, result = asyncio.run(_publish(settings, key, wanted, home.passphrase_file))
    if as_json:
        print_json(result)
        return
    did = "Published" if result["changed"] else "Already published"
    where = f"as event {result['event_seq']} in {result['directory']}"
    print_line(paint(f"{did} {where}: {_MEANINGS[wanted]}.", "bold green"))
    print_line()
    former, state = result["former_state"], result["state"]
    moved = f"{former} → {state}" if former != state else state
    print_fields([*_facts(card), ("visibility", wanted.value), ("state", moved)], indent="  ")
    _warn_of_loopback(card, result["directory"])


@card_app.add("""
    comity card verify card.json  verify a card file
    comity card verify http://127.0.0.1:8420  verify the card of a node
    curl -s http://127.0.0.1:8420/card | comity card verify -  verify a card from standard input
""")
def verify(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A card file, the URL of a node, an id, or - for standard input."
        ),
    ],
    directory: Directory = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Show who signed a card, and its content. The exit code is 1 if the signature is not valid."""
    settings = settings_of(home, **{"directory.url": directory}).settings
    card = _found(settings, source)
    holds = card.verify()
    if as_json:
        print_json({"ok": holds, **_as_json(card)})
    elif holds:
        print_line(paint(f"{card.vacant_id} signed this card.", "bold green"))
        print_line()
        print_fields(_facts(card), indent="  ")
    else:
        print_fields(_facts(card))
    if not holds:
        if not as_json:
            say(
                "envelope_signature",
                f"{card.vacant_id} did not sign this card: it was changed, or somebody else made it; do not use it",
                as_json=False,
            )
        raise typer.Exit(FAILED)
    _warn_of_controls(card)


def _found(settings: Settings, target: str) -> CapabilityCard:
    access = DirectoryAccess(settings, _key_at_hand(settings))
    return asyncio.run(find_card(target, access, stdin=True))


def _key_at_hand(settings: Settings) -> SigningKey | None:
    """Return the key for cards that only their own people may read, if it needs no passphrase."""
    if not has_identity(settings.data) or needs_passphrase(settings.data):
        return None
    return load_identity(settings.data)


async def _own(
    settings: Settings, access: DirectoryAccess, passphrase_file: str | None
) -> tuple[CapabilityCard, RuntimeState]:
    card = await _own_card(settings, access.own, passphrase_file)
    return card, await current_state(settings, access.own)


async def _publish(
    settings: Settings, key: SigningKey, visibility: Visibility, passphrase_file: str | None
) -> tuple[CapabilityCard, dict[str, Any]]:
    """Return the card, and what became of it, for programs. `changed` is False when the directory had it all already."""
    access = DirectoryAccess(settings, key)
    directory = access.directory_url
    card = await _own_card(settings, access.own, passphrase_file)
    refuse_unspecified(card)
    former = await current_state(settings, access.own)
    state = former
    if visibility is not Visibility.NONE:
        active = new_state(former, RuntimeState.ACTIVE.value)  # an archived agent can only be hidden
        state = active if former is RuntimeState.LOCAL else former
    published = await publish_card(access.directory(), card, visibility, state)
    if state is not former:
        await set_state(settings, access.own, state, passphrase_file)
    return card, {
        "changed": published.changed,
        "directory": directory,
        "vacant_id": card.vacant_id.hex(),
        "event_seq": published.event_seq,
        "visibility": visibility.value,
        "capability_card_hash_hex": card.card_hash().hex(),
        "state": state.value,
        "former_state": former.value,
    }


def _visibility(text: str) -> Visibility:
    try:
        return Visibility(text.upper())
    except ValueError:
        raise ConfigError(f"--visibility must be PUBLIC, RESTRICTED or NONE, not {text[:60]!r}") from None


def _warn_of_loopback(card: CapabilityCard, directory: str) -> None:
    if is_loopback(read_url(card.endpoint or "").host) and not is_loopback(read_url(directory).host):
        note(
            f"the card names {card.endpoint}, which only this machine can reach; see --host and --endpoint of `comity up`"
        )


def _warn_of_controls(card: CapabilityCard) -> None:
    try:
        refuse_control_characters(card)
    except EnvelopeFormatError as reason:
        note(f"{reason.message}; until then no directory of ours takes it, and it is not called")


def _as_json(card: CapabilityCard) -> dict[str, Any]:
    """Return it as a node says it at /card, and more: what is printed is itself a card file."""
    return {
        "vacant_id": card.vacant_id.hex(),
        "capability_text": card.capability_text,
        "endpoint": card.endpoint,
        "halo_version": card.halo_version,
        "substrate_spec": card.substrate_spec.as_json(),
        "card_hash_hex": card.card_hash().hex(),
        "capability_card_blob_hex": serialize(card).hex(),
    }


def _facts(card: CapabilityCard) -> list[tuple[str, str]]:
    spec = card.substrate_spec
    facts = [
        ("agent", card.vacant_id.hex()),
        ("offers", one_line(card.capability_text) or "not stated"),
        ("endpoint", paint(one_line(card.endpoint), "cyan") if card.endpoint else "none"),
        ("runs on", one_line(", ".join(spec.allowed_substrates))),
        ("policy", one_line(msgspec.json.encode(spec.policy).decode()) if spec.policy else ""),
        ("card hash", card.card_hash().hex()),
        ("signature", paint("valid", "green") if card.verify() else paint("NOT VALID", "bold red")),
    ]
    return [(name, value) for name, value in facts if value]


async def _own_card(settings: Settings, own: OwnNode | None, passphrase_file: str | None) -> CapabilityCard:
    if own is None:
        return _card_to_be(settings, passphrase_file)
    try:
        shown = await own.ask("GET", CARD_PATH)
    except NotFoundError:
        raise NotFoundError(f"the node at {own.url} serves no agent; {_HOW_TO_SERVE}") from None
    card = read_card(strict_json.dumps(shown), own.url)
    if card.vacant_id.hex() != own.vacant_id or not card.verify():
        raise EnvelopeSignatureError(f"what the node at {own.url} shows is not a card of its own; restart it")
    return card


def _card_to_be(settings: Settings, passphrase_file: str | None) -> CapabilityCard:
    agent = settings.agent
    if not agent.behaviour:
        raise NotFoundError(f"no agent is served here; {_HOW_TO_SERVE}")
    if not settings.port:
        raise NotFoundError(
            "with port 0 the address is known only while the node runs; start it: `comity up`"
        )
    scheme = "https" if settings.tls.cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    endpoint = agent.endpoint or f"{scheme}://{host}:{settings.port}{MESSAGE_SEND_PATH}"
    key = own_key(settings, passphrase_file)
    return make_card(key, agent.offer, endpoint, read_own_line(settings.data, key.vacant_id).policy())
