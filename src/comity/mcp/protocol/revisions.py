"""The revisions of MCP that are spoken, and how one is chosen.

A *legacy* revision begins with `initialize` and keeps a session; a *modern* one has neither: each request
says what it needs to be understood. The era is told from each request (ruling 26).
"""

from typing import Final

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = ("2026-07-28",)
LATEST_LEGACY: Final = LEGACY[-1]
UNSPOKEN: Final = "2025-06-18"
"""The revision for a client that sends requests without `initialize`."""
BATCHES: Final = frozenset({"2025-03-26"})

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension for work that outlives its request."""


def chosen_legacy(requested: object) -> str:
    """The client's own revision where we know it, else our latest."""
    return requested if isinstance(requested, str) and requested in LEGACY else LATEST_LEGACY
