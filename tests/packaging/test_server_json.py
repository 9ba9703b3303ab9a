"""`server.json` keeps the rules of the registry, for the parts that it uses."""

import json
import re
import tomllib

import jsonschema
import pytest

import comity
from tests.places import ROOT

ARGUMENT = {
    "type": "object",
    "required": ["type"],
    "oneOf": [
        {
            "properties": {"type": {"const": "positional"}},
            "anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}],
        },
        {"properties": {"type": {"const": "named"}, "name": {"type": "string"}}, "required": ["name"]},
    ],
}
VARIABLE = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
        "description": {"type": "string", "minLength": 1},
        "isRequired": {"type": "boolean"},
        "isSecret": {"type": "boolean"},
        "default": {"type": "string"},
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
    },
    "additionalProperties": False,
}
EXACT_VERSION = {"type": "string", "minLength": 1, "pattern": r"^[^\^~<>=*\sx]+$", "not": {"const": "latest"}}
PACKAGE = {
    "type": "object",
    "required": ["registryType", "identifier", "version", "transport"],
    "properties": {
        "registryType": {"enum": ["npm", "pypi", "nuget", "cargo", "oci", "mcpb"]},
        "identifier": {"type": "string", "minLength": 1},
        "version": EXACT_VERSION,
        "runtimeHint": {"type": "string"},
        "runtimeArguments": {"type": "array", "items": ARGUMENT},
        "packageArguments": {"type": "array", "items": ARGUMENT},
        "environmentVariables": {"type": "array", "items": VARIABLE},
        "transport": {
            "oneOf": [
                {
                    "properties": {"type": {"const": "stdio"}},
                    "required": ["type"],
                    "additionalProperties": False,
                },
                {"properties": {"type": {"const": "streamable-http"}}, "required": ["type", "url"]},
            ]
        },
    },
    "additionalProperties": False,
}
SERVER = {
    "type": "object",
    "required": ["$schema", "name", "description", "version"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {
            "type": "string",
            "maxLength": 200,
            "pattern": r"^[a-zA-Z0-9.-]+\.[a-zA-Z0-9-]+/[a-zA-Z0-9._-]+$",
        },
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": EXACT_VERSION,
        "packages": {"type": "array", "items": PACKAGE, "minItems": 1},
    },
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server():
    return json.loads((ROOT / "server.json").read_text("utf-8"))


def test_it_keeps_the_rules_of_the_registry(server):
    jsonschema.Draft202012Validator.check_schema(SERVER)
    jsonschema.validate(server, SERVER)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "comity"),
        ("name", "io.github.x/a/b"),
        ("description", "x" * 101),
        ("version", "latest"),
        ("version", "^1.0"),
        ("packages", [{"registryType": "pip"}]),
        ("more", 1),
    ],
)
def test_what_breaks_the_rules_is_noticed(server, key, value):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**server, key: value}, SERVER)


def test_it_speaks_of_this_version_of_this_package(server):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (package,) = server["packages"]
    assert server["version"] == package["version"] == comity.__version__
    assert package["identifier"] == project["name"]
    assert package["packageArguments"] == [{"type": "positional", "value": "mcp"}]


def test_the_only_secret_is_marked_and_has_no_default(server):
    variables = {each["name"]: each for each in server["packages"][0]["environmentVariables"]}
    secrets = [name for name in variables if re.search("SECRET|KEY|PASS", name)]
    assert secrets == ["VDON_MCP_JOIN_TOKEN_SECRET"]
    assert variables[secrets[0]]["isSecret"] is True
    assert "default" not in variables[secrets[0]]


def test_the_readme_proves_that_the_package_is_the_servers():
    """The registry looks for this line in the page of the package."""
    name = json.loads((ROOT / "server.json").read_text("utf-8"))["name"]
    assert f"mcp-name: {name}" in (ROOT / "README.md").read_text("utf-8")
