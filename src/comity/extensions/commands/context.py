"""`comity context`: the wire formats of VCP contexts, and what this node keeps of the owner's sessions."""

from typing import Annotated, Any

import typer

from comity.terminal.help import HelpfulApp
from comity.terminal.options import Json, KeyOptions, Yes, confirm
from comity.terminal.output import one_line, print_fields, print_json, print_line
from comity.wire.errors import ConfigError, InvalidError

app = HelpfulApp(
    "Encode or decode a VCP context, or delete the data that this node has stored about your sessions.\n\n"
    "A VCP context describes the situation of a person, such as the time, the place and the company."
)


@app.add("""
    comity context encode time=morning space=office  encode a situation
    comity context encode company=children cognitive_state=foggy:3  a situation, and the state of the person with its strength
""")
def encode(
    told: Annotated[
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
    from comity.vcp.protocol.dimensions import PERSONAL_SYMBOLS, SITUATIONAL
    from comity.vcp.tool_handlers import encode_context

    values: dict[str, Any] = {}
    for pair in told:
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


@app.add("""
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
    from comity.vcp.protocol.errors import ContextError

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


@app.add("""
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
    from comity.extensions.commands.target import own_extensions
    from comity.terminal.open_target import work_with

    values = work_with(own_extensions, home, lambda own: own.forget(session))
    if as_json:
        print_json({"forgotten": values})
        return
    print_line(f"{values:,} stored {'value was' if values == 1 else 'values were'} removed.")


def _read(wire: str) -> dict[str, Any]:
    """The fields of a wire, whichever of the two it is."""
    from msgspec.structs import asdict

    from comity.vcp.protocol.categorical import PARTS, parse
    from comity.vcp.protocol.context_wire import decode as decode_wire

    if wire.count(":") == PARTS - 1 and "|" not in wire:
        return {name: value for name, value in asdict(parse(wire, "WIRE")).items() if value is not None}
    told = decode_wire(wire).json_format
    return {
        **told["situational"],
        **{name: f"{signal['value']}:{signal['intensity']}" for name, signal in told["personal"].items()},
    }
