"""`comity version`: what to write into a report."""

import platform

from comity.release import __version__
from comity.runtime.opening import SQLITE_VERSION
from comity.terminal.help import HelpfulApp
from comity.terminal.options import Json
from comity.terminal.output import print_fields, print_json

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
        "sqlite": SQLITE_VERSION,
        "platform": platform.platform(),
    }
    if as_json:
        print_json(facts)
    else:
        print_fields(facts.items())
