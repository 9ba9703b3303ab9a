"""The bill of materials: valid CycloneDX, whole, and the same bytes for the same lock file."""

import importlib.util
import json
import re

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.places import ROOT


@pytest.fixture(scope="module")
def sbom():
    spec = importlib.util.spec_from_file_location("comity_sbom", ROOT / "packaging" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(sbom):
    return sbom.bill(sbom.LOCK.read_text("utf-8"), "1.2.3")


def by_name(bill):
    return {component["name"]: component for component in bill["components"]}


def test_it_is_valid_cyclonedx(made):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is None
    broken = {**made, "components": [{"name": "no type"}]}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(broken)) is not None


def test_it_lists_what_the_lock_file_pins_with_every_hash(sbom, made):
    lock = sbom.LOCK.read_text("utf-8")
    pinned = dict(re.findall(r"^([a-z0-9.-]+)(?:\[.*\])?==([^ \\;]+)", lock, re.MULTILINE))
    listed = by_name(made)
    assert {name: one["version"] for name, one in listed.items()} == {**pinned, "comity-skills": "1.2.3"}
    hashes = [one["value"] for component in listed.values() for one in component["properties"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", lock))


def test_what_is_only_for_building_is_told_apart(made):
    listed = by_name(made)
    assert listed["hatchling"]["scope"] == "excluded"
    for name in ("apsw", "cryptography", "starlette", "anyio", "comity-skills", "selectolax"):
        assert listed[name]["scope"] == "required", name


def test_it_says_what_needs_what(made):
    needs = {one["ref"].partition("@")[0]: one["dependsOn"] for one in made["dependencies"]}
    assert any(ref.startswith("pkg:pypi/apsw@") for ref in needs["pkg:pypi/comity"])
    assert "pkg:pypi/comity-skills@1.2.3" in needs["pkg:pypi/comity"]
    assert any(ref.startswith("pkg:pypi/selectolax@") for ref in needs["pkg:pypi/comity-skills"])
    assert any(ref.startswith("pkg:pypi/anyio@") for ref in needs["pkg:pypi/starlette"])


def test_the_same_lock_file_gives_the_same_bill_and_another_one_another(sbom, made):
    lock = sbom.LOCK.read_text("utf-8")
    assert sbom.bill(lock, "1.2.3") == made
    assert sbom.bill(lock, "1.2.4")["serialNumber"] != made["serialNumber"]


def test_it_is_written_where_it_is_wanted(sbom, tmp_path, capsys):
    sbom.main(str(tmp_path))
    (written,) = tmp_path.iterdir()
    assert written.name.endswith(".cdx.json")
    assert str(written) in capsys.readouterr().out
