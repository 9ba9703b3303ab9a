"""`comity token`: typed beside a running node, which takes and refuses the tokens at once."""

import json

import httpx
import pytest


@pytest.fixture
def node(start, data):
    return start(data)


def statuses(node, token):
    with httpx.Client(base_url=node.ready["url"], headers={"authorization": f"Bearer {token}"}) as client:
        return {
            path: client.get(path).status_code
            for path in ("/metrics", "/v1/views", "/v1/actions", "/openapi.json")
        }


def test_a_token_for_metrics_opens_metrics_alone_until_it_is_revoked(program, node, data):
    made = program("token", "new", "prometheus", "--can", "metrics", "--data", data)
    token = made.out.strip()
    assert "shown only once" in made.err
    assert statuses(node, token) == {
        "/metrics": 200,
        "/v1/views": 403,
        "/v1/actions": 403,
        "/openapi.json": 403,
    }
    listed = program("token", "list", "--data", data).out
    assert "prometheus" in listed
    assert token not in listed
    assert "revoked" in program("token", "revoke", "prometheus", "--data", data).out
    assert set(statuses(node, token).values()) == {401}


def test_what_each_grant_opens(program, node, data):
    opened = {}
    for can in ("metrics", "read", "act", "admin"):
        result = json.loads(
            program("token", "new", can, "--can", can, "--days", "2", "--json", "--data", data).out
        )
        assert result["expires"] - result["created"] == 2 * 86_400
        opened[can] = [path for path, status in statuses(node, result["token"]).items() if status == 200]
    assert opened == {
        "metrics": ["/metrics"],
        "read": ["/metrics", "/v1/views"],
        "act": ["/v1/views", "/v1/actions"],
        "admin": ["/metrics", "/v1/views", "/v1/actions", "/openapi.json"],
    }
    names = [
        each["name"] for each in json.loads(program("token", "list", "--json", "--data", data).out)["tokens"]
    ]
    assert names == ["metrics", "read", "act", "admin"]


def test_making_and_revoking_are_in_the_record(program, node, data):
    program("token", "new", "ci", "--can", "act", "--data", data)
    program("token", "revoke", "ci", "--data", data)
    kept = program("audit", "tail", "--json", "--data", data).out
    assert "TOKEN_MADE" in kept
    assert "TOKEN_REVOKED" in kept
    assert "ci:act" in kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "x"], "--can is missing; it is one of metrics, read, act, admin"),
        (["new", "x", "--can", "everything"], "--can must be one of metrics, read, act, admin"),
        (["new", "X Y", "--can", "read"], "1 to 32 characters"),
        (["new", "x", "--can", "read", "--days", "soon"], "--days must be a number"),
        (["new", "x", "--can", "read", "--days", "0"], "more than 0 and at most 3,650 days"),
        (["revoke", "x"], "there is no token named x"),
    ],
)
def test_wrong_words_get_a_sentence(program, node, data, words, said):
    refused = program("token", *words, "--data", data)
    assert refused.code != 0
    assert said in refused.err


def test_tokens_can_be_made_before_the_first_start(program, data):
    program("id", "new", "--data", data)
    assert program("token", "new", "early", "--can", "read", "--data", data).code == 0
    assert "early" in program("token", "list", "--data", data).out


def test_ending_all_browser_sessions(program, node, data):
    with httpx.Client(base_url=node.ready["url"]) as browser:
        browser.get(program("open", "--data", data).out.strip())
        unused = program("open", "--data", data).out.strip()
        assert browser.get("/v1/status").status_code == 200
        assert "1 browser is signed out" in program("open", "--end-all", "--data", data).out
        assert browser.get("/v1/status").status_code == 401
        assert browser.get(unused).status_code == 403
    assert json.loads(program("open", "--end-all", "--json", "--data", data).out) == {"ended": 0}
