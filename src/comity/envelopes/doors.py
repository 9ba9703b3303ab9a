"""`POST /a2a/message/send`: one signed envelope in, one signed reply out (envelope 3, ruling 7).

Errors are an HTTP status and `{"detail": sentence}`; a refusal by the chain also carries the signed
statement of where the pair stands.
"""

from comity.envelopes.protocol.chain import OutOfChainError
from comity.http.asgi import (
    Disconnected,
    Receive,
    Scope,
    Send,
    answer_at_once,
    answer_json,
    content_type,
    header,
    read_body,
    when_to_retry,
)
from comity.http.guard import caller_of
from comity.requests.handler import Handler, Request
from comity.requests.pipeline import Pipeline
from comity.wire import strict_json
from comity.wire.errors import ComityError, http_status, public_message

MESSAGE_SEND_PATH = "/a2a/message/send"
BODY_LIMIT = 1_048_576
_CONTENT_TYPES = frozenset({"application/json", "application/a2a+json"})


class MessageSend:
    """Raw ASGI: every call of every peer comes through here."""

    def __init__(self, handler: Handler, pipeline: Pipeline, body_limit: int = BODY_LIMIT) -> None:
        self._handler = handler
        self._pipeline = pipeline
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await answer_json(send, {"detail": "use POST"}, 405, [(b"allow", b"POST")])
            return
        try:
            if content_type(scope) not in _CONTENT_TYPES:
                given = header(scope, b"content-type")
                detail = f"unsupported content-type {given!r}; expected application/json"
                self._pipeline.record.refuse(self._handler.name, "unsupported")
                await answer_json(send, {"detail": detail}, 415)
                return
            body = await read_body(scope, receive, self._body_limit)
            sent = strict_json.loads(body, unique_keys=True)
            request = Request(door="a2a", caller=caller_of(scope), body=sent, size=len(body))
            message: bytes = await self._pipeline.run(self._handler, request)
        except Disconnected:
            return
        except ComityError as refusal:
            self._pipeline.record.refuse_once(self._handler.name, refusal)
            await refuse(send, refusal)
            return
        reply = b'{"jsonrpc":"2.0","id":%b,"result":{"message":%b}}'
        await answer_at_once(scope, send, reply % (strict_json.dumps(sent.get("id")), message))


async def refuse(send: Send, refusal: ComityError) -> None:
    if isinstance(refusal, OutOfChainError):
        await answer_json(send, refusal.body(), 409)
        return
    detail = public_message(refusal)
    await answer_json(send, {"detail": detail}, http_status(refusal), when_to_retry(refusal))
