"""The one HTTP client with which we go out to addresses that others gave us (ruling 12).

- The URL is read strictly, its host is resolved once for each connection, and every address of the host must be allowed
  (`addresses`): one bad address refuses the host. The connection is made to the address that was checked; Host, SNI and
  certificate stay those of the name. Because the check sits where connections are made, the name cannot lead elsewhere later.
- A URL with a pin (`https://PIN@host`) reaches only who shows that key. No authority has to vouch for it, and where the owner
  named it, it may be a private address. The pin is checked before anything is sent, and never replaced by a certificate.
- Connections are kept by scheme, name, port and pin, and not by address: what was proven for one name by a
  certificate is never used for another.
- No redirect is followed, no proxy is taken from the environment, no cookie is kept, nothing is
  decompressed. An answer that is too large is dropped while it is read.
- Connections belong to the event loop that made them; they are closed with it, or by `aclose` before.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from comity.http.addresses import AllowList, HttpUrl, read_url
from comity.http.pins import pin_mismatch_in
from comity.wire import strict_json
from comity.wire.errors import NoAnswerError, PinRefusedError, UnreachableError, UnusableAnswerError

if TYPE_CHECKING:
    import httpcore

    from comity.http.client_network import Resolve

TIMEOUT: Final = 60.0
CONNECT_TIMEOUT: Final = 10.0
ANSWER_LIMIT: Final = 4 * 1024 * 1024

PIN_MARK: Final = "#"
"""Between host and pin in the name under which a connection is kept; no host has it."""

_CONNECTIONS: Final = 256
_IDLE_SECONDS: Final = 30.0


class HttpResponse(Struct, frozen=True):
    """`headers` have lower-case names; of repeated ones the last counts."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpCarrier(Protocol):
    """What carries our requests; `GuardedHttp` does."""

    async def request(
        self, method: str, url: str, json: Any = None, headers: Any = None, *, body: bytes | None = None
    ) -> HttpResponse: ...


