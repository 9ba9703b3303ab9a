"""The part `outside`: the door of this node for other machines, and the commands of the owner about it."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Struct

from comity.requests.owner_handler import OwnerHandler
from comity.runtime.lazy import late
from comity.runtime.part import CheckResult, Chore, Panel, Part
from comity.runtime.settings import HOST, NAMED_HOST, Settings, list_of, text, whole
from comity.wire.errors import ComityError

if TYPE_CHECKING:
    from starlette import routing

    from comity.http import app
    from comity.identity import certificates
    from comity.outside import door
    from comity.requests import metrics as numbers
    from comity.runtime.node_runtime import NodeRuntime
else:
    app = late("comity.http.app")
    certificates = late("comity.identity.certificates")
    door = late("comity.outside.door")
    numbers = late("comity.requests.metrics")
    routing = late("starlette.routing")

OUTSIDE_PATH: Final = "/v1/outside"
RENEW_PATH: Final = "/v1/outside/renew"
_ADDRESSES_EVERY: Final = 30.0


class OutsideSettings(Struct, frozen=True, kw_only=True):
    """`on` opens the door for all open paths. `listen` empty: all addresses; `port` 0: the one after the node's. `addresses`
    are further names of this machine, which invites and the card name first.
    """

    on: bool = False
    listen: Annotated[str, text("an address of this machine, or nothing for all", f"|{HOST}")] = ""
    port: Annotated[int, whole(0, 65_535)] = 0
    addresses: Annotated[
        tuple[str, ...],
        list_of(
            text(
                "a host name or address, with a port if it is another one", f"({NAMED_HOST})(:[0-9]{{1,5}})?"
            )
        ),
    ] = ()


class Outside(Part):
    name = "outside"
    settings = OutsideSettings
    paths = (OUTSIDE_PATH,)

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        yield check_certificate(settings)

    async def open(self, runtime: "NodeRuntime") -> None:
        self._listener: door.Listener | None = None
        if runtime.guest:
            return
        listener = self._listener = door.Listener(runtime, runtime.settings.of(OutsideSettings))
        runtime.outside = listener
        self._addresses: list[str] = []
        self.chores = [Chore(_ADDRESSES_EVERY, self._look_at_addresses)]

    async def serve(self, runtime: "NodeRuntime") -> None:
        listener = self._listener
        assert listener is not None, "a guest serves nothing"
        runtime.stack.push_async_callback(listener.stop)
        limit = runtime.settings.http.body_limit
        handlers = {
            OUTSIDE_PATH: OwnerHandler("outside", self._switch, flag="open"),
            RENEW_PATH: OwnerHandler("outside", self._renew),
        }
        self.routes = [
            routing.Route(path, app.HandlerRoute(handler, runtime.pipeline, limit))
            for path, handler in handlers.items()
        ]
        await listener.open_again()

    async def _switch(self, *, open: bool | None = None) -> dict[str, Any]:  # noqa: A002 - the member of the body
        assert self._listener is not None, "a guest serves nothing"
        if open is not None:
            await self._listener.switch(on=open)
        return self._status()

    async def _renew(self) -> dict[str, Any]:
        assert self._listener is not None, "a guest serves nothing"
        await self._listener.renew()
        return self._status()

    def _status(self) -> dict[str, Any]:
        listener = self._listener
        assert listener is not None, "a guest serves nothing"
        return {
            "open": listener.is_open,
            "paths": ("all" if listener.serves_all else "meeting") if listener.is_open else "none",
            "addresses": listener.addresses(),
            "port": listener.port,
            "pin": listener.pin,
            "reasons": [*listener.reasons],
        }

    async def _look_at_addresses(self) -> None:
        """Notice that this machine came into another network."""
        assert self._listener is not None, "a guest has no chores"
        now = self._listener.addresses()
        if now != self._addresses:
            self._addresses = now
            self._listener.notify()

    def metrics(self) -> "Iterable[numbers.Metric]":
        if self._listener is not None:
            yield numbers.Metric(
                "comity_outside_open",
                "Whether the door for other machines is open.",
                int(self._listener.is_open),
            )

    async def panel(self) -> Panel | None:
        if self._listener is None:
            return None
        now = self._status()
        rows = [("state", _STATES[now["paths"]])]
        if now["open"]:
            rows += [("address", each) for each in now["addresses"]]
            rows += [("pin", now["pin"]), ("open for", ", ".join(now["reasons"]))]
        return Panel("Outside door", rows)


_STATES: Final = {
    "all": "open: all open paths",
    "meeting": "open: meeting in rooms and signed calls",
    "none": "closed",
}


def check_certificate(settings: Settings) -> CheckResult:
    """Return whether the certificate of the door can be used; it is no fault if there is none yet."""
    folder = settings.data
    if not os.path.lexists(folder / certificates.KEY_FILE):
        return CheckResult(
            "outside door", "ok", "no certificate yet; it is made when the door is first opened"
        )
    try:
        own = certificates.read_certificate(folder)
    except ComityError as refusal:
        return CheckResult("outside door", "fail", refusal.message)
    return CheckResult(
        "outside door", "ok", f"its certificate is good until {own.until:%Y-%m-%d}; pin {own.pin}"
    )
