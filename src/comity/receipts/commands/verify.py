"""`comity verify`: whether receipts are true. It needs no node, no data folder, no key and no network."""

from typing import Annotated, Any, Final

import msgspec
import typer

from comity.receipts.files import read_file
from comity.receipts.protocol.verify import Grade, Verdict, verify_receipt
from comity.runtime.system_clock import SystemClock
from comity.terminal.help import HelpfulApp
from comity.terminal.options import Json, argument
from comity.terminal.output import (
    FAILED,
    one_line,
    paint,
    print_fields,
    print_json,
    print_line,
    print_table,
)
from comity.wire.errors import InvalidError

app = HelpfulApp()

NOT_VERIFIABLE: Final = 3

_STYLES: Final[dict[Grade, str]] = {"good": "green", "bad": "bold red", "not verifiable": "yellow"}
_SHOWN: Final = 50
_SHORT: Final = 12


@app.add("""
    comity verify receipt.json  say whether a receipt is true, and what it proves
    comity verify *.json --json  print JSON; the exit code is 0 if all are good, 1 if one is bad
    comity verify - < receipt.json  read the receipt from standard input
""")
def verify(
    files: Annotated[list[str], argument("FILE", "The files of receipts; - reads standard input.")],
    as_json: Json = False,
) -> None:
    """Verify receipts offline: of calls, messages of rooms, votes, agreements and parts of an audit record.

    This needs no node, no data folder and no network, only the public keys in the receipt. The exit code is 0 if all are
    good, 1 if one is bad, and 3 if one cannot be verified, for example because its texts were withheld.
    """
    found = [(name, _verified(name)) for name in files]
    if as_json:
        ok = all(verdict.verdict == "good" for _, verdict in found)
        print_json({"ok": ok, "receipts": [_as_json(name, verdict) for name, verdict in found]})
    else:
        for place, (name, verdict) in enumerate(found):
            if place:
                print_line()
            _print(name, verdict)
    verdicts = {verdict.verdict for _, verdict in found}
    if "bad" in verdicts:
        raise typer.Exit(FAILED)
    if "not verifiable" in verdicts:
        raise typer.Exit(NOT_VERIFIABLE)


def _verified(name: str) -> Verdict:
    try:
        return verify_receipt(read_file(name), SystemClock().now())
    except InvalidError as fault:
        return Verdict(verdict="bad", reason=fault.message)


def _as_json(name: str, verdict: Verdict) -> dict[str, Any]:
    return {"file": name, **msgspec.to_builtins(verdict)}


def _print(name: str, verdict: Verdict) -> None:
    kind = f", {_a(verdict.kind)}" if verdict.kind else ""
    grade = paint(verdict.verdict, _STYLES[verdict.verdict])
    reason = f": {one_line(verdict.reason)}" if verdict.reason else ""
    print_line(f"{one_line(name)}{kind}: {grade}{reason}")
    if verdict.statements:
        rows = [
            [
                one_line(each.time),
                each.who[:_SHORT],
                (each.to or "")[:_SHORT],
                f"{each.number:>6,}",
                one_line(each.text),
            ]
            for each in verdict.statements[:_SHOWN]
        ]
        print_table(("time", "who", "to", "number", "said"), rows)
        if len(verdict.statements) > _SHOWN:
            print_line(f"… and {len(verdict.statements) - _SHOWN:,} more; --json shows all of them.")
    if verdict.facts:
        print_fields([(fact, one_line(_words(value))) for fact, value in verdict.facts.items()], indent="  ")
    for title, sentences in (("proves", verdict.proves), ("does not prove", verdict.not_proven)):
        if sentences:
            print_line(paint(title, "bold"))
            for sentence in sentences:
                print_line(f"  {one_line(sentence)}")


def _a(kind: str) -> str:
    return {"range": "part of an audit record", "agreement": "an agreement"}.get(kind, f"a {kind}")


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