class StreamedAnswer(NamedTuple):
    """An answer whose body has not been read yet."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncIterable[bytes]


class GuardedHttp:
    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        allow_loopback: bool = False,
        timeout: float = TIMEOUT,
        answer_limit: int = ANSWER_LIMIT,
        resolve: "Resolve | None" = None,
        tls: ssl.SSLContext | None = None,
        unix_socket: Path | None = None,
        pinned_private: bool = False,
    ) -> None:
        """`allow` names hosts, addresses and networks that may be called although they are not public. `pinned_private`: so may
        private addresses with a pin, because the owner names them. `timeout` is for a
        whole request, from resolving the name to the last byte. With `unix_socket` every request goes there.
        """
        self._allowed = AllowList(allow, loopback=allow_loopback, pinned_private=pinned_private)
        self._timeout = timeout
        self._limit = answer_limit
        self._resolve = resolve
        self._tls = tls
        self._unix_socket = unix_socket
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: httpcore.AsyncConnectionPool
        self._kept: AsyncGenerator[None] | None = None

    async def request(
        self,
        method: str,
        url: str,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
    ) -> HttpResponse:
        """Send `json`, or `body` as it is, and read the whole answer, whatever its status."""
        target = read_url(url)
        if json is not None:
            body = strict_json.dumps(json)
        where = target.authority
        async with (
            _named_failures(where, self._timeout),
            asyncio.timeout(self._timeout),
            self._opened(method, target, headers, body, self._timeout) as response,
        ):
            answered = _headers_of(response)
            return HttpResponse(response.status, answered, await self._read(response, answered, where))

    @asynccontextmanager
    async def stream(
        self, url: str, headers: Mapping[str, str] | None = None, *, silence: float
    ) -> AsyncIterator[StreamedAnswer]:
        """Send a GET and read the answer as it comes. Raise NoAnswerError if it is silent for `silence` seconds."""
        target = read_url(url)
        async with (
            _named_failures(target.authority, silence),
            self._opened("GET", target, headers, None, silence) as response,
        ):
            yield StreamedAnswer(response.status, _headers_of(response), response.aiter_stream())

    async def aclose(self) -> None:
        kept, self._kept, self._loop = self._kept, None, None
        if kept is not None:
            await kept.aclose()

    @asynccontextmanager
    async def _opened(
        self,
        method: str,
        target: HttpUrl,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        seconds: float,
    ) -> "AsyncIterator[httpcore.Response]":
        import httpcore  # noqa: PLC0415 - loaded with the first request

        sent = {
            "host": target.authority,
            "user-agent": "comity",
            "accept": "application/json",
            "accept-encoding": "identity",
        }
        if body is not None:
            sent |= {"content-type": "application/json", "content-length": str(len(body))}
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        url = httpcore.URL(
            scheme=target.scheme.encode(),
            host=(f"{target.host}{PIN_MARK}{target.pin}" if target.pin else target.host).encode(),
            port=target.port,
            target=target.target.encode(),
        )
        limits = dict.fromkeys(("read", "write", "pool"), seconds) | {
            "connect": min(seconds / 2, CONNECT_TIMEOUT)  # so that it is known that nothing was sent
        }
        pool = await self._connections()
        async with pool.stream(
            method,
            url,
            headers=[(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            content=body,
            extensions={"timeout": limits},
        ) as response:
            yield response

    async def _read(self, response: "httpcore.Response", headers: Mapping[str, str], where: str) -> bytes:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise UnusableAnswerError(f"{where} compressed its answer although it was asked not to")
        too_large = f"the answer of {where} exceeds the limit of {self._limit:,} bytes"
        announced = headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 20 and int(announced) > self._limit:
            raise UnusableAnswerError(too_large)
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_stream():
            size += len(chunk)
            if size > self._limit:
                raise UnusableAnswerError(too_large)
            chunks.append(chunk)
        return b"".join(chunks)

    async def _connections(self) -> "httpcore.AsyncConnectionPool":
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            import httpcore  # noqa: PLC0415 - loaded with the first request

            from comity.http.client_network import GuardedNetwork, system_resolve  # noqa: PLC0415 - same

            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=self._tls,
                max_connections=_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=GuardedNetwork(self._allowed, self._resolve or system_resolve),
                uds=None if self._unix_socket is None else str(self._unix_socket),
            )
            self._loop = loop
            self._kept = _kept_open(self._pool)
            await anext(self._kept)
        return self._pool


@asynccontextmanager
async def _named_failures(where: str, seconds: float) -> AsyncIterator[None]:
    """Turn errors of the library into refusals that say what to do."""
    import httpcore  # noqa: PLC0415 - same

    try:
        yield
    except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout) as reason:
        mismatch = pin_mismatch_in(reason)
        if mismatch is not None:
            raise PinRefusedError(
                f"{where} was not called: {mismatch.verify_message}; nothing was sent. If its owner made a new key, ask for "
                "the new address"
            ) from None
        raise UnreachableError(_why_unreachable(where, reason)) from None
    except (TimeoutError, httpcore.TimeoutException):
        raise NoAnswerError(f"{where} did not answer within {seconds:g} seconds; try again later") from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise NoAnswerError(f"the connection to {where} broke before the answer was complete") from None


def _headers_of(response: "httpcore.Response") -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}


async def _kept_open(pool: "httpcore.AsyncConnectionPool") -> AsyncGenerator[None]:
    """Close the pool when the event loop ends: a loop finishes its asynchronous generators."""
    try:
        yield
    finally:
        await pool.aclose()


def _why_unreachable(where: str, reason: BaseException) -> str:
    cause: BaseException | None = reason
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            host = urlsplit(f"//{where}").hostname
            return f"{where} was not called: its certificate is not valid for {host}; nothing was sent"
        if isinstance(cause, ssl.SSLError):
            return f"{where} does not speak TLS as it should; nothing was sent"
        cause = cause.__cause__ or cause.__context__
    return f"{where} could not be reached; check the address and that it is running"
