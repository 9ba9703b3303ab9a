"""`comity version`: what to write into a report."""

import platform
from typing import TYPE_CHECKING

from comity.release import __version__
from comity.runtime.lazy import late
from comity.terminal.help import HelpfulApp
from comity.terminal.options import Json
from comity.terminal.output import print_fields, print_json

if TYPE_CHECKING:
    from comity.runtime import opening
else:
    opening = late("comity.runtime.opening")

app = HelpfulApp()


@app.add("""
    comity version  print a list
    comity version --json  print JSON
""")
def version(as_json: Json = False) -> None:
    """Show the version of Comity and what it runs on."""
    facts = {
        "comity": __version__,
        "python": platform.python_version(),
        "sqlite": opening.sqlite_version(),
        "platform": platform.platform(),
    }
    if as_json:
        print_json(facts)
    else:
        print_fields(facts.items())
