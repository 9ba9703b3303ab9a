"""What a missing package is told: a command that works for the installation at hand, wherever it came from."""

import importlib.util
import sys

import pytest

from comity.agents.mcp_tool import load_mcp_tool
from comity.system import install_command
from comity.wire.errors import ConfigError


@pytest.fixture
def finding(monkeypatch):
    """Let packages be found, or not, whatever made this environment: pip, or uv, which leaves pip out."""
    real, found = importlib.util.find_spec, {}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: real("json") if found.get(name, real(name)) else None
    )
    return found


def test_the_command_adds_to_the_interpreter_that_runs(finding):
    finding["pip"] = True
    assert install_command("mcp") == f"{sys.executable} -m pip install mcp"
    assert install_command("a b", "c>1").endswith("pip install 'a b' 'c>1'")


def test_without_pip_uv_is_named(finding):
    finding["pip"] = False
    assert install_command("mcp") == f"uv pip install --python {sys.executable} mcp"


def test_an_agent_that_needs_a_package_says_what_to_type(finding):
    finding["mcp"] = False
    with pytest.raises(ConfigError, match=r"needs the package mcp; run: .+pip install .*mcp"):
        load_mcp_tool("mcp:https://host.example/mcp#tool")
