import os
import subprocess
import sys

import pytest

from comity.hosts import clients
from comity.hosts.clients import checked_name, join_secret, launch_of, masked, own_call, starts_comity
from comity.wire.errors import ConfigError


@pytest.mark.parametrize(
    ("preset", "flags"),
    [
        ("full", ["--tool-profile", "full"]),
        ("core", ["--tool-profile", "core"]),
        ("file", ["--tool-profile", "file"]),
        ("state", ["--tool-profile", "state"]),
        (
            "secure-core",
            ["--tool-profile", "core", "--enforce-join-token", "true", "--require-session-mac", "true"],
        ),
        (
            "secure-full",
            ["--tool-profile", "full", "--enforce-join-token", "true", "--require-session-mac", "true"],
        ),
    ],
)
def test_a_preset_becomes_flags(preset, flags):
    made = launch_of(preset, {}, secret="s" * 20 if "secure" in preset else "")
    assert made.call == (sys.executable, "-P", "-m", "comity", "mcp", *flags)
    assert made.env == ({"VDON_MCP_JOIN_TOKEN_SECRET": "s" * 20} if "secure" in preset else {})


def test_the_call_starts_this_program_and_not_a_folder_of_that_name(tmp_path):
    (tmp_path / "comity").mkdir()
    (tmp_path / "comity" / "__init__.py").write_text("raise SystemExit('a trap')")
    ended = subprocess.run(
        [*own_call(), "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("comity ")


def test_from_an_environment_that_uvx_made_it_is_uvx_that_is_called(monkeypatch, programs):
    monkeypatch.setenv("PATH", str(programs))
    for prefix in ("/home/you/.cache/uv/archive-v0/abc", "C:\\Users\\you\\uv\\cache\\environments-v2\\x"):
        monkeypatch.setattr(clients.sys, "prefix", prefix)
        assert own_call() == ["uvx", "comity"]
    (programs / "uvx").write_text("")
    (programs / "uvx").chmod(0o755)
    assert own_call() == [str(programs / "uvx"), "comity"]
    monkeypatch.setattr(clients.sys, "prefix", "/home/you/.local/share/uv/tools/comity")
    assert own_call()[0] == sys.executable


def test_the_join_secret_is_made_once_and_only_when_it_is_needed(data):
    assert join_secret(data, make=False) == clients.MASK
    assert not data.exists()
    secret = join_secret(data, make=True)
    assert len(secret) >= 43
    assert join_secret(data, make=True) == join_secret(data, make=False) == secret
    assert (data / "join-secret").stat().st_mode & 0o777 == 0o600


def test_a_join_secret_is_masked_in_every_spelling():
    name = "VDON_MCP_JOIN_TOKEN_SECRET"
    for text in (f'"{name}": "s3cret"', f"{name} = 's3cret' }}", f"{name}: s3cret", f'{name}="s3cret"'):
        assert "s3cret" not in masked(text)
        assert name in masked(text)
    assert masked('"OTHER": "s3cret"') == '"OTHER": "s3cret"'


@pytest.mark.parametrize(
    "name", ["", "-x", "a b", 'a"b', "a\nb", "a.b", "é", "x" * 65, "../a", "a]", "${HOME}", "a\x00", "a\n"]
)
def test_a_name_that_would_mean_something_to_a_file_or_a_program_is_refused(name):
    with pytest.raises(ConfigError, match="--name must be 1 to 64 letters"):
        checked_name(name)
    assert checked_name("a-B_9") == "a-B_9"


def test_a_path_that_is_no_text_is_refused(monkeypatch):
    folder = os.fsdecode(b"/data/\xff")
    with pytest.raises(ConfigError, match="cannot hold"):
        launch_of("full", {"COMITY_DATA": folder})
    monkeypatch.setattr("sys.executable", "/new\nline/python")
    with pytest.raises(ConfigError, match="cannot hold"):
        launch_of("full", {})


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "/v/bin/python", "args": ["-P", "-m", "comity", "mcp"]}, True),
        ({"command": "uvx", "args": ["comity", "mcp", "--tool-profile", "core"]}, True),
        ({"command": "C:\\bin\\comity.exe", "args": ["mcp"]}, True),
        ({"command": ["python", "-m", "comity", "mcp"]}, True),
        ({"cmd": "comity", "args": ["mcp"]}, True),
        ({"command": "comity", "args": ["up"]}, False),
        ({"command": "npx", "args": ["comity-mcp"]}, False),
        ({"url": "https://comity.example/mcp"}, False),
        ("comity mcp", False),
        (None, False),
        ({"command": None, "args": [1, {}]}, False),
    ],
)
def test_an_entry_of_ours_is_known_by_what_it_starts(entry, ours):
    assert starts_comity(entry) is ours
