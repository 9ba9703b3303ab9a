"""`comity context` and `comity torch`: the VCP extensions of this data folder, also while its node is running.

A command acts as the node's own user, and reads and writes the database itself. If the node or another command stores
something meanwhile, the operation is applied to the new state.
"""

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import asdict

from comity.extensions.part import Extensions, extension_service
from comity.extensions.protocol.relational import RelationalReport, relational_view
from comity.extensions.protocol.torch import TorchLineage, torch_view
from comity.extensions.service import ExtensionService
from comity.requests.caller import OWN_PROCESS
from comity.requests.pipeline import Pipeline
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, own_vault, refuse_memory, refuse_off, work_with, writing
from comity.terminal.options import Json, KeyOptions, Yes, argument, confirm, option
from comity.terminal.output import counted, note, one_line, print_fields, print_json, print_line, print_table
from comity.vcp.extension_host import OperationRequest
from comity.vcp.protocol.context_wire import PERSONAL_SYMBOLS, SITUATIONAL
from comity.vcp.protocol.context_wire import decode as decode_wire
from comity.vcp.protocol.extension_calls import ExtensionError, in_words_of
from comity.vcp.protocol.signals import PARTS, ContextError
from comity.vcp.protocol.signals import parse as parse_symbols
from comity.vcp.tool_handlers import encode_context
from comity.wire import strict_json
from comity.wire.errors import ConfigError, InvalidError, MalformedError

_DOOR = "cli"


class OwnExtensions:
    def __init__(self, service: ExtensionService) -> None:
        self.own_id = service.own_id
        self._service = service
        self._session = service.own_session()

    async def perform(self, op: str, **args: Any) -> Any:
        """Run an operation; arguments that are None are left out. Raises ExtensionError."""
        given = {name: value for name, value in args.items() if value is not None}
        request = OperationRequest(op=op, args=given, session=self._session)
        return await self._service.perform(request, OWN_PROCESS, _DOOR)

    async def relation(self) -> tuple[TorchLineage, RelationalReport]:
        """Return the lineage of torches and the relation. Nothing is counted or changed."""
        call = await self._service.view(self._session)
        return torch_view(call), relational_view(call)

    async def forget(self, session_id: str | None) -> int:
        return await self._service.forget(session_id, OWN_PROCESS, _DOOR)


@contextlib.asynccontextmanager
async def own_extensions(settings: Settings, passphrase_file: str | None) -> AsyncIterator[OwnExtensions]:
    refuse_off(settings, Extensions)
    refuse_memory(settings, "what VCP extensions know is kept there")
    key, vault, clock = own_key(settings, passphrase_file), own_vault(settings), SystemClock()
    async with writing(settings, key) as (store, record, _chain):
        pipeline = Pipeline(record, clock, budget=None)
        try:
            yield OwnExtensions(extension_service(settings, pipeline, store, clock, vault, key))
        except ExtensionError as refusal:
            raise in_words_of({"to": "--to"}, refusal) from None


# `comity context`.


context_app = HelpfulApp(
    "Encode or decode a VCP context, or delete the data that this node has stored about your sessions.\n\n"
    "A VCP context describes the situation of a person, such as the time, the place and the company."
)


