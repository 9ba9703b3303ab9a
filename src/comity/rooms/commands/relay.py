"""`comity relay`: what peers need that have no node in common: signalling, STUN, and TURN where they cannot reach each other.

Every node has the signalling at /signal. This is the same with STUN and TURN beside it, and logins that end by themselves.
What the relay keeps is a secret and a certificate; all logins are derived from the secret.
"""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from comity.http.asgi import App, Receive, Scope, Send, answer_json
from comity.http.guard import Guard, HttpAccess, TokenHolder
from comity.http.server import HttpServer
from comity.identity.private_files import ensure_private_folder, read_or_create_private
from comity.identity.secrets import load_or_create_token, new_token, same_token
from comity.requests.budget import Budget
from comity.rooms.doors import SIGNAL_PATH, SignallingDoor
from comity.rooms.protocol.relay import SignallingRelay
from comity.rooms.protocol.relay_line import RelayLine, check_relay_name, split_relay_token
from comity.runtime.lazy import late
from comity.runtime.settings_file import default_data_folder
from comity.runtime.system_clock import SystemClock
from comity.system import is_loopback
from comity.terminal.help import HelpfulApp
from comity.terminal.logs import write_logs
from comity.terminal.options import Data, Json, TlsCert, TlsKey, fast_loop, option, whole_number
from comity.terminal.output import note, print_fields, print_json, print_line
from comity.turn.protocol import access
from comity.turn.service import TurnService, TurnSettings, own_address
from comity.wire.errors import ConfigError

if TYPE_CHECKING:
    from comity.identity import certificates
else:
    certificates = late("comity.identity.certificates")

app = HelpfulApp()

DEFAULT_PORT: Final = 8421
BODY_LIMIT: Final = 4096
SHUTDOWN_SECONDS: Final = 2.0
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - with --public
FOLDER: Final = "relay"
SECRET_FILE: Final = "relay-secret"  # noqa: S105 - the name of a file
DEFAULT_NAME: Final = "everybody"


