"""The routes: which answer, how, and to whom."""

import pytest

from comity.http.app import Readiness
from comity.testing import EPOCH
from comity.wire.errors import StoreUnavailableError
from tests.http.runtime import JSON, TOKEN, NodeRuntime

PUBLIC = ["/healthz", "/readyz", "/assets/page.css", "/assets/page.js"]
PRIVATE = ["/", "/metrics", "/v1/status"]


@pytest.mark.parametrize("path", PUBLIC)
async def test_a_public_path_answers_everybody(path):
    answer = await NodeRuntime().ask("GET", path)
    assert answer.status == 200
    assert answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", PRIVATE)
async def test_every_other_path_answers_the_owner_only(path):
    runtime = NodeRuntime()
    assert (await runtime.ask("GET", path)).status == 401
    answer = await runtime.ask("GET", path, TOKEN)
    assert answer.status == 200
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [*PUBLIC, *PRIVATE])
async def test_a_look_at_the_head_is_allowed_where_a_get_is(path):
    assert (await NodeRuntime().ask("HEAD", path, TOKEN)).status == 200


@pytest.mark.parametrize("path", [*PUBLIC, *PRIVATE, "/v1/ping", "/enter/ticket"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
async def test_other_methods_are_refused_with_those_that_are_not(path, method):
    runtime = NodeRuntime()
    answer = await runtime.ask(method, path, TOKEN)
    assert answer.status == 405
    assert answer.json()["code"] == "method_not_allowed"
    allowed = set(answer.headers["allow"].replace(" ", "").split(","))
    assert allowed == ({"POST"} if path == "/v1/ping" else {"GET", "HEAD"})


@pytest.mark.parametrize("path", [*PRIVATE, "/v1/ping", "/nowhere"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"])
async def test_a_stranger_learns_nothing_of_a_private_path_by_any_method(path, method):
    assert (await NodeRuntime().ask(method, path)).status == 401


async def test_a_path_that_is_nowhere_is_told_to_the_owner():
    answer = await NodeRuntime().ask("GET", "/nowhere", TOKEN)
    assert answer.status == 404
    assert answer.json() == {"detail": "there is nothing at this path", "code": "not_found"}


@pytest.mark.parametrize(
    "path",
    [
        "/enter/../v1/status",
        "/enter//v1/status",
        "/enter/x/../../v1/status",
        "/assets/../v1/status",
        "/assets//etc/passwd",
        "/assets/../../app.py",
        "/assets/page.html",
        "/assets/",
        "/enter/",
        "/healthz/../v1/status",
        "//healthz",
        "/healthz/",
        "/healthz/x",
        "/HEALTHZ",
        "//v1/status",
        "/v1//status",
        "/v1/status/",
        "/./v1/status",
        "/v1/./status",
        "/%76%31/status",
        "/v1/status\0",
        "/v1/status;x",
        "v1/status",
        "",
    ],
)
async def test_no_spelling_of_a_path_leads_a_stranger_to_what_is_private(path):
    answer = await NodeRuntime().ask("GET", path)
    assert answer.status in (307, 401, 403, 404)
    assert b"vacant_id" not in answer.body


@pytest.mark.parametrize("path", ["/.well-known/nothing", "/.well-known/", "/.well-known/agent.json"])
async def test_a_well_known_path_that_is_unknown_here_is_404_to_everybody(path):
    answer = await NodeRuntime().ask("GET", path)
    assert (answer.status, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../page.py",
        "/assets/../../../config.py",
        "/assets/..%2fpage.py",
        "/assets/",
        "/assets/page.html",
        "/assets/page.js/..",
        "/assets//page.js",
        "/assets/page.js\0",
    ],
)
async def test_an_asset_is_one_of_the_files_of_the_page_and_nothing_else(path):
    assert (await NodeRuntime().ask("GET", path)).status == 404
    assert (await NodeRuntime().ask("GET", path, TOKEN)).status == 404


async def test_a_link_lets_a_browser_in_once_and_leads_to_the_page():
    runtime = NodeRuntime()
    link = runtime.entry.new_link()
    answer = await runtime.ask("GET", link)
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = ("cookie", answer.headers["set-cookie"].partition(";")[0])
    assert (await runtime.ask("GET", "/", cookie)).status == 200
    again = await runtime.ask("GET", link)
    assert again.status == 403
    assert "`comity open` makes a new one" in again.json()["detail"]
    assert "set-cookie" not in again.headers


async def test_a_link_that_only_reads_lets_a_browser_look_and_do_nothing():
    runtime = NodeRuntime()
    entered = await runtime.ask("GET", runtime.entry.new_link(reads_only=True))
    cookie = ("cookie", entered.headers["set-cookie"].partition(";")[0])
    for path in ("/", "/v1/status", "/v1/views", "/assets/page.js"):
        assert (await runtime.ask("GET", path, cookie)).status == 200, path
    assert (await runtime.ask("GET", runtime.entry.new_link(), cookie)).status == 303
    assert (await runtime.ask("GET", "/v1/views", cookie)).json()["read_only"] is True
    assert (await runtime.ask("GET", "/v1/views", TOKEN)).json()["read_only"] is False
    assert (await runtime.ask("GET", "/metrics", cookie)).status == 200
    for method, path in (("POST", "/v1/ping"), ("POST", "/v1/audit/verify"), ("GET", "/openapi.json")):
        refused = await runtime.ask(method, path, cookie, JSON)
        assert (refused.status, refused.json()["code"]) == (403, "forbidden"), path


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS"])
async def test_a_link_is_not_used_up_by_looking_at_it(method):
    runtime = NodeRuntime()
    link = runtime.entry.new_link()
    answer = await runtime.ask(method, link)
    assert answer.status == 405
    assert "set-cookie" not in answer.headers
    assert (await runtime.ask("GET", link)).status == 303


async def test_a_ping_is_answered_with_its_nonce():
    runtime = NodeRuntime()
    answer = await runtime.ask("POST", "/v1/ping", TOKEN, JSON, parts=[b'{"nonce":', b'"hello"}'])
    assert answer.status == 200
    assert answer.json() == {"pong": "hello", "principal": "local", "at": EPOCH}


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"", 200),
        ("application/json; charset=utf-8", b"{}", 200),
        ("application/vnd.comity+json", b"{}", 200),
        ("text/plain", b"", 200),
        ("text/plain", b"{}", 400),
        ("application/x-www-form-urlencoded", b"nonce=x", 400),
        ("", b"{}", 400),
        ("application/json", b"{", 400),
        ("application/json", b"[" * 900, 400),
        ("application/json", b'{"nonce": NaN}', 400),
        ("application/json", b'{"nonce": "\\ud800"}', 400),
        ("application/json", b"\xff\xfe", 400),
        ("application/json", b"{}" + b" " * 999, 413),
    ],
)
async def test_a_body_that_is_no_json_of_ours_is_refused_clearly(kind, body, status):
    answer = await NodeRuntime().ask("POST", "/v1/ping", TOKEN, ("content-type", kind), parts=[body])
    assert answer.status == status
    assert ("detail" in answer.json()) == (status != 200)


