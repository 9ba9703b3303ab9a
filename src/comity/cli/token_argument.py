"""How a VCP/I token is given to a command: as it is, or by the file that holds it.

What is typed can be seen by other users of the machine while the command runs; a file cannot, and has to be
closed to them.
"""

import sys
from pathlib import Path
from typing import Final

from comity.cli.screen import one_line
from comity.core.errors import KeyRefusedError

FROM_FILE: Final = "@"
_STDIN: Final = "-"
_LONGEST: Final = 65_536


def read_token(written: str) -> str:
    """TOKEN, @FILE, or @- for standard input. Whether it is good is for others to say."""
    if not written.startswith(FROM_FILE):
        return written.strip()
    from comity.keys.private import read_private

    name = written.removeprefix(FROM_FILE)
    data = sys.stdin.buffer.read(_LONGEST) if name == _STDIN else read_private(Path(name).expanduser())
    words = data.decode("ascii", "replace").split()
    if len(words) != 1:
        raise KeyRefusedError(f"{one_line(written)} holds no VCP/I token; put one there and nothing else")
    return words[0]
