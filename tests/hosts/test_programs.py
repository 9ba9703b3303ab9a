"""Clients with a command of their own: it is used, looked after, and done without when it fails."""

import json
import tomllib

from comity.hosts.clients import Computer, Launch, table
from comity.hosts.install import add_call, found_program, same_entry

CLIENTS = table().clients

CLAUDE = """
path = os.path.expanduser("~/.claude.json")
held = json.load(open(path)) if os.path.exists(path) else {"userID": "made by claude"}
servers = held.setdefault("mcpServers", {})
if words[:2] == ["mcp", "add"]:
    assert words[2:4] == ["--scope", "user"]
    cut = words.index("--")
    pairs = [word for word in words[5:cut] if word != "-e"]
    if words[4] in servers: sys.exit("already exists")
    servers[words[4]] = {"type": "stdio", "command": words[cut + 1], "args": words[cut + 2:],
                         "env": dict(pair.split("=", 1) for pair in pairs)}
elif words[:2] == ["mcp", "remove"]:
    assert words[3:] == ["--scope", "user"]
    if servers.pop(words[2], None) is None: sys.exit("no such server")
json.dump(held, open(path, "w"), indent=2)
"""
CODEX = """
path = os.path.expanduser("~/.codex/config.toml")
os.makedirs(os.path.dirname(path), exist_ok=True)
text = open(path).read() if os.path.exists(path) else ""
if words[:2] == ["mcp", "add"]:
    cut = words.index("--")
    text += "[mcp_servers.%s]" % words[2] + chr(10) + "command = " + json.dumps(words[cut + 1]) + chr(10)
    text += "args = " + json.dumps(words[cut + 2:]) + chr(10)
    pairs = [word.split("=", 1) for word in words[3:cut] if word != "--env"]
    text += "[mcp_servers.%s.env]" % words[2] + chr(10)
    text += "".join("%s = %s" % (key, json.dumps(value)) + chr(10) for key, value in pairs)
else:
    text = text[:text.index("[mcp_servers.%s]" % words[2])]
open(path, "w").write(text)
"""


def test_the_own_command_is_used_and_the_file_is_still_restored_to_the_byte(comity, fake_program, home, tree):
    calls = fake_program("claude", CLAUDE)
    (home / ".claude.json").write_text('{ "projects" : { } ,"mcpServers":{"o":{"command":"x"}}}')
    before = tree()
    planned = comity("install", "claude-code", "--dry-run")
    assert calls() == []
    assert f"{home / 'programs' / 'claude'} mcp add --scope user comity" in planned.out
    added = comity("install", "claude-code")
    assert added.code == 0, added
    assert "added      Claude Code: by " in added.out
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["comity"]["type"] == "stdio"
    assert "Nothing to do." in comity("install", "claude-code").out
    assert len(calls()) == 1
    assert comity("install", "claude-code", "--preset", "core").code == 0
    assert [call[1] for call in calls()] == ["add", "remove", "add"]
    removed = comity("uninstall", "claude-code")
    assert removed.code == 0, removed
    assert calls()[-1] == ["mcp", "remove", "comity", "--scope", "user"]
    assert tree() == before


def test_a_file_that_the_own_command_made_goes_with_it(comity, fake_program, home, tree):
    for name, body, client in (("claude", CLAUDE, "claude-code"), ("codex", CODEX, "codex")):
        calls = fake_program(name, body)
        before = tree()
        assert comity("install", client).code == 0
        assert tree() != before
        assert comity("uninstall", client).code == 0
        assert len(calls()) == 2
        assert tree() == before


def test_what_was_written_in_between_stays_with_the_own_command_too(comity, fake_program, home):
    calls = fake_program("codex", CODEX)
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text('# mine\nmodel = "x"\n')
    comity("install", "codex")
    file.write_text(file.read_text().replace('"x"', '"y"'))
    assert comity("uninstall", "codex").code == 0
    assert [call[1] for call in calls()] == ["add", "remove"]
    assert file.read_text() == '# mine\nmodel = "y"\n'


