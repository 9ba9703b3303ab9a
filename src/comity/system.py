"""What is around Comity: optional packages, modules that the user names, addresses of this machine."""

import importlib.util
import ipaddress
import os
import shlex
import sys
from functools import lru_cache
from types import ModuleType


def install_command(*packages: str) -> str:
    """What to type to add these to this very installation, whichever way Comity was installed."""
    python, named = shlex.quote(sys.executable), shlex.join(packages)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install {named}"
    return f"uv pip install --python {python} {named}"


def import_user_module(name: str) -> ModuleType:
    """Looked for in the working folder first, as `python -m` does. It may raise anything."""
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def is_missing(name: str, error: ModuleNotFoundError) -> bool:
    """Whether the module itself was not found, and not one that it imports."""
    return error.name is not None and (name == error.name or name.startswith(f"{error.name}."))


@lru_cache(4096)  # asked for every message
def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can use this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_unspecified(host: str) -> bool:
    """Whether it stands for all addresses of a machine, such as 0.0.0.0."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
