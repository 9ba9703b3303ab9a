"""Install, install again, uninstall: for every client, every scope, every kind of file that people have."""

import json
import tomllib

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comity.hosts.clients import Computer, Launch, places, table
from comity.hosts.config_file import Records
from comity.hosts.install import aim, install, uninstall
from tests.hosts.documents import json_texts, plain_json, toml_texts, yaml_texts

CLIENTS = table().clients
CASES = [(key, scope) for key, client in CLIENTS.items() for scope in client.scopes]
LAUNCH = Launch(command="/opt/a b/python", args=("-m", "comity", "mcp"), env={"COMITY_DATA": "/d"})

DOCUMENTS = {
    "json": (
        None,
        b"",
        b"{}",
        b'{"mcpServers":{"o":{"command":"x"}},"servers":{},"mcp":{}}',
        (
            b'// top\n{\n    // theirs\n    "mcpServers": {\n        "o": { "command": "x" }, // why\n    },\n'
            b'    /* more */ "n": 1.50\n}\n'
        ),
        b'{\r\n\t"context_servers": {\r\n\t\t"o": {"url": "y"} // z\r\n\t},\r\n\t"servers": null,\r\n}\r\n',
        b'\xef\xbb\xbf{\n  "theme": "\xc3\xa9"\n}',
        b"\n\n// only a comment\n",
    ),
    "toml": (
        None,
        b"",
        b"# only a comment",
        b'model = "x" # why\n\n[mcp_servers.o]\ncommand = "y"\n\n[z]\n# end\n',
        b'a = """\r\n[mcp_servers.comity]\r\n"""\r\n[mcp_servers.o] # c\r\ncommand = "y"',
        b"\xef\xbb\xbf[mcp_servers]\no = { command = 'y' }\n\n\n",
    ),
    "yaml": (
        None,
        b"",
        b"# only a comment\n",
        b"GOOSE_MODEL: x # why\nextensions:\n  o:\n    cmd: y # theirs\n\n# tail\n",
        b"extensions: {o: {cmd: y}}\r\nz: |\r\n  text\r\n",
        b"\xef\xbb\xbf---\nextensions: # none yet\nz: 1",
    ),
}
READERS = {"json": plain_json, "toml": tomllib.loads, "yaml": lambda text: yaml.safe_load(text) or {}}


def read(client, data):
    return READERS[CLIENTS[client].format]((data or b"").decode("utf-8-sig"))


def entries(value, path):
    for key in path:
        value = (value or {}).get(key)
    return value


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_a_round_trip_through_the_command_line_restores_every_byte(comity, machine, tree, client, scope):
    (file, *_) = places(CLIENTS[client], scope, machine)
    for document in DOCUMENTS[CLIENTS[client].format]:
        if document is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(document)
        before = tree()
        added = comity("install", client, "--scope", scope)
        assert added.code == 0, (document, added)
        with_ours = tree()
        assert with_ours != before
        assert '"mcp"' in file.read_text("utf-8-sig")
        again = comity("install", client, "--scope", scope)
        assert again.code == 0
        assert "Nothing to do." in again.out
        assert tree() == with_ours, document
        removed = comity("uninstall", client, "--scope", scope)
        assert removed.code == 0, (document, removed)
        assert tree() == before, document
        if file.exists():
            file.unlink()


