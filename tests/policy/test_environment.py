"""The lock file pins the development environment on every platform, without torch."""

from __future__ import annotations

import re
import tomllib

from tests.policy.sources import ROOT

LOCK = (ROOT / "requirements-dev.lock").read_text()
PINS = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCK, re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def names(extra):
    """The packages of an extra, with those of the extras that it includes."""
    for requirement in EXTRAS[extra]:
        name, included = re.match(r"([A-Za-z0-9._-]+)(?:\[([\w,]+)\])?", requirement).groups()
        if name == "tacit":
            for one in included.split(","):
                yield from names(one)
        else:
            yield name.lower()


def test_every_package_has_hashes():
    entries = re.split(r"\n(?=[A-Za-z0-9])", LOCK)
    pinned = [entry for entry in entries if "==" in entry]
    assert len(pinned) == len(PINS) > 100
    assert not [entry for entry in pinned if "--hash=sha256:" not in entry]


def test_torch_and_its_libraries_are_left_out():
    assert not [name for name in PINS if re.match(r"(torch|nvidia|cuda)(-|$)", name)]


def test_no_registry_is_named():
    assert "://" not in LOCK
    assert "index-url" not in LOCK


def test_everything_that_development_needs_is_pinned():
    assert set(names("dev")) <= PINS.keys(), "run tools/lock.sh"


def test_make_installs_what_is_pinned():
    makefile = (ROOT / "Makefile").read_text()
    assert "--require-hashes --no-deps --requirement requirements-dev.lock" in makefile
