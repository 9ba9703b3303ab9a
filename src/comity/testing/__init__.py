"""For the tests of this project and of its users: controlled clocks, loops, randomness and links, and nodes that clean up
after themselves.

Each name is loaded when it is first asked for. Only `comity.testing.fixtures` and running vectors need pytest.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comity.testing.links import Faults, LinkCounts, Randomness, SimulatedLink, seeded, simulated_pair
    from comity.testing.loop import (
        EPOCH,
        DeadlockError,
        SimulatedClock,
        SimulatedLoop,
        VirtualClock,
        run_simulated,
    )
    from comity.testing.nodes import bearer, node_pair, running_node
    from comity.testing.vectors import format_runner, known_keys, named_cases, vector_file, vectors_folder

__all__ = [
    "EPOCH",
    "DeadlockError",
    "Faults",
    "LinkCounts",
    "Randomness",
    "SimulatedClock",
    "SimulatedLink",
    "SimulatedLoop",
    "VirtualClock",
    "bearer",
    "format_runner",
    "known_keys",
    "named_cases",
    "node_pair",
    "run_simulated",
    "running_node",
    "seeded",
    "simulated_pair",
    "vector_file",
    "vectors_folder",
]

_MODULES = {
    "links": ("Faults", "LinkCounts", "Randomness", "SimulatedLink", "seeded", "simulated_pair"),
    "loop": ("EPOCH", "DeadlockError", "SimulatedClock", "SimulatedLoop", "VirtualClock", "run_simulated"),
    "nodes": ("bearer", "node_pair", "running_node"),
    "vectors": ("format_runner", "known_keys", "named_cases", "vector_file", "vectors_folder"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return __all__
