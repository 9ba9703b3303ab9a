"""Bodies under a limit, answers in JSON."""

import json

import pytest

from comity.http.asgi import (
    Disconnected,
    Endpoint,
    answer_error,
    header,
    read_body,
    read_json_body,
    refuse_websocket,
)
from comity.requests.record import Recorder
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from comity.wire import strict_json
from comity.wire.errors import (
    MalformedError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    StoreUnavailableError,
    TooLargeError,
    UnauthenticatedError,
)
from tests.http.asgi_calls import ask, scope_of


async def body_of(parts, limit=10, headers=()):
    read = []

    async def app(scope, receive, send):
        read.append(await read_body(scope, receive, limit))

    await ask(app, scope_of("POST", headers=headers), parts)
    return read[0]


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        ([b""], b""),
        ([b"0123456789"], b"0123456789"),
        ([b"01234", b"", b"56789"], b"0123456789"),
        ([b"x"] * 10, b"x" * 10),
    ],
)
async def test_a_body_within_the_limit_is_read_whole(parts, body):
    assert await body_of(parts) == body


@pytest.mark.parametrize("parts", [[b"0123456789a"], [b"0123456789", b"a"], [b"x"] * 11])
async def test_a_body_that_does_not_say_its_size_is_refused_where_it_exceeds_the_limit(parts):
    with pytest.raises(TooLargeError, match="the body exceeds the limit of 10 bytes"):
        await body_of(parts)


async def test_what_comes_after_the_limit_is_not_even_asked_for():
    asked = 0

    async def receive():
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"xxxxxx", "more_body": True}

    with pytest.raises(TooLargeError):
        await read_body(scope_of("POST"), receive, 10)
    assert asked == 2


async def test_a_body_that_says_it_is_too_large_is_not_read_at_all():
    async def receive():
        raise AssertionError("it was read")

    with pytest.raises(TooLargeError):
        await read_body(scope_of("POST", headers=[("content-length", "11")]), receive, 10)
    with pytest.raises(TooLargeError):  # a length that only looks like zero
        await read_body(scope_of("POST", headers=[("content-length", "0" * 18 + "11")]), receive, 10)


async def test_a_client_that_goes_away_has_said_nothing():
    with pytest.raises(Disconnected):
        await body_of([b"half", None])


def test_a_header_is_its_value_or_none_and_refused_when_it_comes_twice():
    scope = scope_of(headers=[("x-one", "1"), ("x-two", "a"), ("x-two", "b")])
    assert header(scope, b"x-one") == "1"
    assert header(scope, b"x-none") is None
    with pytest.raises(MalformedError, match="x-two comes 2 times"):
        header(scope, b"x-two")


@pytest.mark.parametrize(
    ("error", "status", "after"),
    [
        (RateLimitedError("slow down", 0.0), 429, "1"),
        (RateLimitedError("slow down", 0.4), 429, "1"),
        (RateLimitedError("slow down", 1.2), 429, "2"),
        (OverloadedError("later", 30.0), 503, "30"),
        (TooLargeError("the body", 10), 413, None),
    ],
)
async def test_who_is_to_come_again_is_told_when_and_never_too_early(error, status, after):
    async def app(scope, receive, send):
        await answer_error(send, error)

    answer = await ask(app, scope_of())
    assert answer.status == status
    assert answer.headers.get("retry-after") == after
    assert answer.json() == {"detail": error.message, "code": error.code}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_an_error_of_ours_is_told_without_its_words():
    async def app(scope, receive, send):
        await answer_error(send, StoreUnavailableError("/data/comity.db is locked"))

    answer = await ask(app, scope_of())
    assert answer.status == 503
    assert b"comity.db" not in answer.body


# test_endpoint


def endpoint(method, take):
    clock = VirtualClock()
    return Endpoint(method, take, feature="test", record=Recorder(MemoryStore(clock), clock))


JSON = (("content-type", "application/json; charset=utf-8"),)


def echo(*, may_be_empty=False):
    async def take(scope, receive):
        body = await read_json_body(scope, receive, 20, "the question", may_be_empty=may_be_empty)
        return {"body": strict_json.loads(body) if body else None}

    return endpoint("POST", take)


async def test_what_is_taken_is_answered_in_json():
    answer = await ask(echo(), scope_of("POST", headers=JSON), [b'{"a"', b":1}"])
    assert (answer.status, answer.json()) == (200, {"body": {"a": 1}})


async def test_another_method_is_told_which_one_to_use():
    answer = await ask(echo(), scope_of("GET"))
    assert (answer.status, answer.headers["allow"], answer.json()["detail"]) == (405, "POST", "use POST")


async def test_a_refusal_is_its_status_and_sentence():
    async def take(_scope, _receive):
        raise NotFoundError("there is no such card")

    answer = await ask(endpoint("GET", take), scope_of("GET"))
    assert (answer.status, answer.json()) == (404, {"detail": "there is no such card", "code": "not_found"})


async def test_a_client_that_went_away_is_told_nothing():
    answer = await ask(echo(), scope_of("POST", headers=JSON), [b'{"a"', None])
    assert (answer.status, answer.body) == (0, b"")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonp"])
async def test_another_kind_of_body_is_refused_by_name(kind):
    headers = [("content-type", kind)] if kind else []
    answer = await ask(echo(), scope_of("POST", headers=headers), [b"{}"])
    assert answer.status == 400
    assert answer.json()["detail"].startswith("the question must be JSON")


async def test_nothing_is_as_good_as_json_where_that_is_allowed():
    assert (await ask(echo(may_be_empty=True), scope_of("POST"), [b""])).json() == {"body": None}
    assert (await ask(echo(), scope_of("POST"), [b""])).status == 400


async def test_a_body_over_the_limit_is_refused():
    answer = await ask(echo(), scope_of("POST", headers=JSON), [b'"' + b"x" * 30 + b'"'])
    assert answer.status == 413


@pytest.mark.parametrize(
    ("error", "answered", "closed"),
    [
        (OverloadedError("too many; wait", 3), (503, {b"retry-after": b"3"}), 1013),
        (
            UnauthenticatedError("send the token"),
            (401, {b"www-authenticate": b'Bearer realm="comity"'}),
            1008,
        ),
    ],
)
async def test_a_websocket_is_refused_in_http_or_by_a_close_code_where_the_server_cannot(
    error, answered, closed
):
    sent = []

    async def send(message):
        sent.append(message)

    await refuse_websocket({"extensions": {"websocket.http.response": {}}}, send, error)
    start, body = sent
    status, more = answered
    assert (start["status"], more.items() <= dict(start["headers"]).items()) == (status, True)
    assert json.loads(body["body"]) == {"detail": error.message, "code": error.code}
    sent.clear()
    await refuse_websocket({}, send, error)
    assert sent == [{"type": "websocket.close", "code": closed, "reason": error.message}]
