"""Where things lie: the project, and the source of a module by its name."""

from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def file_of(module: str) -> Path:
    """The file of a module, without running it."""
    found = find_spec(module)
    assert found is not None, f"there is no module {module}"
    assert found.origin is not None, f"{module} has no file"
    return Path(found.origin)