SHAPES = {
    "claude-code": (("mcpServers",), {"type": "stdio", "command": "C", "args": ["A"], "env": {"E": "V"}}),
    "claude-desktop": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "codex": (("mcp_servers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "cursor": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "vscode": (("servers",), {"type": "stdio", "command": "C", "args": ["A"], "env": {"E": "V"}}),
    "copilot": (
        ("mcpServers",),
        {"type": "stdio", "command": "C", "args": ["A"], "env": {"E": "V"}, "tools": ["*"]},
    ),
    "windsurf": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "zed": (("context_servers",), {"source": "custom", "command": "C", "args": ["A"], "env": {"E": "V"}}),
    "gemini": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "opencode": (
        ("mcp",),
        {"type": "local", "command": ["C", "A"], "environment": {"E": "V"}, "enabled": True},
    ),
    "goose": (
        ("extensions",),
        {
            "name": "n",
            "type": "stdio",
            "cmd": "C",
            "args": ["A"],
            "envs": {"E": "V"},
            "enabled": True,
            "timeout": 300,
        },
    ),
    "cline": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}, "disabled": False}),
    "cline-cli": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}, "disabled": False}),
    "antigravity": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "kiro": (("mcpServers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "grok": (("mcp_servers",), {"command": "C", "args": ["A"], "env": {"E": "V"}}),
    "kimi": (("mcpServers",), {"transport": "stdio", "command": "C", "args": ["A"], "env": {"E": "V"}}),
    "kilo": (("mcp",), {"type": "local", "command": ["C", "A"], "environment": {"E": "V"}, "enabled": True}),
}


def test_each_client_gets_the_entry_in_its_own_shape(machine, data):
    assert set(SHAPES) == set(CLIENTS)
    launch = Launch(command="C", args=("A",), env={"E": "V"})
    for client, (holder, entry) in SHAPES.items():
        target = aim(client, "user", "n", machine)
        assert not install(target, launch, machine, Records(data)).fault
        assert read(client, target.file.read_bytes()) == {holder[0]: {"n": entry}}, client


def test_opencode_gets_the_newer_shape_where_the_file_has_it(machine, data):
    folder = machine.home / ".config/opencode"
    folder.mkdir(parents=True)
    file = folder / "opencode.jsonc"
    for text, path in (
        (
            '{"mcp": {"servers": {"o": {"type": "local", "command": ["x"]}}}} // v2',
            ("mcp", "servers", "comity"),
        ),
        ('{"mcp": {"o": {"type": "local", "command": ["x"]}}} // v1', ("mcp", "comity")),
        (
            '{"mcp": {"servers": {"type": "local", "command": ["x"]}}} // one called servers',
            ("mcp", "comity"),
        ),
    ):
        file.write_text(text)
        target = aim("opencode", "user", "comity", machine)
        assert target.file == file
        assert not install(target, LAUNCH, machine, Records(data)).fault
        assert entries(plain_json(file.read_text()), path)["command"][0] == LAUNCH.command
        assert not uninstall(target, machine, Records(data)).fault
        assert file.read_text() == text


def edited(text, kind):
    """What a person may have done in between: another line at the top."""
    comment = {"json": "// later", "toml": "# later", "yaml": "# later"}[kind]
    return f"{comment}\n{text}"


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_what_was_written_in_between_stays_and_only_our_key_goes(machine, data, client, scope):
    kind = CLIENTS[client].format
    for document in DOCUMENTS[kind]:
        target = aim(client, scope, "comity", machine)
        target.file.parent.mkdir(parents=True, exist_ok=True)
        target.file.unlink(missing_ok=True)
        if document is not None:
            target.file.write_bytes(document)
        assert not install(target, LAUNCH, machine, Records(data)).fault
        target.file.write_text(edited(target.file.read_text("utf-8-sig"), kind))
        assert not uninstall(target, machine, Records(data)).fault
        left = target.file.read_text("utf-8")
        assert "# later" in left or "// later" in left
        holder = (CLIENTS[client].scopes[scope].holder or CLIENTS[client].holder)[0]
        before, after = read(client, document), READERS[kind](left)
        assert (after.pop(holder, None) or {}) == (before.pop(holder, None) or {}), document
        assert after == before, document
        assert Records(data).read(target.file) is None


def test_two_names_in_one_file_go_in_any_order(machine, data):
    text = '{\n  // mine\n  "mcpServers": { },\n}\n'
    for order in (("one", "two", "three"), ("three", "two", "one"), ("two", "one", "three")):
        targets = {name: aim("cursor", "user", name, machine) for name in order}
        file = targets["one"].file
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        for name in ("one", "two", "three"):
            assert not install(targets[name], LAUNCH, machine, Records(data)).fault
        for name in order:
            assert not uninstall(targets[name], machine, Records(data)).fault
        assert file.read_text() == text, order


def test_an_entry_of_somebody_else_under_our_name_comes_back(comity, home, project):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    text = '{"mcpServers": {"comity": {"url": "https://other.example"}}}'
    file.write_text(text)
    planned = comity("install", "cursor", "--dry-run")
    assert "replace a foreign entry" in planned.out
    assert comity("install", "cursor").code == 0
    assert comity("install", "cursor", "--preset", "core").code == 0
    assert "core" in file.read_text()
    assert comity("uninstall", "cursor").code == 0
    assert file.read_text() == text
    comity("install", "cursor")
    file.write_text(file.read_text() + "\n// later\n")
    assert comity("uninstall", "cursor").code == 0
    assert plain_json(file.read_text()) == plain_json(text)
    refused = comity("uninstall", "cursor")
    assert refused.code == 1
    assert "was not made by it" in refused.err


def test_what_a_person_added_to_our_entry_survives_a_change_of_preset(comity, home):
    comity("install", "windsurf")
    file = home / ".codeium/windsurf/mcp_config.json"
    held = json.loads(file.read_text())
    held["mcpServers"]["comity"]["disabledTools"] = ["vdo_send"]
    file.write_text(json.dumps(held))
    assert "Nothing to do." in comity("install", "windsurf").out
    comity("install", "windsurf", "--preset", "file")
    entry = json.loads(file.read_text())["mcpServers"]["comity"]
    assert entry["disabledTools"] == ["vdo_send"]
    assert entry["args"][-2:] == ["--tool-profile", "file"]


def test_without_a_record_an_entry_that_starts_comity_is_taken_out(comity, home, data):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"comity": {"command": "/usr/bin/comity", "args": ["mcp"]}, "o": {}}}')
    assert comity("uninstall", "--all").code == 0
    assert json.loads(file.read_text()) == {"mcpServers": {"o": {}}}


