"""The rooms of this user's node, for the commands: by its address, or in this process where none runs."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from comity.requests.caller import OWN_PROCESS
from comity.rooms.part import Peers
from comity.runtime.settings import Settings
from comity.terminal.open_target import OwnNode, no_node, open_guest, open_serving, own_node
from comity.terminal.options import HomeOptions, settings_of
from comity.wire.errors import (
    InvalidError,
    NoAnswerError,
    NotFoundError,
    UnreachableError,
    UnusableAnswerError,
)

if TYPE_CHECKING:
    from comity.rooms.tool_handlers import RoomTools

POLL_MS: Final = 10_000
"""How long one question waits for events: less than an HTTP client waits for an answer."""

ROOMS_PATH: Final = "/v1/rooms"
LOOK_SECONDS: Final = 0.5
NODE_GONE: Final = (UnreachableError, NoAnswerError, UnusableAnswerError)
"""What a node that stops, starts or is not there answers."""

_Result = TypeVar("_Result")


class RoomAccess(Protocol):
    alone: bool
    """Whether the sessions end with this process."""

    async def ask(
        self, tool: str, arguments: dict[str, Any], folder: str | None = None
    ) -> dict[str, Any]: ...

    async def wait_node(self) -> None:
        """After one of `NODE_GONE`: until the node answers again."""


class JoinedRoom:
    """One of the sessions: each question is about it."""

    def __init__(self, rooms: RoomAccess, session: dict[str, Any]) -> None:
        self.rooms = rooms
        self.id = session["session_id"]
        self.room = session["room"]

    async def ask(self, tool: str, folder: str | None = None, **arguments: Any) -> dict[str, Any]:
        return await self.rooms.ask(tool, {"session_id": self.id, **arguments}, folder)

    async def peek(
        self, most: int, *, wait_ms: int = POLL_MS, after: str | None = None, only_messages: bool = False
    ) -> list[tuple[str, dict[str, Any]]]:
        """Return the next events, each with its place, and take none: they come again until they are acknowledged."""
        more: dict[str, Any] = {} if after is None else {"after": after}
        if only_messages:
            more["only_messages"] = True
        found = await self.ask("peek", max_events=most, wait_ms=wait_ms, **more)
        return list(zip(found["places"], found["events"], strict=True))

    async def acknowledge(self, place: str) -> None:
        """Say that all events up to this one were used, so that they do not come again."""
        await self.ask("acknowledge", through=place)

    async def next_message(self, seconds: float | None) -> tuple[str, dict[str, Any]]:
        """Return the next message of another and its place. It comes again until it is acknowledged. Raise TimeoutError if
        none comes within so many seconds.
        """
        clock = asyncio.get_running_loop().time
        until = None if seconds is None else clock() + seconds
        while True:
            left = POLL_MS if until is None else min(POLL_MS, round((until - clock()) * 1000))
            for message in await self.peek(1, wait_ms=max(left, 0), only_messages=True):
                return message
            if left <= 0:
                raise TimeoutError


class NodeRooms:
    """The node that runs on the data folder."""

    alone = False

    def __init__(
        self, settings: Settings, own: OwnNode, client: str, opened: contextlib.AsyncExitStack
    ) -> None:
        self._settings = settings
        self._client = client
        self._opened = opened
        self._use(own)

    def _use(self, own: OwnNode) -> None:
        self._own = own
        self._opened.push_async_callback(own.http.aclose)

    async def wait_node(self) -> None:
        while True:
            own = await asyncio.to_thread(own_node, self._settings)
            if own is not None:
                self._use(own)
                with contextlib.suppress(*NODE_GONE):
                    await self.ask("vdo_list_sessions", {})
                    return
            await asyncio.sleep(LOOK_SECONDS)

    async def ask(self, tool: str, arguments: dict[str, Any], folder: str | None = None) -> dict[str, Any]:
        body: dict[str, Any] = {"tool": tool, "arguments": arguments, "client": self._client}
        if folder is not None:
            body["folder"] = folder
        status, answer = await self._own.answer("POST", ROOMS_PATH, body)
        if status == 200:
            return answer
        sentence = answer.get("detail")
        if status == 400 and isinstance(sentence, str) and sentence:
            raise InvalidError(sentence)  # the tool's own words; which node said it does not matter
        raise self._own.refusal(status, answer)


class GuestRooms:
    """A node inside this process, that nobody else can reach."""

    alone = True

    def __init__(self, tools: "RoomTools", client: str) -> None:
        self._tools = tools
        self._client = client

    async def ask(self, tool: str, arguments: dict[str, Any], folder: str | None = None) -> dict[str, Any]:
        return await self._tools.call_by_owner(
            tool, arguments, client=self._client, caller=OWN_PROCESS, folder=folder
        )

    async def wait_node(self) -> None:
        """It is in this process."""


@contextlib.asynccontextmanager
async def open_rooms(
    settings: Settings, *, alone: bool = False, serving: bool = False, client: str | None = None
) -> AsyncIterator[RoomAccess]:
    """`alone`: where no node runs, this process is one for as long as the block lasts; `serving`: one that others can reach.
    `client` is the reader of events: one of this process, unless several that follow each other are one.
    """
    client = client or f"cli {os.getpid()}"
    async with contextlib.AsyncExitStack() as opened:
        own = await asyncio.to_thread(own_node, settings)
        if own is not None:
            yield NodeRooms(settings, own, client, opened)
        elif serving:
            runtime = await opened.enter_async_context(open_serving(settings))
            yield GuestRooms(await runtime.find(Peers).open_tools(), client)
        elif not alone:
            raise no_node(settings)
        else:
            runtime = await opened.enter_async_context(open_guest(settings))
            yield GuestRooms(await runtime.find(Peers).open_tools(), client)


async def find_session(rooms: RoomAccess, room: str | None) -> dict[str, Any]:
    """Return the open session of a room, by the room's name or the session's id; the only one if none is named."""
    sessions = (await rooms.ask("vdo_list_sessions", {}))["sessions"]
    found = [one for one in sessions if room is None or room in (one["room"], one["session_id"])]
    if len(found) == 1:
        return dict(found[0])
    if not sessions:
        raise NotFoundError("this node is in no room; join one with `comity room join`")
    names = ", ".join(sorted({one["room"] for one in sessions}))
    if not found:
        raise NotFoundError(f"this node is not in the room {room}; it is in {names}")
    ids = ", ".join(one["session_id"] for one in found)
    raise InvalidError(f"several sessions are open; name one with --room: {names if room is None else ids}")


def folder_of(path: str) -> tuple[str, str]:
    """Return the path that a person typed, whole, and the folder that it opens: the person means this very file."""
    whole = Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for a user that is not there
    whole = whole if whole.is_absolute() else Path.cwd() / whole
    return str(whole), str(whole.parent)


def run_in_rooms(
    home: HomeOptions, work: Callable[[RoomAccess], Awaitable[_Result]], client: str | None = None
) -> _Result:
    settings = settings_of(home).settings

    async def run() -> _Result:
        async with open_rooms(settings, client=client) as rooms:
            return await work(rooms)

    return asyncio.run(run())


def run_in_session(
    home: HomeOptions,
    room: str | None,
    work: Callable[[JoinedRoom], Awaitable[_Result]],
    client: str | None = None,
) -> _Result:
    """Run `work` in the session that `find_session` finds, and return its result."""

    async def run(rooms: RoomAccess) -> _Result:
        return await work(JoinedRoom(rooms, await find_session(rooms, room)))

    return run_in_rooms(home, run, client)


def ask_session(home: HomeOptions, room: str | None, tool: str, **arguments: Any) -> dict[str, Any]:
    """One question, where nothing else is to be done in the session."""
    return run_in_session(home, room, lambda session: session.ask(tool, **arguments))
