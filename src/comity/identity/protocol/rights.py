"""The kinds of callers, and what each may do: one table, which the doors ask.

- A caller is of one kind, and the kind follows from how the caller proved itself (`docs/reference/callers.md` lists how).
  The kinds of `OWN` are ways of the node's own user; all of them own the same things.
- Every route, tool and operation that is not open to everybody names the one right that it needs. A path that names none
  needs `manage`.
- A right is never inferred from another one: what a kind may do stands in its row.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

Kind = Literal[
    "terminal",
    "model",
    "admin",
    "act",
    "read",
    "metrics",
    "browser",
    "oauth",
    "vacant",
    "vcp",
    "peer",
    "unknown",
]
Right = Literal["metrics", "read", "act", "mcp", "agents", "rooms", "manage", "secrets", "files"]
Grant = Literal["metrics", "read", "act", "admin"]
"""What a token may be made for; each is a kind of caller."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
GRANTS: Final[tuple[Grant, ...]] = get_args(Grant)

RIGHT_WORDS: Final[Mapping[Right, str]] = MappingProxyType(
    {
        "metrics": "read the figures at /metrics",
        "read": "read the page, its views, the status and the events",
        "act": "verify the audit record and call the actions",
        "mcp": "use MCP over HTTP",
        "agents": "call agents of others in the node's name",
        "rooms": "use the sessions of this node in rooms, over MCP",
        "manage": "stop the node, let browsers in, make invites, open the outside door, use rooms, set the state of the agent",
        "secrets": "change the keys of the vault, and make tokens",
        "files": "name files of this machine outside the shared folders",
    }
)

_MCP: Final[frozenset[Right]] = frozenset({"mcp", "agents", "rooms"})
_PAGE: Final[frozenset[Right]] = frozenset({"read", "act"})
_NOTHING: Final[frozenset[Right]] = frozenset()

RIGHTS_OF: Final[Mapping[Kind, frozenset[Right]]] = MappingProxyType(
    {
        "terminal": frozenset(get_args(Right)),
        "model": _MCP,
        "admin": frozenset(get_args(Right)) - {"files"},
        "act": _PAGE | _MCP,
        "read": frozenset({"read", "metrics"}),
        "metrics": frozenset({"metrics"}),
        "browser": _PAGE,
        "oauth": _NOTHING,
        "vacant": _NOTHING,
        "vcp": _NOTHING,
        "peer": _NOTHING,
        "unknown": _NOTHING,
    }
)
"""A caller without rights may use the open paths. An OAuth visitor has the rights of `SCOPES` that its token names. The tools
of a model name files by a rule of their own: those of the folder in which its client was started.
"""

SCOPES: Final[Mapping[str, Right]] = MappingProxyType({"mcp": "mcp", "agents": "agents"})
"""The scopes of an access token, and the right that each gives to a visitor."""

OWN: Final[frozenset[Kind]] = frozenset({"terminal", "model", "admin", "act", "read", "metrics", "browser"})