async def test_who_goes_away_before_he_has_said_everything_is_not_answered(caplog):
    answer = await NodeRuntime().ask("POST", "/v1/ping", TOKEN, JSON, parts=[b"{", None])
    assert answer.status == 0
    assert caplog.text == ""


async def test_a_node_that_is_not_ready_says_why():
    runtime = NodeRuntime(readiness=Readiness(False, "stopping"))
    answer = await runtime.ask("GET", "/readyz")
    assert answer.status == 503
    assert answer.json() == {"ready": False, "reason": "stopping"}
    assert (await NodeRuntime().ask("GET", "/readyz")).json() == {"ready": True}
    assert (await runtime.ask("GET", "/healthz")).status == 200


@pytest.mark.parametrize("path", ["/", "/v1/status"])
async def test_a_page_that_cannot_be_made_is_refused_without_internals(path):
    runtime = NodeRuntime(status=StoreUnavailableError("/data/comity.db is locked"))
    answer = await runtime.ask("GET", path, TOKEN)
    assert answer.status == 503
    assert answer.json()["code"] == "store_unavailable"
    assert b"comity.db" not in answer.body


async def test_refusals_of_strangers_are_counted():
    runtime = NodeRuntime()
    for _ in range(3):
        await runtime.ask("GET", "/v1/status")
    await runtime.ask("GET", "/v1/status", ("origin", "https://evil.example"))
    runtime.pipeline.record.flush()
    await runtime.store.commit()
    records = [record.data for record in await runtime.store.read("audit:main")]
    assert [b"count:1" in data and b"http:forbidden" in data for data in records] == [True, False]
    assert [b"count:3" in data and b"http:unauthenticated" in data for data in records] == [False, True]


async def test_figures_are_in_the_form_that_prometheus_reads():
    runtime = NodeRuntime()
    answer = await runtime.ask("GET", "/metrics", TOKEN)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"comity_uptime_seconds 1.0" in answer.body
