"""The command line. Each command imports only what it runs."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    from comity.cli.app import run

    sys.exit(run(sys.argv[1:]))
