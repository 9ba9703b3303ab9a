import json
import os
import stat
import subprocess
import sys

import pytest

from comity.cli.app import run
from comity.store.claim import FolderClaim


def entry(file, *path):
    value = json.loads(file.read_text())
    for key in path:
        value = value[key]
    return value


def test_without_names_and_without_a_terminal_nothing_is_guessed(comity):
    for call in (["install"], ["uninstall"], ["install", "--json"], ["uninstall", "--json"]):
        refused = comity(*call)
        assert refused.code == 2
        assert "name the clients, or use --all or --yes" in refused.err


def test_yes_without_a_terminal_takes_every_client_that_is_found_and_gives_each_file_back(comity, home):
    nobody = comity("install", "--yes")
    assert nobody.code == 2
    assert "no client with a user scope was found" in nobody.err
    (home / ".cursor").mkdir()
    (home / ".codex").mkdir()
    cursor, codex = home / ".cursor/mcp.json", home / ".codex/config.toml"
    cursor.write_bytes(b'{"mcpServers": {"other": {"command": "x"}}}')
    codex.write_bytes(b"# mine\r\nmodel = 'a'\r\n")
    before = cursor.read_bytes(), codex.read_bytes()
    shown = comity("install", "--yes")
    assert shown.code == 0
    assert shown.out.index("would") < shown.out.index("added")
    assert "mcp_servers.comity" in codex.read_text()
    assert "comity" in entry(cursor, "mcpServers")
    assert comity("install", "--uninstall", "--yes").code == 0
    assert (cursor.read_bytes(), codex.read_bytes()) == before


def test_all_means_those_that_are_found(comity, home):
    nobody = comity("install", "--all")
    assert nobody.code == 2
    assert "no client with a user scope was found; name one of claude-code" in nobody.err
    (home / ".cursor").mkdir()
    (home / ".config" / "zed").mkdir(parents=True)
    done = json.loads(comity("install", "--all", "--json").out)
    assert [row["client"] for row in done["clients"]] == ["cursor", "zed"]
    assert done["changed"] is True
    assert json.loads(comity("install", "--all", "--json").out)["changed"] is False
    gone = json.loads(comity("uninstall", "--all", "--json").out)
    assert [row["action"] for row in gone["clients"]] == ["remove", "remove"]
    assert json.loads(comity("uninstall", "--all", "--json").out) == {"changed": False, "clients": []}