@app.add("""
    comity relay  run a relay for programs on this machine
    comity relay --public  run a relay for other machines, and print the line by which nodes use it
    comity relay --public --name relay.example.org --tls-cert cert.pem --tls-key key.pem  the same with a name and a certificate of your own
    comity relay --public --line bob  print a line for bob, whose use is limited by itself; the relay may be running
""")
def relay(
    host: Annotated[
        str | None,
        option(
            "--host", "HOST", "The address to listen on. Default: 127.0.0.1; with --public every address."
        ),
    ] = None,
    port: Annotated[
        str | None,
        option(
            "--port",
            "PORT",
            "The port of the signalling; STUN and TURN have the next one. Default: 8421. 0: any free ports.",
        ),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Serve other machines, with TLS, for those who have a line.")
    ] = False,
    name: Annotated[
        list[str] | None,
        option("--name", "HOST", "A host name by which clients reach the relay. You can repeat this option."),
    ] = None,
    address: Annotated[
        str | None,
        option(
            "--address",
            "IP",
            "The address of this machine as others see it, where a router in front of it translates addresses.",
        ),
    ] = None,
    lan: Annotated[
        bool, typer.Option("--lan", help="Relay to private addresses too, for a network of your own.")
    ] = False,
    line: Annotated[
        str | None,
        option("--line", "NAME", "Print the line for a name and stop. Each name has limits of its own."),
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: Annotated[
        str | None,
        option(
            "--token-file",
            "FILE",
            "The file with one more token that clients of the signalling may send. It is created if it does not exist.",
        ),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Run a relay: it forwards the handshakes of peers, and what they send where they cannot reach each other.

    Peers connect directly wherever their routers allow it. What passes through the relay is encrypted between them.
    """
    host = host or (EVERYWHERE if public else "127.0.0.1")
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key must be used together; give both or neither")
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ConfigError("--address must be an IP address; a host name goes to --name") from None
    whole_port = DEFAULT_PORT if port is None else whole_number("--port", port, 0, 65_535)
    folder = _folder(data)
    place = _Place(
        host=host,
        port=whole_port,
        names=tuple(name or ()),
        address=address or own_address(host),
        cert=None if tls_cert is None else Path(tls_cert),
        key=None if tls_key is None else Path(tls_key),
    )
    pin = None
    if not is_loopback(host) and place.cert is None:
        own = certificates.load_or_make_certificate(folder, dt.datetime.now(dt.UTC))
        place.cert, place.key, pin = own.cert, own.key, own.pin
    secret = read_or_create_private(folder / SECRET_FILE, lambda: new_token().encode() + b"\n").strip()
    if line is not None:
        if not whole_port:
            raise ConfigError("--line needs the port of the relay; give --port")
        print_line(place.line_for(secret, check_relay_name(line), whole_port, whole_port + 1, pin))
        return
    write_logs("info", as_json=as_json)
    token = None if token_file is None else load_or_create_token(Path(token_file))
    server = HttpServer(host, whole_port, cert=place.cert, key=place.key)
    turn = TurnService(
        TurnSettings(
            host=host,
            port=0 if not whole_port else whole_port + 1,
            advertised=() if address is None else (address,),
            lan=lan,
        ),
        secret,
        SystemClock(),
    )
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_serve(place, server, turn, secret, token, pin, as_json=as_json))


class _Place:
    """Where the relay is, as others name it."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        names: tuple[str, ...],
        address: str,
        cert: Path | None,
        key: Path | None,
    ) -> None:
        self.host = host
        self.port = port
        self.names = names
        self.address = address
        self.cert = cert
        self.key = key

    @property
    def shown(self) -> str:
        named = self.names[0] if self.names else self.address
        return f"[{named}]" if ":" in named else named

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names that may stand in `Host`."""
        return (self.host, self.address, *self.names)

    def url(self, port: int) -> str:
        return f"{'ws' if self.cert is None else 'wss'}://{self.shown}:{port}{SIGNAL_PATH}"

    def line_for(self, secret: bytes, name: str, port: int, turn_port: int, pin: str | None) -> str:
        turn = f"turn:{self.shown}:{turn_port}"
        return RelayLine(
            url=self.url(port),
            name=name,
            secret=access.secret_of_name(secret, name),
            pin=pin,
            turn=(f"{turn}?transport=udp", f"{turn}?transport=tcp"),
        ).line()


def _folder(data: str | None) -> Path:
    """Return the folder of the relay, in the data folder of the user."""
    given = data or os.environ.get("COMITY_DATA")
    base = Path(given).expanduser() if given else default_data_folder(os.environ, Path.home, sys.platform)
    ensure_private_folder(base)
    ensure_private_folder(base / FOLDER)
    return base / FOLDER


def _token_checker(secret: bytes, token: str | None) -> Callable[[str], bool]:
    clock = SystemClock()

    def knows(given: str) -> bool:
        if token is not None and same_token(given, token):
            return True
        user, password = split_relay_token(given)
        name = access.name_of_user(user.encode("utf-8", "replace"), clock.now())
        if name is None:
            return False
        return same_token(password, access.password_of_user(access.secret_of_name(secret, name), user))

    return knows


async def _serve(
    place: _Place,
    server: HttpServer,
    turn: TurnService,
    secret: bytes,
    token: str | None,
    pin: str | None,
    *,
    as_json: bool,
) -> None:
    clock = SystemClock()
    knows = _token_checker(secret, token)
    budget = Budget(clock)
    needs_token = token is not None or not is_loopback(place.host)
    door = SignallingDoor(SignallingRelay(), clock, budget, knows_token=knows, needs_token=needs_token)
    guard = Guard(
        _paths(door),
        HttpAccess(
            lambda given: TokenHolder("admin") if knows(given) else None,
            clock,
            port=server.port,
            secure=False,
        ),
        is_public=lambda _path: True,
        body_limit=BODY_LIMIT,
        hosts=place.hosts,
        budget=budget,
    )
    stopping = asyncio.Event()
    for asked in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows has Ctrl-C only
            asyncio.get_running_loop().add_signal_handler(asked, stopping.set)
    try:
        await turn.start()
        await server.start(guard, shutdown_seconds=SHUTDOWN_SECONDS, websockets=(SIGNAL_PATH,))
        line = place.line_for(secret, DEFAULT_NAME, server.port, turn.port, pin)
        address = place.url(server.port)
        if as_json:
            print_json(
                {"ready": True, "url": address, "turn": f"turn:{place.shown}:{turn.port}", "line": line}
            )
        else:
            print_line("The relay is running.")
            turn_shown = f"{place.shown} port {turn.port}, UDP and TCP"
            print_fields(
                (("address", address), ("STUN and TURN", turn_shown), ("stop", "Ctrl-C")), indent="  "
            )
            print_line("Nodes use it with this line, which is a secret:")
            print_line(line)
            _note_reach(place)
            sys.stdout.flush()
        await stopping.wait()
    finally:
        await turn.stop()
        await server.stop()


def _note_reach(place: _Place) -> None:
    """Say who can reach the relay, if that is not everybody."""
    if is_loopback(place.host):
        note("only programs on this machine can reach it; --public serves other machines")
    elif not place.names and not access.may_be_peer(place.address, lan=False):
        note(
            f"{place.address} is a private address: only this network reaches it; on a machine with a public address behind a "
            "router give --address IP, or --name HOST"
        )


def _paths(door: App) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "websocket" and path == SIGNAL_PATH:
            await door(scope, receive, send)
        elif scope["type"] == "http" and path == "/healthz":
            await answer_json(send, {"ok": True})
        elif scope["type"] == "http":
            missing = {
                "detail": f"there is nothing at this path; connect to {SIGNAL_PATH}",
                "code": "not_found",
            }
            await answer_json(send, missing, 404)
        else:
            await send({"type": "websocket.close", "code": 1008})

    return app
