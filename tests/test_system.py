"""What a missing package is told: a command that works for the installation at hand, wherever it came from."""

import importlib.util
import sys

import pytest

from comity.agents.mcp_tool import load_mcp_tool
from comity.system import install_command
from comity.wire.errors import ConfigError


def test_the_command_adds_to_the_interpreter_that_runs():
    assert install_command("mcp") == f"{sys.executable} -m pip install mcp"
    assert install_command("a b", "c>1").endswith("pip install 'a b' 'c>1'")


def test_without_pip_uv_is_named(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else real(name))
    assert install_command("mcp") == f"uv pip install --python {sys.executable} mcp"


def test_an_agent_that_needs_a_package_says_what_to_type(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mcp" else real(name))
    with pytest.raises(ConfigError, match=r"needs the package mcp; run: .+ -m pip install mcp"):
        load_mcp_tool("mcp:https://host.example/mcp#tool")
