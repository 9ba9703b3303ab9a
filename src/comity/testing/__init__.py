"""For the tests of this project and of its users: clocks, loops, chance and links that do as they are told, and
nodes that clean up after themselves.

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

_ROOMS = {
    "clock": ("EPOCH", "VirtualClock"),
    "links": ("Faults", "LinkCounts", "SimulatedLink", "simulated_pair"),
    "loop": ("DeadlockError", "SimulatedClock", "SimulatedLoop", "run_simulated"),
    "nodes": ("bearer", "node_pair", "running_node"),
    "randomness": ("Randomness", "seeded"),
    "vectors": ("format_runner", "known_keys", "named_cases", "vector_file", "vectors_folder"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{room}"), name)


def __dir__() -> list[str]:
    return __all__
