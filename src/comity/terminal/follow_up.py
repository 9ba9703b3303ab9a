"""Commands to type next: each gets the flags of this command line that lead to the same node."""

import re

_WITHOUT_FOLDER = re.compile(r"comity (--|COMMAND\b|version\b|demo\b|actions\b|relay\b|restore\b)")
_WITHOUT_CONFIG = re.compile(r"comity (un)?install\b")
_COMMAND = re.compile(r"`(comity [^`]*)`")


class Given:
    """The flags of this command line that lead to its node, for commands that are to be typed next."""

    data = ""
    config = ""

    @classmethod
    def forget(cls) -> None:
        """Clear the flags before the next command line in the same program."""
        cls.data = cls.config = ""


def follow_up(command: str) -> str:
    """Return a command to type next, with the flags of this one that lead to the same node."""
    if _WITHOUT_FOLDER.match(command) or " --data" in command or " --help" in command:
        return command
    return command + Given.data + ("" if _WITHOUT_CONFIG.match(command) else Given.config)


def with_flags(message: str) -> str:
    """Add the flags to each command that a message names in backquotes."""
    return _COMMAND.sub(lambda found: f"`{follow_up(found[1])}`", message)