def test_what_was_written_between_two_installations_stays(comity, home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "theirs": 1\n}\n')
    comity("install", "cursor")
    file.write_text(file.read_text().replace("1", "2 /* later */"))
    assert comity("install", "cursor", "--preset", "core").code == 0
    assert comity("uninstall", "cursor").code == 0
    assert file.read_text() == '{\n  "theirs": 2 /* later */\n}\n'


def test_what_a_person_removed_does_not_come_back(comity, home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"comity": {"url": "https://other.example"}}}')
    comity("install", "cursor")
    file.write_text('{"mcpServers": {}} // all gone\n')
    comity("install", "cursor")
    file.write_text(file.read_text() + "// later\n")
    assert comity("uninstall", "cursor").code == 0
    assert file.read_text() == '{"mcpServers": {}} // all gone\n// later\n'


def test_an_entry_that_was_taken_out_by_hand_leaves_no_record(comity, home, data):
    comity("install", "cursor")
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {}}')
    assert "nothing to do" in comity("uninstall", "cursor").out
    assert not (data / "installed").exists()
    assert (home / ".cursor" / "mcp.json").read_text() == '{"mcpServers": {}}'


FORMATS = st.sampled_from(["cursor", "codex", "goose"])
TEXTS = {"cursor": json_texts(), "codex": toml_texts(), "goose": yaml_texts()}


@given(FORMATS.flatmap(lambda client: st.tuples(st.just(client), TEXTS[client])), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_the_same_after_a_round_trip_and_differs_by_our_key_before(machine, data, case, marked):
    client, text = case
    document = (b"\xef\xbb\xbf" if marked else b"") + text.encode("utf-8")
    target = aim(client, "user", "comity", machine)
    target.file.parent.mkdir(parents=True, exist_ok=True)
    target.file.write_bytes(document)
    outcome = install(target, LAUNCH, machine, Records(data))
    assert not outcome.fault
    changed = target.file.read_bytes()
    assert changed.startswith(b"\xef\xbb\xbf") == marked
    before, after = read(client, document), read(client, changed)
    (holder,) = CLIENTS[client].holder
    servers = after.pop(holder)
    assert servers.pop("comity")["args"] == list(LAUNCH.args)
    assert repr(servers) == repr(before.pop(holder, None) or {})
    assert repr(after) == repr(before)
    assert not uninstall(target, machine, Records(data)).fault
    assert target.file.read_bytes() == document


def test_the_paths_of_another_system_are_used_when_the_machine_is_one(home, project, data):
    machine = Computer(system="mac", home=home, environ={}, project=project)
    target = aim("claude-desktop", "user", "comity", machine)
    assert not install(target, LAUNCH, machine, Records(data)).fault
    assert (home / "Library/Application Support/Claude/claude_desktop_config.json").exists()
    assert not uninstall(target, machine, Records(data)).fault
    assert not (home / "Library").exists()
