"""`comity status`, `comity stop` and `comity open`, against a node in a process of its own."""

import json
import os
import shutil
import signal

import httpx
import pytest

from comity.store.claim import CLAIM_FILE
from tests.waiting import wait_until

DEADLINE = 30


def test_the_status_of_a_running_node(program, start, data):
    node = start(data, "--agent", "echo")
    said = program("status", "--data", data, env={"COLUMNS": "80"})
    assert said.code == 0
    assert said.out.startswith(f"The node at {node.ready['url']} is ready.\n")
    assert f"process {node.pid}" in said.out
    assert f"data      {data}\n" in said.out
    assert max(map(len, said.out.splitlines())) <= 80 + len(str(data))
    result = json.loads(program("status", "--json", "--data", data).out)
    assert (result["running"], result["ready"], result["pid"]) == (True, True, node.pid)
    assert type(result["uptime"]) is float
    assert result["vacant_id"] == node.ready["vacant_id"]


def test_where_no_node_runs_the_status_says_how_to_start_one(program, data):
    said = program("status", "--data", data)
    assert (said.code, said.out) == (1, f"No node runs on {data}. Start one: comity up --data {data}\n")
    assert not data.exists()
    said = program("status", "--json", "--data", data)
    assert (said.code, json.loads(said.out)) == (1, {"running": False, "data": str(data)})


def test_a_node_is_stopped_and_has_stopped_when_the_command_returns(program, start, data):
    node = start(data)
    said = program("stop", "--data", data)
    assert (said.code, said.out) == (0, f"The node at {node.ready['url']} has stopped.\n")
    assert node.wait(DEADLINE) == 0
    said = program("stop", "--data", data)
    assert (said.code, said.out) == (0, f"No node runs on {data}.\n")
    tail = program("audit", "tail", "--json", "--data", data)
    results = [json.loads(line)["verification_result"] for line in tail.out.splitlines()]
    assert results == ["NODE_STARTED", "STOP_OK", "NODE_STOPPED"]


def test_only_the_owner_may_stop_it_or_have_a_link(start, data):
    node = start(data)
    for path in ("/v1/stop", "/v1/link", "/v1/vault/rotate"):
        assert httpx.post(node.ready["url"] + path, json={}).status_code == 401
    assert node.poll() is None


def test_open_makes_a_new_link_that_lets_a_browser_in_once(program, start, data):
    node = start(data)
    link = program("open", "--data", data).out.strip()
    assert link.startswith(node.ready["url"] + "/enter/")
    other = json.loads(program("open", "--json", "--data", data).out)["link"]
    assert other != link
    with httpx.Client() as browser:
        assert browser.get(link).status_code == 303
        assert browser.get(node.ready["url"] + "/").status_code == 200
        again = browser.get(link)
        assert again.status_code == 403
        assert "`comity open` makes a new one" in again.json()["detail"]


def test_a_browser_makes_no_links_so_it_is_let_in_for_12_hours_and_no_longer(program, start, data):
    node = start(data)
    with httpx.Client(base_url=node.ready["url"]) as browser:
        browser.get(program("open", "--data", data).out.strip())
        refused = browser.post("/v1/link", json={})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "comity token new" in refused.json()["detail"]
        token = {"authorization": f"Bearer {(data / 'token').read_text().strip()}"}
        assert "/enter/" in browser.post("/v1/link", json={}, headers=token).json()["link"]
        assert browser.post("/v1/link", json={"read_only": 1}, headers=token).status_code == 400
        for path, body in (
            ("/v1/link", {"read_only": True, "hours": 1}),
            ("/v1/stop", {"after": 60}),
            ("/v1/stop", []),
            ("/v1/vault/rotate", {"key": "x"}),
        ):
            refused = browser.post(path, json=body, headers=token)
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid"), path
            assert "the body must be empty or" in refused.json()["detail"]
    assert node.poll() is None


def test_open_makes_a_link_that_only_reads(program, start, data):
    node = start(data)
    result = json.loads(program("open", "--read-only", "--json", "--data", data).out)
    assert result["read_only"] is True
    with httpx.Client(base_url=node.ready["url"]) as browser:
        assert browser.get(result["link"]).status_code == 303
        assert browser.get("/v1/views").json()["read_only"] is True
        assert browser.post("/v1/stop", json={}).status_code == 403


def test_without_a_node_open_says_how_to_start_one(program, data):
    said = program("open", "--data", data)
    assert said.code == 1
    assert said.err.startswith(
        f"error: no node is running on {data}; start one with `comity up --data {data}`"
    )


def test_a_second_node_is_refused_also_when_the_file_that_names_the_first_is_gone(program, start, data):
    node = start(data)
    (data / CLAIM_FILE).unlink()
    said = program("up", "--port", "0", "--data", data)
    assert said.code == 1
    assert f"a node is already running on {data}" in said.err
    assert f"stop it with `comity stop --data {data}`" in said.err
    # it puts the file back, so that the commands find it again
    wait_until(lambda: program("status", "--data", data).code == 0)
    assert node.poll() is None


@pytest.mark.parametrize("what", ["moved", "removed", "replaced"])
def test_a_data_folder_that_goes_away_under_a_node_stops_it(start, data, tmp_path, what):
    node = start(data)
    if what == "removed":
        shutil.rmtree(data)
    else:
        data.rename(tmp_path / "elsewhere")
    if what == "replaced":
        data.mkdir()
    assert httpx.get(node.ready["url"] + "/readyz").json()["reason"] == "the data folder was moved or removed"
    _out, err = node.communicate(timeout=DEADLINE)
    assert node.returncode == 1
    assert f"the data folder {data} was moved or removed while the node ran" in err
    assert "Traceback" not in err
    if what == "replaced":
        assert list(data.iterdir()) == []
    if what == "moved":
        again = start(tmp_path / "elsewhere")
        again.send_signal(signal.SIGTERM)
        assert again.wait(DEADLINE) == 0


def test_a_node_that_does_not_answer_is_told_in_a_sentence(program, start, data):
    node = start(data)
    os.kill(node.pid, signal.SIGSTOP)
    try:
        said = program("status", "--data", data)
    finally:
        os.kill(node.pid, signal.SIGCONT)
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
