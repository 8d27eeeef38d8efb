"""sbom.json lists what the lock file pins; `python -m tools.sbom > sbom.json` makes it anew."""

import json
import re

from tools.sbom import KEPT, ROOT, bill, written


def test_the_kept_bill_is_current():
    assert KEPT.read_text() == written(), "run `python -m tools.sbom > sbom.json`"


def test_every_pinned_package_is_listed_once():
    listed = {one["name"]: one["version"] for one in json.loads(KEPT.read_text())["components"]}
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    pinned = [line.split(" ")[0] for line in lines if re.match("[a-z0-9]", line)]
    assert len(pinned) > 50
    for entry in pinned:
        name, _, version = entry.partition("==")
        assert listed[name.partition("[")[0].replace("_", "-").replace(".", "-")] == version
    assert len(listed) == len(pinned) + 1  # and torch, which the Makefile pins
    assert listed["torch"] in (ROOT / "Makefile").read_text()


def test_what_tacit_itself_needs_is_named():
    [root] = bill()["dependencies"]
    names = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in root["dependsOn"]}
    assert names == {"torch", "numpy", "cryptography", "typer", "rich"}
