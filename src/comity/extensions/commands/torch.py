"""`comity torch`: hand over what two sides have built up to the next session, and take it on (vcp 6.4, ruling 50)."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from comity.terminal.help import HelpfulApp
from comity.terminal.options import Json, KeyOptions, argument, option
from comity.terminal.output import counted, note, one_line, print_fields, print_json, print_line, print_table
from comity.wire import strict_json
from comity.wire.errors import ConfigError, InvalidError, MalformedError

app = HelpfulApp(
    "Pass the result of a session on to the next one, as a torch.\n\n"
    "A torch is a small signed JSON file. It says how the last session went and how many sessions came before. A session "
    "that takes it starts with the trust that the earlier sessions built, instead of from zero."
)

_LARGEST = 65_536


@app.add("""
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


@app.add("""
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


@app.add("""
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
    from comity.extensions.commands.target import own_extensions
    from comity.terminal.open_target import work_with

    return work_with(own_extensions, home, work)


def _read_torch(file: str) -> dict[str, Any]:
    try:
        if file == "-":
            text = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(file).expanduser().open("rb") as held:
                text = held.read(_LARGEST + 1)
    except OSError as fault:
        raise ConfigError(f"{file} cannot be read: {fault.strerror}") from None
    if len(text) > _LARGEST:
        raise InvalidError(f"{file} has more than {_LARGEST:,} bytes; a torch is much smaller")
    try:
        torch = strict_json.loads(text, unique_keys=True)
    except MalformedError as fault:
        raise InvalidError(f"{file} is not valid JSON: {fault.message}") from None
    if not isinstance(torch, dict) or not isinstance(torch.get("quality_description"), str):
        raise InvalidError(f"{file} is not a torch; `comity torch give` prints one")
    return torch