def test_a_command_that_fails_or_does_nothing_is_done_without(comity, fake_program, home):
    for body, said in (
        ("print('broken'); sys.exit(3)", "ended with 3: broken"),
        ("", "does not have the entry"),
        ("open(os.path.expanduser('~/.claude.json'), 'w').write('ruined')", "does not have the entry"),
    ):
        fake_program("claude", body)
        file = home / ".claude.json"
        text = '// mine\n{"mcpServers": {}}\n'
        file.write_text(text)
        added = comity("install", "claude-code")
        assert added.code == 0, added
        assert said in added.err
        assert "the file was changed instead" in added.err
        assert file.read_text().startswith('// mine\n{"mcpServers": {"comity": ')
        fake_program("claude", "sys.exit(1)")
        assert comity("uninstall", "claude-code").code == 0
        assert file.read_text() == text


def test_a_command_that_only_says_it_removed_is_done_without(comity, fake_program, home):
    fake_program("codex", CODEX)
    comity("install", "codex")
    file = home / ".codex/config.toml"
    file.write_text("# mine\n" + file.read_text())
    fake_program("codex", "print('removed')")
    removed = comity("uninstall", "codex")
    assert removed.code == 0
    assert "its file still has the entry" in removed.err
    assert file.read_text() == "# mine\n"


def test_an_entry_of_somebody_else_comes_back_after_the_own_command_too(comity, fake_program, home):
    calls = fake_program("claude", CLAUDE)
    file = home / ".claude.json"
    theirs = {"mcpServers": {"comity": {"type": "http", "url": "https://other.example"}}}
    file.write_text(json.dumps(theirs))
    assert comity("install", "claude-code").code == 0
    file.write_text(file.read_text() + "\n")
    assert comity("uninstall", "claude-code").code == 0
    assert [call[1] for call in calls()] == ["remove", "add", "remove"]
    assert json.loads(file.read_text()) == theirs


def test_a_program_that_cannot_be_started_is_done_without(comity, programs, home):
    (programs / "codex").write_bytes(b"\x7fELF no program")
    (programs / "codex").chmod(0o755)
    added = comity("install", "codex")
    assert added.code == 0
    assert "could not be used" in added.err
    assert "comity" in tomllib.loads((home / ".codex/config.toml").read_text())["mcp_servers"]


def test_a_secret_is_never_put_on_a_command_line(comity, fake_program, home, data):
    calls = fake_program("claude", CLAUDE)
    added = comity("install", "claude-code", "--preset", "secure-core")
    assert added.code == 0
    assert calls() == []
    assert "can be read by every user" in added.out
    assert (data / "join-secret").read_text().strip() in (home / ".claude.json").read_text()


def test_the_exact_words_of_each_command():
    launch = Launch(command="/p y", args=("-m", "comity", "mcp"), env={"A": "1", "B": "x y"})
    words = {
        key: add_call("bin", client.program, "n", "user", launch)
        for key, client in CLIENTS.items()
        if client.program
    }
    call = ["/p y", "-m", "comity", "mcp"]
    add, env = ("bin", "mcp", "add"), ("-e", "A=1", "-e", "B=x y")
    assert words.pop("claude-code") == (*add, "--scope", "user", "n", *env, "--", *call)
    assert words.pop("codex") == (*add, "n", "--env", "A=1", "--env", "B=x y", "--", *call)
    assert words.pop("gemini") == (*add, *env, "-s", "user", "n", "/p y", "--", *call[1:])
    program, flag, text = words.pop("vscode")
    assert (program, flag) == ("bin", "--add-mcp")
    assert json.loads(text) == {"name": "n", "command": call[0], "args": call[1:], "env": launch.env}
    assert not words


def test_a_batch_file_is_not_used_on_windows(programs, home, project):
    own = CLIENTS["codex"].program
    for name in ("codex", "codex.exe"):
        (programs / name).write_text("")
        (programs / name).chmod(0o755)
    environ = {"PATH": str(programs)}
    linux = Computer(system="linux", home=home, environ=environ, project=project)
    windows = Computer(system="windows", home=home, environ=environ, project=project)
    assert found_program(own, "user", linux) == str(programs / "codex")
    assert found_program(own, "user", windows) is None
    assert found_program(own, "project", linux) is None
    assert found_program(None, "user", linux) is None


def test_an_entry_with_more_in_it_does_what_ours_would():
    ours = {"command": "c", "args": ["a"], "env": {}, "enabled": True}
    assert same_entry({**ours, "trust": True}, ours)
    assert same_entry({"command": "c", "args": ["a"], "enabled": True}, ours)
    assert not same_entry({**ours, "enabled": False}, ours)
    assert not same_entry({**ours, "args": []}, ours)
    assert not same_entry(None, ours)
