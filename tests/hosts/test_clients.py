from pathlib import Path

import pytest

from comity.hosts.clients import Computer, client_named, holder_of, is_found, places, table
from comity.wire.errors import ConfigError

HOME = Path("/home/you")
CLIENTS = table().clients

# the sheet of the clients, by system: what stands in each user's folder
USER_FILES = {
    "claude-code": (".claude.json",) * 3,
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "codex": (".codex/config.toml",) * 3,
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "copilot": (".copilot/mcp-config.json",) * 3,
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "zed": (
        ".config/zed/settings.json",
        "Library/Application Support/Zed/settings.json",
        "AppData/Roaming/Zed/settings.json",
    ),
    "gemini": (".gemini/settings.json",) * 3,
    "opencode": (".config/opencode/opencode.json",) * 3,
    "goose": (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
    ),
    "cline": tuple(
        f"{root}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
        for root in (".config", "Library/Application Support", "AppData/Roaming")
    ),
    "cline-cli": (".cline/data/settings/cline_mcp_settings.json",) * 3,
    "antigravity": (".gemini/config/mcp_config.json",) * 3,
    "kiro": (".kiro/settings/mcp.json",) * 3,
    "grok": (".grok/config.toml",) * 3,
    "kimi": (".kimi-code/mcp.json",) * 3,
    "kilo": (".config/kilo/kilo.json",) * 3,
}
PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "copilot": ".mcp.json",
    "zed": ".zed/settings.json",
    "gemini": ".gemini/settings.json",
    "opencode": "opencode.json",
}


def on(system, **environ):
    return Computer(system=system, home=HOME, environ=environ, project=Path("/p/q"))


def test_the_users_file_of_each_client_on_each_system():
    assert set(USER_FILES) == set(CLIENTS)
    for key, expected in USER_FILES.items():
        for system, file in zip(("linux", "mac", "windows"), expected, strict=True):
            assert places(CLIENTS[key], "user", on(system))[0] == HOME / file, (key, system)


def test_the_projects_file_of_each_client_that_has_one():
    assert {key for key, client in CLIENTS.items() if "project" in client.scopes} == set(PROJECT_FILES)
    for key, file in PROJECT_FILES.items():
        assert places(CLIENTS[key], "project", on("linux"))[0] == Path("/p/q") / file


@pytest.mark.parametrize(
    ("client", "system", "variable", "file"),
    [
        ("codex", "linux", "CODEX_HOME", "config.toml"),
        ("copilot", "mac", "COPILOT_HOME", "mcp-config.json"),
        ("claude-code", "linux", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("goose", "linux", "XDG_CONFIG_HOME", "goose/config.yaml"),
        ("vscode", "windows", "APPDATA", "Code/User/mcp.json"),
    ],
)
def test_a_variable_moves_a_folder_when_it_is_an_absolute_path(client, system, variable, file):
    moved = places(CLIENTS[client], "user", on(system, **{variable: "/else where"}))[0]
    assert moved == Path("/else where") / file
    for ignored in ("", "relative/path"):
        stays = places(CLIENTS[client], "user", on(system, **{variable: ignored}))[0]
        assert stays == places(CLIENTS[client], "user", on(system))[0]


def test_claudes_local_scope_is_kept_under_the_path_of_the_project():
    claude = CLIENTS["claude-code"]
    assert holder_of(claude, "local", on("linux")) == ("projects", "/p/q", "mcpServers")
    assert holder_of(claude, "user", on("linux")) == ("mcpServers",)


def test_a_client_is_found_by_its_folder(machine):
    assert not [key for key, client in CLIENTS.items() if is_found(client, machine)]
    (machine.home / ".cursor").mkdir()
    (machine.home / ".claude").mkdir()
    assert [key for key, client in CLIENTS.items() if is_found(client, machine)] == ["claude-code", "cursor"]


def test_a_client_is_known_by_its_title_too_and_a_mistyped_one_by_its_neighbour():
    for key, client in CLIENTS.items():
        assert client_named(key) == client_named(client.title) == client_named(key.upper()) == key
    with pytest.raises(ConfigError, match="there is no client 'claude-cod'; did you mean claude-code"):
        client_named("claude-cod")
    with pytest.raises(ConfigError, match="choose from claude-code, "):
        client_named("zzzzzz")


def test_every_row_of_the_table_can_be_used():
    for key, client in CLIENTS.items():
        assert "user" in client.scopes, key
        assert set(client.scopes) <= {"user", "project", "local"}, key
        words = str(client.entry)
        assert "{call}" in words or ("{command}" in words and "{args}" in words), key
        assert "{env}" in words, key
        if client.program:
            assert set(client.program.scopes) <= set(client.scopes), key
