"""The command line. Each command imports only what it runs."""

import sys
from typing import NoReturn

from comity.cli.app import run


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))