def test_a_scope_that_a_client_does_not_have(comity, home, project):
    refused = comity("install", "windsurf", "--scope", "project")
    assert refused.code == 2
    assert "Windsurf has no project scope; use --scope user" in refused.err
    (home / ".cursor").mkdir()
    (home / ".codeium" / "windsurf").mkdir(parents=True)
    done = comity("install", "--all", "--scope", "project")
    assert done.code == 0
    assert "Windsurf has no project scope and is skipped" in done.err
    assert (project / ".cursor" / "mcp.json").exists()
    assert not (home / ".cursor" / "mcp.json").exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["install", "cursr"], "there is no client 'cursr'; did you mean cursor?"),
        (["install", "cursor", "--preset", "best"], "--preset must be one of full, core, file"),
        (["install", "cursor", "--scope", "world"], "--scope must be one of user, project, local"),
        (["uninstall", "cursor", "--scope", "world"], "--scope must be one of user, project, local"),
        (["install", "cursor", "--name", 'a"\n'], "--name must be 1 to 64 letters"),
        (["uninstall", "cursor", "--name", "../x"], "--name must be 1 to 64 letters"),
        (["install", "cursor", "--all"], "not both"),
        (["uninstall", "cursor", "--all"], "not both"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(comity, tree, call, words):
    before = tree()
    refused = comity(*call)
    assert refused.code == 2
    assert words in refused.err
    assert tree() == before


def test_the_entry_names_the_data_folder_when_it_is_not_the_usual_one(
    comity, home, data, tmp_path, monkeypatch
):
    comity("install", "cursor")
    file = home / ".cursor" / "mcp.json"
    assert entry(file, "mcpServers", "comity", "env") == {"COMITY_DATA": str(data)}
    comity("install", "cursor", "--data", tmp_path / "other data")
    assert entry(file, "mcpServers", "comity", "env") == {"COMITY_DATA": str(tmp_path / "other data")}
    monkeypatch.delenv("COMITY_DATA")
    comity("install", "cursor")
    assert entry(file, "mcpServers", "comity", "env") == {}


def test_the_entry_names_the_settings_file_when_it_is_not_the_usual_one(
    comity, home, data, tmp_path, monkeypatch
):
    usual, other = data / "config.toml", tmp_path / "other.toml"
    data.mkdir(mode=0o700)
    for file in (usual, other):
        file.write_text("port = 8421\n")
    comity("install", "cursor")
    assert "COMITY_CONFIG" not in (home / ".cursor" / "mcp.json").read_text()
    monkeypatch.setenv("COMITY_CONFIG", str(other))
    comity("install", "cursor")
    env = entry(home / ".cursor" / "mcp.json", "mcpServers", "comity", "env")
    assert env == {"COMITY_DATA": str(data), "COMITY_CONFIG": str(other)}


@pytest.mark.parametrize("preset", ["full", "secure-core"])
def test_what_is_written_starts_a_server_that_answers(comity, home, environ, tmp_path, preset):
    comity("install", "cursor", "--preset", preset)
    written = entry(home / ".cursor" / "mcp.json", "mcpServers", "comity")
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    ended = subprocess.run(
        [written["command"], *written["args"]],
        env={"HOME": str(home), "PATH": environ["PATH"], **written["env"]},
        cwd=tmp_path,
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert json.loads(ended.stdout)["result"]["serverInfo"]["name"] == "comity", ended


def test_a_dry_run_shows_the_lines_and_changes_nothing(comity, home, tree, data):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "mcpServers": {\n    "o": {"env": {"KEY": "their secret"}},\n    "p": {}\n  }\n}\n')
    before = tree()
    shown = comity("install", "cursor", "--dry-run", "--preset", "secure-full")
    assert shown.code == 0
    assert '+    "comity": {' in shown.out
    assert "their secret" not in shown.out
    assert "Nothing was changed." in shown.out
    assert tree() == before
    assert not data.exists()
    assert json.loads(comity("install", "cursor", "--dry-run", "--json").out)["clients"][0]["action"] == "add"
    comity("install", "cursor")
    there = tree()
    assert '-    "comity": {' in comity("uninstall", "cursor", "--dry-run").out
    assert tree() == there


def test_what_to_paste_is_printed_alone(comity, home, tree):
    before = tree()
    shown = comity("install", "zed", "--print", "--preset", "core")
    assert json.loads(shown.out)["context_servers"]["comity"]["args"][-1] == "core"
    assert "for Zed, " in shown.err
    several = json.loads(comity("install", "codex", "goose", "--print", "--json").out)["clients"]
    assert several[0]["text"].startswith("[mcp_servers.comity]\n")
    assert several[1]["text"].startswith("extensions:\n  comity:\n")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("not json")
    assert "mcpServers" in json.loads(comity("install", "cursor", "--print").out)
    assert set(tree()) - set(before) == {".cursor", ".cursor/mcp.json"}


def test_the_join_secret_is_shown_nowhere_and_its_file_is_closed(comity, home, data):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text("{}\n")
    file.chmod(0o644)
    said = [comity("install", "cursor", "--preset", "secure-core")]
    secret = (data / "join-secret").read_text().strip()
    assert entry(file, "mcpServers", "comity", "env")["VDON_MCP_JOIN_TOKEN_SECRET"] == secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"the join secret is in {data / 'join-secret'}" in said[0].err
    said += [
        comity("install", "cursor", "--preset", "secure-core"),
        comity("install", "cursor", "--preset", "secure-core", "--json"),
        comity("install", "cursor", "zed", "--preset", "secure-full", "--dry-run"),
        comity("install", "cursor", "--preset", "secure-full", "--print"),
        comity("install", "cursor", "--preset", "secure-full", "--print", "--json"),
        comity("install", "cursor", "--preset", "core", "--dry-run"),
        comity("uninstall", "cursor", "--dry-run"),
        comity("uninstall", "cursor", "--json"),
    ]
    assert [outcome.code for outcome in said] == [0] * len(said)
    assert secret not in "".join(outcome.out + outcome.err for outcome in said)
    assert file.read_text() == "{}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_file_with_the_secret_that_was_opened_to_others_is_closed_again(comity, home):
    file = home / ".cursor" / "mcp.json"
    comity("install", "cursor", "--preset", "secure-core")
    file.chmod(0o644)
    assert comity("install", "cursor", "--preset", "secure-core").code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_is_not_written_into_the_file_of_a_project(comity, project, tree):
    before = tree()
    refused = comity("install", "cursor", "--scope", "project", "--preset", "secure-core")
    assert refused.code == 1
    assert "a project's file, which others share" in refused.err
    assert tree() == before


def test_one_that_cannot_be_changed_does_not_stop_the_others(comity, home):
    bad = home / ".cursor" / "mcp.json"
    bad.parent.mkdir()
    bad.write_text('{\n  "mcpServers": {,}\n}')
    outcome = comity("install", "cursor", "zed")
    assert outcome.code == 1
    assert f"error: {bad}: line 2, column 18: a key" in outcome.err
    assert "added" in outcome.out
    assert bad.read_text() == '{\n  "mcpServers": {,}\n}'
    answer = comity("install", "cursor", "zed", "--json")
    assert answer.code == 1
    assert [row["error"] is None for row in json.loads(answer.out)["clients"]] == [False, True]
    passed_over = comity("uninstall", "--all")
    assert passed_over.code == 0
    assert "Cursor is skipped" in passed_over.err
    assert comity("uninstall", "cursor").code == 1


def test_nothing_to_take_back_is_said(comity):
    outcome = comity("uninstall", "cursor")
    assert (outcome.code, outcome.out) == (0, "There is no entry 'comity'; nothing to do.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("answer", "done"), [("y", True), ("n", False), ("", False)])
def test_at_a_terminal_it_asks_after_showing(environ, home, project, answer, done):
    (home / ".cursor").mkdir()
    ours, theirs = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "comity", "install"],
        env={**environ, "TERM": "xterm"},
        cwd=project,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    said, _ = child.communicate(timeout=30)
    os.close(ours)
    text = said.decode()
    assert text.index(".cursor/mcp.json") < text.index("Go on? [y/N]")
    assert (home / ".cursor" / "mcp.json").exists() == done
    assert child.returncode == (0 if done else 1)


def test_help_says_how_it_is_called(comity):
    for name in ("install", "uninstall"):
        shown = comity(name, "--help")
        assert f"Usage: comity {name} [OPTIONS] [CLIENT]..." in shown.out
        assert f"\n  comity {name}" in shown.out


def test_the_program_itself_needs_no_client_library(environ):
    assert run(["install", "--help"]) == 0


def test_only_the_rooms_that_are_named_are_offered_there(comity, home):
    assert comity("install", "cursor", "--rooms", "actions, vcp").code == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["comity"]
    assert entry["args"][-2:] == ["--tools", "actions,vcp"]
    refused = comity("install", "cursor", "--rooms", "kitchen")
    assert (refused.code, "--tools must name groups of tools among agents, vcp, vacant" in refused.err) == (
        2,
        True,
    )


def test_install_takes_back_what_it_installed(comity, home, tree):
    before = tree()
    assert comity("install", "cursor").code == 0
    assert tree() != before
    taken = comity("install", "cursor", "--uninstall")
    assert (taken.code, "removed" in taken.out) == (0, True)
    assert tree() == before
    refused = comity("install", "cursor", "--uninstall", "--print")
    assert (refused.code, "--print" in refused.err) == (2, True)


def test_a_file_that_cannot_be_read_is_named_once(comity, home):
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text('{ "mcpServers": { bad }')
    for call in (
        "install cursor",
        "install cursor --dry-run",
        "install --all --yes",
        "uninstall cursor --yes",
    ):
        refused = comity(*call.split())
        assert refused.code == 1
        assert (refused.out + refused.err).count("line 1, column 19") == 1


def test_a_running_node_keeps_nobody_from_installing(comity, home, data):
    data.mkdir(mode=0o700)
    claim = FolderClaim(data)
    try:
        assert comity("install", "cursor", "--yes", "--data", data).code == 0
        assert comity("uninstall", "cursor", "--yes", "--data", data).code == 0
    finally:
        claim.release()


def test_a_missing_library_for_peers_is_named_with_the_command_that_adds_it(comity, home, monkeypatch):
    assert "WebRTC" not in comity("install", "cursor").err
    monkeypatch.setattr("comity.rooms.links.webrtc.available_libraries", tuple)
    answer = comity("install", "cursor", "--preset", "extended")
    assert "can only join peers on this machine; run: " in answer.err
    assert "WebRTC" not in comity("install", "cursor", "--rooms", "vcp").err
