"""`comity mcp`: MCP on standard input and output, for a client that starts it.

It joins the node that runs on the data folder, so that all clients, the command line and the pages share sessions
and identity. Where none runs, it is one by itself, and opens a room when it is first used.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import to_builtins

from comity.mcp.socket import MAX_LIMIT, MESSAGE_LIMIT, Opening
from comity.release import __version__
from comity.rooms.protocol.loose_values import read_boolean
from comity.rooms.protocol.tool_table import Demands, read_profile
from comity.rooms.tools import select
from comity.runtime.lazy import late
from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, ToolGroups, option, read_groups, settings_of, whole_number
from comity.wire.errors import ConfigError, PeerError

if TYPE_CHECKING:
    from comity.node import mcp_server
    from comity.node.commands import mcp_attach, mcp_guest
    from comity.store import claim
    from comity.vcp.protocol import built_in
else:
    built_in = late("comity.vcp.protocol.built_in")
    mcp_attach = late("comity.node.commands.mcp_attach")
    mcp_guest = late("comity.node.commands.mcp_guest")
    mcp_server = late("comity.node.mcp_server")
    claim = late("comity.store.claim")

app = HelpfulApp()

_RELEASE_SECONDS = 0.5
_POLL_SECONDS = 0.01


@app.add("""
    comity mcp  serve a client on standard input and output
    comity mcp --tool-profile core  without the tools for files and shared state
    comity mcp --tools vcp,actions  offer only these groups of tools
    comity mcp --vcp personal,torch  with these VCP extensions, for a client that does not negotiate
    comity install claude-code  register this command with a client
""")
def mcp(
    tool_profile: Annotated[
        str | None,
        option(
            "--tool-profile",
            "PROFILE",
            "Which vdo_* tools to offer: core, file, state, full or extended. Default: full. Variable: "
            "VDON_MCP_TOOL_PROFILE.",
        ),
    ] = None,
    rooms: ToolGroups = None,
    vcp: Annotated[
        str | None,
        option(
            "--vcp",
            "A,B",
            "The VCP extensions for a client that does not negotiate them itself: personal, relational, consensus, "
            "torch, intent. Default: none.",
        ),
    ] = None,
    max_message_bytes: Annotated[
        str | None,
        option(
            "--max-message-bytes",
            "N",
            "The largest message in bytes. Default: 1048576. Variable: VDON_MCP_MAX_MESSAGE_BYTES.",
        ),
    ] = None,
    join_token_secret: Annotated[
        str | None,
        option(
            "--join-token-secret",
            "SECRET",
            "The secret that verifies join tokens. The variable VDON_MCP_JOIN_TOKEN_SECRET is safer: other users of "
            "this machine can see options.",
        ),
    ] = None,
    enforce_join_token: Annotated[
        str | None,
        option(
            "--enforce-join-token",
            "BOOL",
            "true: refuse peers without a valid join token. Default: false. Variable: VDON_MCP_ENFORCE_JOIN_TOKEN.",
        ),
    ] = None,
    allow_peer_stream_ids: Annotated[
        str | None,
        option(
            "--allow-peer-stream-ids",
            "A,B",
            "Accept only peers with these stream ids. Default: all peers. Variable: VDON_MCP_ALLOW_PEER_STREAM_IDS.",
        ),
    ] = None,
    require_session_mac: Annotated[
        str | None,
        option(
            "--require-session-mac",
            "BOOL",
            "true: drop messages without a message authentication code (MAC). Default: false. Variable: "
            "VDON_MCP_REQUIRE_SESSION_MAC.",
        ),
    ] = None,
    home: HomeOptions = HomeOptions(),
) -> None:
    """Serve MCP on standard input and output. An MCP client starts this command; you rarely type it yourself.

    If a node runs on the data folder, the client works through that node and shares its identity and sessions. If no node
    runs, this command does the work itself until the client ends it.
    """
    opening = Opening(
        groups=None if rooms is None else read_groups(rooms),
        profile=_given("--tool-profile", tool_profile, read_profile, "full"),
        max_message_bytes=_given("--max-message-bytes", max_message_bytes, _limit, MESSAGE_LIMIT),
        demands=to_builtins(
            Demands(
                join_token_secret=_given("--join-token-secret", join_token_secret, _text, None),
                enforce_join_token=_given("--enforce-join-token", enforce_join_token, _yes_no, False),
                require_session_mac=_given("--require-session-mac", require_session_mac, _yes_no, False),
                allow_peer_stream_ids=_given("--allow-peer-stream-ids", allow_peer_stream_ids, _names, ()),
            )
        ),
        folder=_folder(),
        vcp=() if vcp is None else _extensions(vcp),
    )
    select(Demands(), opening)  # raises where the options contradict each other
    settings = settings_of(home).settings
    if "mcp" in settings.off:
        raise ConfigError(mcp_server.Mcp.off_sentence())
    _explain_on_terminal()
    link = _running(settings.data, opening)
    if link is not None:
        _forward_until_end(settings.data, link)
    else:
        mcp_guest.serve_alone(settings, opening)


def _forward_until_end(folder: Any, link: Any) -> None:
    if not mcp_attach.pump(link) and _is_gone(folder):
        raise PeerError(
            "the node that this client was connected to has stopped; start it again with `comity up`, or "
            "start the client again to go on without it"
        )


def _is_gone(folder: Any) -> bool:
    """Return whether the node has ended. Its connections break a moment before the system releases its lock, so we look more
    than once.
    """
    deadline = time.monotonic() + _RELEASE_SECONDS
    while claim.running_node(folder) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _explain_on_terminal() -> None:
    """Tell a person who started this on a terminal that it waits for an MCP client."""
    if os.environ.get("VDON_MCP_NO_STARTUP_BANNER") or not all(map(os.isatty, (0, 1, 2))):
        return
    sys.stderr.write(
        f"Comity {__version__} serves MCP on standard input and output.\n"
        "It waits for messages of a client, one per line; Ctrl-D or Ctrl-C ends it.\n"
        "`comity install` lets Claude Code, Codex, Cursor and others start it by themselves.\n"
    )
    sys.stderr.flush()


def _running(folder: Any, opening: Opening) -> Any:
    node = claim.running_node(folder)
    if node is None or not node.mcp_socket:
        return None
    return mcp_attach.attach(node.mcp_socket, opening)


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - one import less before the first answer
    except OSError:  # it was removed meanwhile
        return None


def _given(flag: str, typed: str | None, read: Any, otherwise: Any) -> Any:
    """Read the flag, else its variable, else the default. An error names the flag or the variable that was used."""
    variable = "VDON_MCP_" + flag[2:].replace("-", "_").upper()
    if typed is not None:
        return read(typed, flag)
    stated = os.environ.get(variable, "")
    return read(stated, variable) if stated.strip() else otherwise


def _limit(text: str, name: str) -> int:
    return whole_number(name, text.strip(), 1, MAX_LIMIT)


def _yes_no(text: str, name: str) -> bool:
    answer = read_boolean(text)
    if answer is None:
        raise ConfigError(f"{name} must be true or false, not {text[:60]!r}")
    return answer


def _names(text: str, _name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _extensions(text: str) -> tuple[str, ...]:
    named = _names(text.lower(), "--vcp")
    unknown = [name for name in named if name not in built_in.NAMES]
    if unknown or not named:
        raise ConfigError(f"--vcp must name extensions among {', '.join(built_in.NAMES)}, not {text[:60]!r}")
    return tuple(f"VCP-X-{name.capitalize()}" for name in named)


def _text(text: str, _name: str) -> str | None:
    return text.strip() or None
