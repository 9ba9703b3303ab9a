"""Bytes on an HTTP connection: they are answered in HTTP or refused, and mean the same however they are cut.

The first byte decides where they are cut.
"""

from typing import Any

from comity.http.asgi import Message, Receive, Scope, Send
from fuzz.wires import in_pieces, talk

LONGEST = 1024

_GET = b"GET /a?b=c HTTP/1.1\r\nhost: localhost\r\n"
_POST = b"POST /b HTTP/1.1\r\nhost: localhost\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
EXAMPLES = [
    b"\0" + _GET + b"\r\n" + _GET + b"connection: close\r\n\r\n",
    b"\1" + _POST + b"content-length: 5\r\n\r\nhello" + _GET + b"\r\n",
    b"\2" + _POST + _CHUNKED + b"5;x=y\r\nhello\r\n0\r\na: b\r\n\r\n" + _GET + b"\r\n",
    b"\3" + _POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
    b"\4" + _GET + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n" + _GET + b"\r\n",
    b"\5" + _POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"\6" + _POST + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    b"\7GET http://localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /\r\n\r\n",
    b"\7GET  /a HTTP/1.1\r\nhost: localhost\r\n\r\n" + _POST + _CHUNKED + b"0\r\nno trailer\r\n\r\n",
    b"\10OPTIONS * HTTP/1.0\r\nHost:\tlocalhost \r\nConnection: keep-alive\r\n\r\n",
]
_STATUSES = {200, 400, 408, 413, 431, 501, 505}


class _House:
    """Reads the whole body and answers with its length; keeps what was asked completely."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes, bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.asked.append((scope["method"], scope["path"], scope["query_string"], body))
        answer = b"%d" % len(body)
        headers: Any = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def check(data: bytes) -> None:
    seed, data = data[0] if data else 0, data[1:]
    whole, cut = _House(), _House()
    _check_answers(talk(whole, [data] if data else []), whole)
    _check_answers(talk(cut, list(in_pieces(data, seed))), cut)
    assert whole.asked == cut.asked, (whole.asked, cut.asked)


def _check_answers(said: bytes, runtime: _House) -> None:
    """Every request that came completely is answered once; at most one refusal follows."""
    statuses = []
    heads = iter(method == "HEAD" for method, *_ in runtime.asked)
    while said:
        head, end, said = said.partition(b"\r\n\r\n")
        assert end, head
        first, *lines = head.decode("ascii").split("\r\n")
        assert first.startswith("HTTP/1.1 "), first
        status = int(first.split()[1])
        if status == 100:
            continue
        assert status in _STATUSES, first
        headers = dict(line.lower().split(": ", 1) for line in lines)
        bodiless = status == 200 and next(heads)
        said = said if bodiless else said[int(headers["content-length"]) :]
        statuses.append(status)
    assert statuses[: len(runtime.asked)] == [200] * len(runtime.asked), statuses
    assert len(statuses) <= len(runtime.asked) + 1, statuses
