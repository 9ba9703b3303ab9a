"""The bundle for Claude Desktop: its manifest keeps the rules, its bytes depend on the sources only."""

import importlib.util
import json
import re
import tomllib
import zipfile

import jsonschema
import pytest

import comity
from tests.places import ROOT

SETTING = {
    "type": "object",
    "required": ["type", "title"],
    "properties": {
        "type": {"enum": ["string", "number", "boolean", "directory", "file"]},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "required": {"type": "boolean"},
        "sensitive": {"type": "boolean"},
        "default": {},
    },
    "additionalProperties": False,
}
MANIFEST = {
    "type": "object",
    "required": ["manifest_version", "name", "version", "description", "author", "server"],
    "properties": {
        "manifest_version": {"enum": ["0.3", "0.4"]},
        "name": {"type": "string", "minLength": 1},
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
        "author": {"type": "object", "required": ["name"]},
        "server": {
            "type": "object",
            "required": ["type", "entry_point", "mcp_config"],
            "properties": {
                "type": {"enum": ["node", "python", "binary", "uv"]},
                "mcp_config": {
                    "type": "object",
                    "required": ["command", "args"],
                    "properties": {
                        "command": {"type": "string"},
                        "args": {"type": "array", "items": {"type": "string"}},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                },
            },
        },
        "user_config": {"type": "object", "additionalProperties": SETTING},
        "tools_generated": {"type": "boolean"},
        "compatibility": {"type": "object"},
    },
    # a server of type uv came with 0.4
    "if": {"properties": {"server": {"properties": {"type": {"const": "uv"}}}}},
    "then": {"properties": {"manifest_version": {"const": "0.4"}}},
}


@pytest.fixture(scope="module")
def builder():
    spec = importlib.util.spec_from_file_location("mcpb_build", ROOT / "packaging" / "mcpb" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bundle(builder, tmp_path_factory):
    return builder.build(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def manifest(bundle):
    with zipfile.ZipFile(bundle) as archive:
        return json.loads(archive.read("manifest.json"))


def test_the_manifest_keeps_the_rules(manifest):
    jsonschema.validate(manifest, MANIFEST)
    assert manifest["version"] == comity.__version__
    for broken in ({"manifest_version": "0.3"}, {"author": {}}, {"server": {"type": "uv"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**manifest, **broken}, MANIFEST)


def test_every_value_that_is_filled_in_has_a_setting_with_a_default(manifest):
    used = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"])))
    assert used == set(manifest["user_config"])
    assert all("default" in manifest["user_config"][key] for key in used)


def test_it_starts_the_command_that_the_package_has(manifest):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    args = manifest["server"]["mcp_config"]["args"]
    program = args[args.index("${__dirname}") + 1 :]
    assert program[:2] == ["comity", "mcp"]
    assert program[0] in project["scripts"]


def test_it_holds_the_sources_and_what_builds_them(bundle, manifest):
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert archive.read("pyproject.toml") == (ROOT / "pyproject.toml").read_bytes()
    assert bundle.name == f"comity-{comity.__version__}.mcpb"
    assert names[0] == "manifest.json"
    assert len(set(names)) == len(names)
    assert {"pyproject.toml", "README.md", "LICENSE", manifest["server"]["entry_point"]} <= set(names)
    assert "src/comity/hosts/clients.toml" in names
    skills = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src/comity_skills/crisis/lines.json",
        "hatch_build.py",
    }
    assert {f"packages/comity-skills/{name}" for name in skills} <= set(names)
    assert not [name for name in names if "/tests/" in name or "/evals/" in name]
    assert not [
        name for name in names if "__pycache__" in name or name.startswith(("/", "..")) or "\\" in name
    ]


def test_the_same_sources_give_the_same_bytes(builder, bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(builder.zipfile.time, "time", lambda: 2e9)
    fixed = list(builder.contents())
    monkeypatch.setattr(builder, "contents", lambda: iter(fixed))
    first = builder.build(tmp_path / "one").read_bytes()
    assert builder.build(tmp_path / "two").read_bytes() == first
