"""The bill of materials of a release: what `pip install comity` brings, with versions and hashes, as CycloneDX 1.6 JSON.

- The versions and hashes are those of the lock file; the skills are of the same release as the node, and have no hash yet. What is in it only to build has the scope `excluded`.
- The same lock file gives the same bytes: there is no time in it, and the serial number is made of what it lists.
"""

import hashlib
import json
import re
import sys
import tomllib
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-run.lock"
SKILLS = "comity-skills"

_PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)(?:\[[^\]]*\])?==([^ ;\\]+)([^\\\n]*)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def bill(lock: str, version: str) -> dict[str, Any]:
    """`lock` is the text of the lock file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = {name: (release, hashes) for name, release, hashes in _pins(lock)} | {SKILLS: (version, [])}
    needs = {name: _needs(name) & pinned.keys() for name in pinned}
    direct = {_normal(line) for line in project["dependencies"]}
    used, waiting = set(), direct & pinned.keys()
    while waiting:
        used |= waiting
        waiting = {other for name in waiting for other in needs[name]} - used
    purl = {name: f"pkg:pypi/{name}@{release}" for name, (release, _) in pinned.items()}
    own = f"pkg:pypi/comity@{version}"
    seed = hashlib.sha256(f"{own}\n{lock}".encode()).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, seed)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "comity",
                "version": version,
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": own,
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": purl[name],
                "name": name,
                "version": release,
                "scope": "required" if name in used else "excluded",
                "purl": purl[name],
                # one for each file that the index has of this version
                "properties": [{"name": "comity:sha256", "value": value} for value in hashes],
            }
            for name, (release, hashes) in sorted(pinned.items())
        ],
        "dependencies": [
            {"ref": own, "dependsOn": sorted(purl[name] for name in direct & pinned.keys())},
            *(
                {"ref": purl[name], "dependsOn": sorted(purl[other] for other in needs[name])}
                for name in sorted(pinned)
            ),
        ],
    }


def _pins(lock: str) -> list[tuple[str, str, list[str]]]:
    found: list[tuple[str, str, list[str]]] = []
    for line in lock.splitlines():
        if pin := _PIN.match(line):
            found.append((_normal(pin[1]), pin[2], []))
        found[-1][2].extend(_HASH.findall(line))
    return found


def _needs(name: str) -> set[str]:
    """What the installed package asks for; extras are not installed."""
    try:
        asked = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # for another system
        return set()
    return {_normal(line) for line in asked if "extra ==" not in line}


def _normal(requirement: str) -> str:
    found = _NAME.match(requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def main(target: str) -> None:
    sys.path.insert(0, str(ROOT / "src"))
    from comity.release import __version__  # noqa: PLC0415 - found by the path above

    path = Path(target, f"comity-{__version__}.cdx.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    made = bill(LOCK.read_text("utf-8"), __version__)
    path.write_text(json.dumps(made, indent=2) + "\n", "utf-8")
    print(f"bill of materials: {path}, {len(made['components'])} components")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["dist"]))
