"""A software bill of materials (CycloneDX 1.5, JSON), from the lock file and pyproject.toml.

    python -m tools.sbom > sbom.json      # writes what the repository keeps
    python -m tools.sbom --check          # fails if the kept file is not that

It lists what `make setup` installs: the packages of the lock file, which has the hashes that pip
compares and whose own hash stands here, and torch, which the Makefile pins by version. Nothing of
the machine or the time enters, so that equal inputs give equal files.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "sbom.json"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
_TORCH = re.compile(r"\btorch==([0-9.]+)")


def bill() -> dict[str, Any]:
    """Returns the document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements-dev.lock").read_text()
    [torch] = set(_TORCH.findall((ROOT / "Makefile").read_text()))
    components = [*locked(lock), component("torch", torch)]
    components.sort(key=lambda one: one["name"])
    direct = {_name(text) for text in project["dependencies"]}
    root = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{project['name']}@{project['version']}",
        "name": project["name"],
        "version": project["version"],
        "licenses": [{"license": {"id": project["license"]}}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))}",
        "version": 1,
        "metadata": {
            "component": root,
            "properties": [
                {
                    "name": "sha256 of requirements-dev.lock",
                    "value": hashlib.sha256(lock.encode()).hexdigest(),
                }
            ],
        },
        "components": components,
        "dependencies": [
            {
                "ref": root["bom-ref"],
                "dependsOn": [one["bom-ref"] for one in components if one["name"] in direct],
            }
        ],
    }


def locked(text: str) -> list[dict[str, str]]:
    """Returns the packages of a lock file of pip."""
    return [component(*found) for found in _PINNED.findall(text)]


def component(name: str, version: str) -> dict[str, str]:
    """Returns one package."""
    url = f"pkg:pypi/{_name(name)}@{version}"
    what = {"type": "library", "name": _name(name), "version": version}
    return {**what, "bom-ref": url, "purl": url}


def _name(text: str) -> str:
    """Returns the normalized name of a package, as PyPI writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", text, maxsplit=1)[0]).lower()


def written() -> str:
    return json.dumps(bill(), indent=1) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if KEPT.exists() and KEPT.read_text() == written() else "sbom.json is stale")
    sys.stdout.write(written())
