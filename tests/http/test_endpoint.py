import pytest

from comity.http.asgi import Endpoint, read_json_body
from comity.requests.record import Recorder
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from comity.wire import strict_json
from comity.wire.errors import NotFoundError
from tests.http.asgi_calls import ask, scope_of


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
