"""`comity torch`: hand over what two sides have built up to the next session, and take it on (vcp 6.4, ruling 50)."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.help import HelpfulApp
from comity.cli.options import Json, KeyOptions
from comity.cli.screen import note, one_line, print_fields, print_json, print_line, print_table
from comity.core.errors import ConfigError, InvalidError, MalformedError
from comity.core.wire import strict_json

app = HelpfulApp(
    "Hand over the relation between you and your models from one session to the next: trust, norms, how it went."
)

_LARGEST = 65_536

TorchFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A file with a torch; - reads standard input.")
]


@app.add("""
    comity torch show  the torches so far, and the trust that sessions have built
    comity torch show --json  print JSON
""")
def show(home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """Show the torches of your sessions with this node, and how far the relation has come."""
    lineage, relation = _run(home, lambda own: own.relation())
    if as_json:
        import msgspec

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
    comity torch give > torch.json  hand over a torch
    comity torch give --to 1f0c…  one that only this node may take
""")
def give(
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="ID", help="The id of the only node that may take it."),
    ] = None,
    home: KeyOptions = KeyOptions(),
) -> None:
    """Print a torch, signed by this node. It may be taken once, within a day."""
    torch = _run(home, lambda own: own.perform("torch.generate", to=to))
    print_json(torch)


@app.add("""
    comity torch take torch.json  go on where an earlier session ended
    comity torch take - --json < torch.json  print JSON
""")
def take(
    file: TorchFile,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Take a torch that an earlier session of yours handed over. A torch can be taken once."""
    torch = _read_torch(file)
    receipt = _run(home, lambda own: own.perform("torch.receive", torch=torch))
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(receipt))
        return
    print_fields(
        (
            ("said", one_line(torch["quality_description"])),
            *(("prime", one_line(prime)) for prime in torch.get("primes", ())),
            ("counts", _sessions(receipt.counted) if receipt.counted else "for nothing"),
            ("trust", receipt.trust_level),
            ("standing", receipt.standing),
            ("thread", f"{_sessions(receipt.continuity_depth)} before this one"),
        )
    )
    if not receipt.signed:
        note("nobody has signed this torch; it was read, and gives nothing")
    if receipt.implausible:
        note("the torch claims more sessions than can be true; the rest does not count")


def _sessions(count: int) -> str:
    return f"{count:,} {'session' if count == 1 else 'sessions'}"


def _run(home: KeyOptions, work: Callable[[Any], Awaitable[Any]]) -> Any:
    from comity.cli.own_extensions import own_extensions
    from comity.cli.own_store import work_with

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
        raise InvalidError(f"{file} is no JSON: {fault.message}") from None
    if not isinstance(torch, dict) or not isinstance(torch.get("quality_description"), str):
        raise InvalidError(f"{file} holds no torch; `comity torch give` prints one")
    return torch