@context_app.add("""
    comity context encode time=morning space=office  encode a situation
    comity context encode company=children cognitive_state=foggy:3  a situation, and the state of the person with its strength
""")
def encode(
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="DIMENSION=VALUE",
            help="A dimension and its value, such as time=morning. A state of the person may end in its strength from 1 to "
            "5: energy_level=fatigued:4.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Encode a context in the VCP/A wire format, and print it. To give a dimension several values, repeat it."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name not in SITUATIONAL and name not in PERSONAL_SYMBOLS:
            known = ", ".join((*SITUATIONAL, *PERSONAL_SYMBOLS))
            raise ConfigError(f"{one_line(name[:60])!r} is not a dimension; use {known}")
        if not equals or not value:
            raise ConfigError(
                f"{pair[:60]!r} names no value; write it as DIMENSION=VALUE, such as time=morning"
            )
        values.setdefault(name, []).append(value)
    flat = {name: given[0] if len(given) == 1 else given for name, given in values.items()}
    answer = encode_context(flat)
    if answer.is_error:
        raise InvalidError(one_line(answer.structured["error"]))
    if as_json:
        print_json(answer.structured)
    else:
        print_line(answer.structured["wire_format"])


@context_app.add("""
    comity context decode "⏰🌅|📍🏢‖🧠foggy:3"  the VCP/A wire format
    comity context decode "🧑⚕️:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧"  the nine symbols of a context request
""")
def decode(
    wire: Annotated[
        str,
        typer.Argument(
            metavar="WIRE", help="The encoded context: VCP/A, or the nine symbols of a context request."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Show what an encoded context says, one line for each dimension."""
    try:
        fields = _read(wire)
    except ContextError as fault:
        raise InvalidError(fault.message) from None
    if as_json:
        print_json(fields)
        return
    if not fields:
        print_line("The context is empty.")
        return
    print_fields(
        (name, one_line(" ".join(value) if isinstance(value, list) else str(value)))
        for name, value in fields.items()
    )


@context_app.add("""
    comity context forget --session ses_1f0c  delete the data of one session
    comity context forget --mine --yes  delete everything, also trust, norms and torches, without confirmation
""")
def forget(
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Delete the stored data of this session.")
    ] = None,
    mine: Annotated[
        bool,
        typer.Option(
            "--mine",
            help="Delete the stored data of all your sessions, and what the extensions have stored about you.",
        ),
    ] = False,
    home: KeyOptions = KeyOptions(),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete the data that this node has stored about your own VCP sessions. This cannot be undone.

    Your own sessions are those of the command line and of MCP clients on this machine. The node may be running; the
    command takes effect at once.
    """
    if (session is None) is not mine:
        raise ConfigError("give either --session ID or --mine")
    if mine:
        confirm("Your sessions, trust, norms and torches are removed for good. Forget them?", yes=yes)
    values = work_with(own_extensions, home, lambda own: own.forget(session))
    if as_json:
        print_json({"forgotten": values})
        return
    print_line(f"{values:,} stored {'value was' if values == 1 else 'values were'} removed.")


def _read(wire: str) -> dict[str, Any]:
    """Return the fields of an encoded context in either of the two formats."""
    if wire.count(":") == PARTS - 1 and "|" not in wire:
        return {
            name: value for name, value in asdict(parse_symbols(wire, "WIRE")).items() if value is not None
        }
    decoded = decode_wire(wire).json_format
    return {
        **decoded["situational"],
        **{name: f"{signal['value']}:{signal['intensity']}" for name, signal in decoded["personal"].items()},
    }


# `comity torch` (vcp 6.4, ruling 50).


torch_app = HelpfulApp(
    "Pass the result of a session on to the next one, as a torch.\n\n"
    "A torch is a small signed JSON file. It says how the last session went and how many sessions came before. A session "
    "that takes it starts with the trust that the earlier sessions built, instead of from zero."
)

_MAX_BYTES = 65_536


@torch_app.add("""
    comity torch show  show the level of trust and all torches so far
    comity torch show --json  print JSON
""")
def show(home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """Show the torches of your sessions with this node, and the level of trust."""
    lineage, relation = _run(home, lambda own: own.relation())
    if as_json:
        print_json({"lineage": msgspec.to_builtins(lineage), "relation": msgspec.to_builtins(relation)})
        return
    print_fields(
        (
            ("trust", relation.trust_level),
            ("standing", relation.standing),
            ("sessions", f"{lineage.session_count:,}"),
            ("since", lineage.first_session_date or "no torch was handed over yet"),
            ("norms", f"{len(relation.established_norms):,}"),
        )
    )
    if lineage.torch_chain:
        print_line()
        rows = [(one.date, one.gestalt_token or "-", one.session_id) for one in lineage.torch_chain]
        print_table(("handed over", "gestalt", "session"), rows)


@torch_app.add("""
    comity torch give > torch.json  write a torch to a file
    comity torch give --to 31e30ef4…d13d > torch.json  write a torch that only this node can take
""")
def give(
    to: Annotated[
        str | None, option("--to", "ID", "Only the node with this id can take it. Default: any node.")
    ] = None,
    home: KeyOptions = KeyOptions(),
) -> None:
    """Print a torch, signed by this node. It can be taken once, within 24 hours."""
    torch = _run(home, lambda own: own.perform("torch.generate", to=to))
    print_json(torch)


@torch_app.add("""
    comity torch take torch.json  continue where an earlier session ended
    comity torch take - --json < torch.json  print JSON
""")
def take(
    file: Annotated[str, argument("FILE", "A file with a torch; - reads standard input.")],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Take a torch from an earlier session of yours. A torch can be taken only once."""
    torch = _read_torch(file)
    receipt = _run(home, lambda own: own.perform("torch.receive", torch=torch))
    if as_json:
        print_json(msgspec.to_builtins(receipt))
        return
    counts = counted(receipt.counted, "session", "sessions") if receipt.counted else "no session"
    print_fields(
        (
            ("said", one_line(torch["quality_description"])),
            *(("prime", one_line(prime)) for prime in torch.get("primes", ())),
            ("counts", f"as {counts}"),
            ("trust", receipt.trust_level),
            ("standing", receipt.standing),
            ("thread", f"{counted(receipt.continuity_depth, 'session', 'sessions')} before this one"),
        )
    )
    if not receipt.signed:
        note("this torch is not signed; it was read, but it does not raise the trust")
    if receipt.implausible:
        note("the torch claims more sessions than are possible; only the possible number counts")


def _run(home: KeyOptions, work: Callable[[Any], Awaitable[Any]]) -> Any:
    return work_with(own_extensions, home, work)


def _read_torch(file: str) -> dict[str, Any]:
    try:
        if file == "-":
            text = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).expanduser().open("rb") as held:
                text = held.read(_MAX_BYTES + 1)
    except OSError as fault:
        raise ConfigError(f"{file} cannot be read: {fault.strerror}") from None
    if len(text) > _MAX_BYTES:
        raise InvalidError(f"{file} has more than {_MAX_BYTES:,} bytes; a torch is much smaller")
    try:
        torch = strict_json.loads(text, unique_keys=True)
    except MalformedError as fault:
        raise InvalidError(f"{file} is not valid JSON: {fault.message}") from None
    if not isinstance(torch, dict) or not isinstance(torch.get("quality_description"), str):
        raise InvalidError(f"{file} is not a torch; `comity torch give` prints one")
    return torch
