"""`comity csm1`: what a constitution code means."""

from typing import Annotated

import typer

from comity.terminal.help import HelpfulApp
from comity.terminal.options import Json
from comity.terminal.output import one_line, print_fields, print_json
from comity.wire.errors import InvalidError

app = HelpfulApp(
    "Explain a CSM-1 constitution code: the short form in which VCP names the rules for a model."
)


@app.add("""
    comity csm1 parse N5+E+F  show persona, adherence and scopes
    comity csm1 parse N5+E+F:ELEM@1.2.0 --json  print JSON
""")
def parse(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code, such as N5+E+F.")],
    as_json: Json = False,
) -> None:
    """Show what a code says: persona, adherence, scopes, namespace and version.

    If the code is not valid, the command prints the reason, and the exit code is 1.
    """
    from comity.vcp.tool_handlers import parse_csm1

    told = parse_csm1(code).structured
    if as_json:
        print_json(told)
        if not told["valid"]:
            raise typer.Exit(1)
        return
    if not told["valid"]:
        raise InvalidError(one_line(told["error"]))
    scopes = zip(told["scope_codes"], told["scopes"], told["scope_descriptions"], strict=True)
    print_fields(
        (
            ("persona", f"{told['persona_code']} {told['persona_name']}: {told['persona_description']}"),
            ("adherence", f"{told['adherence']} {told['adherence_name']}"),
            *(("scope", f"{letter} {name.lower()}: {meaning}") for letter, name, meaning in scopes),
            ("namespace", told["namespace"] or "none"),
            ("version", told["version"] or "none"),
            ("canonical", told["canonical"]),
            *(("warning", warning) for warning in told["warnings"]),
        )
    )
