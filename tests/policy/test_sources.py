"""Sizes, words and randomness: what a review would otherwise have to look for."""

import re
from pathlib import Path

from tests.conftest import LONGEST_FIRST

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
COMPILED = sorted((ROOT / "csrc").iterdir())
ANYTHING = [*SOURCES, *COMPILED, *sorted((ROOT / "tests").rglob("*.py"))]
VAGUE = {"utils.py", "helpers.py", "common.py", "misc.py"}


def test_files_are_small():
    """250 lines is the aim, 600 the end; this list may only shrink."""
    allowed: dict[str, int] = {}
    long = {
        str(p.relative_to(ROOT)): n
        for p in [*SOURCES, *COMPILED]
        if (n := len(p.read_text().splitlines())) > 600
    }
    assert long.keys() <= allowed.keys(), long


def test_files_are_named_after_what_they_hold():
    assert not [p for p in SOURCES if p.name in VAGUE]


def test_randomness_is_cryptographic():
    """Shares and masks come from `kernels.stream` and `secrets`, never from torch or numpy.

    `public_randomness.py` is about torch's own, which are public in a session; and the order of a
    training's data is public: `training.py` may draw it. `replaced_functions.py` puts draws on
    shares in the place of a function of torch.
    """
    forbidden = re.compile(
        r"torch\.(rand\w*|Generator|manual_seed|bernoulli|multinomial|normal)\b"
        r"|np\.random|numpy\.random|^\s*(import|from) random\b|\.(random_|uniform_|normal_)\(",
        re.MULTILINE,
    )
    sources = [p for p in SOURCES if p.name != "public_randomness.py"]
    found = {(p.name, m.group()) for p in sources for m in forbidden.finditer(p.read_text())}
    drawn = ("torch.Generator", "torch.randperm", "torch.randint")
    replaced = {("replaced_functions.py", "torch.multinomial")}
    assert found <= {("training.py", one) for one in drawn} | replaced


def test_nothing_a_peer_sends_is_unpickled():
    """`runtime/launch/pickled.py` alone may, for the processes that a caller started itself."""
    forbidden = re.compile(r"\bpickle\b|torch\.load\(|\bmarshal\b|(?<!def )\beval\(|\bexec\(")
    found = {p.name: m.group() for p in SOURCES if (m := forbidden.search(p.read_text()))}
    lists_writers = found.pop("outside_sources.py")  # to find functions that call `pickle.dumps`
    assert lists_writers == "pickle"
    outside = next(p for p in SOURCES if p.name == "outside_sources.py").read_text()
    assert re.findall(r".*\bpickle\b.*", outside) == [
        "from pickle import dumps as written_by_pickle  # which reads nothing"
    ]
    assert found.keys() <= {"pickled.py"}
    users = {
        p.parent.name
        for p in SOURCES
        if re.search(r"import.*\bpickled\b|from .*pickled import", p.read_text())
    }
    assert users == {"launch"}


def test_no_block_catches_warnings():
    """It would change the filters of all threads, and parties may be threads; a command has one."""
    assert {p.name for p in SOURCES if "catch_warnings" in p.read_text()} == {"doctor.py"}


def test_nothing_is_left_for_later():
    marker = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    assert not [str(p) for p in ANYTHING if marker.search(p.read_text())]


def test_make_has_at_most_ten_targets():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    assert {"setup", "demo", "test", "check", "bench", "docs"} <= set(targets[1].split())
    assert len(targets[1].split()) <= 10


def test_what_begins_first_exists():
    """A file of tests that is renamed keeps its place in the order."""
    tests = {path.name for path in (ROOT / "tests").rglob("*")}
    assert set(LONGEST_FIRST) <= tests
