"""Names: one meaning for a file's stem, and subjects of commits that say what changes where."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict

import pytest
from tests.policy import sources
from tests.policy.sources import ROOT

# A stem may occur in several folders if it means the same thing in all of them.
SHARED_STEMS = {
    "activations": "activation functions: of fixed-point numbers, and as rules",
    "arithmetic": "sums and products: of ring elements, of shares, of numbers, and as rules",
    "attention": "scaled dot-product attention: of fixed-point numbers, and as rules",
    "base": "the base class of what the folder holds",
    "bits": "bits of ring elements: their reference, and random ones for tests",
    "boolean": "operations on shared bits, in each protocol",
    "call_log": "the log of calls: the kernel and its reference",
    "checksum": "the checksum that parties compare: the kernel and the GPU kernel",
    "compare": "comparisons: of shares in each protocol, of numbers, and as rules",
    "config": "settings: of a session, and CrypTen's by their names",
    "context": "what a party's calls belong to: its protocol, and CrypTen's program of parties",
    "contraction": "weighted sums along an axis: the kernel and its reference",
    "conv": "convolutions: the kernel, and the rules",
    "costs": "bytes and rounds of each protocol",
    "debug": "debug mode: of fixed-point numbers, and of operators",
    "digest": "the digest of memory: the kernel and its reference",
    "elementwise": "element by element: the kernels and their reference",
    "enclave": "an enclave: the protocol, and the command of its host",
    "fine_gradients": "gradients with extra fraction bits: their values, and their rules",
    "functions": "functions of reals: of shares, and as rules",
    "gates": "gates on bit planes: kernels, GPU kernels and reference",
    "gradients": "gradients: of a replayed function's inputs, and CrypTen's functions by name",
    "indexing": "secret and public indices: of fixed-point numbers, and as rules",
    "injection": "bits times values: kernels, reference and protocols",
    "io": "inputs and outputs, of each kind of sharing",
    "loss": "losses: as rules, and CrypTen's modules",
    "matmul": "matrix products: the kernel, and the rules",
    "mean_square": "the mean square of a gradient: its value, and its rules",
    "messages": "messages of one fixed form, strictly parsed: about data files, and of an enclave",
    "moments": "moments of optimizers: their values, and their rules",
    "order": "order statistics and sorting: of shares, of numbers, and as rules",
    "ot": "oblivious transfers: the kernels and their reference",
    "piecewise": "piecewise polynomials: of shares, and of fixed-point numbers",
    "plan": "the plan of a recorded function, and its command",
    "planes": "bit planes: kernels and GPU kernels",
    "pool": "pooling: of fixed-point numbers, and as rules",
    "powers_of_two": "powers of a known and a dealt part: the kernel and the GPU kernel",
    "protocol": "the protocol's class, as a table of contents of its folder",
    "ptype": "CrypTen's kinds of sharing, and where its programs import them from",
    "quantisation": "floats as 8-bit integers: the kernels and their reference",
    "recurrent": "recurrent layers: of fixed-point numbers, and as rules",
    "softmax": "softmax: of fixed-point numbers, and as rules",
    "stream": "random words of a key: the kernel and its reference",
    "trigonometric": "trigonometric functions: of fixed-point numbers, and as rules",
    "truncation": "division by a power of two, in each protocol",
    "waves": "sums of sines of a known and a dealt part: the kernel and the GPU kernel",
    "worker": "a worker of an enclave, and its command",
}
BASE = "bea762f"  # commits after it are checked
SUBJECT = re.compile(r"^[a-z][a-z0-9_/-]*(, [a-z0-9_/-]+)*: \S.*$")
MOST_CHARACTERS = 72


def repeated_stems() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in sources.files():
        if path.stem != "__init__":
            found[path.stem].append(sources.relative(path.parent))
    return {stem: folders for stem, folders in found.items() if len(folders) > 1}


def test_a_stem_has_one_meaning():
    unexplained = {s: f for s, f in repeated_stems().items() if s not in SHARED_STEMS}
    assert not unexplained, "rename, or say in SHARED_STEMS what they have in common"


def test_every_explained_stem_is_repeated():
    assert not SHARED_STEMS.keys() - repeated_stems().keys()


def fault(subject: str) -> str | None:
    """What is wrong with the subject of a commit, if anything."""
    if len(subject) > MOST_CHARACTERS:
        return f"{len(subject)} characters: {subject}"
    return None if SUBJECT.match(subject) else f"not `area: what changes`: {subject}"


def test_subjects_of_commits():
    command = ["git", "log", "--no-merges", "--format=%s", f"{BASE}..HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if done.returncode:
        pytest.skip("the history is not here")
    assert [fault(subject) for subject in done.stdout.splitlines() if fault(subject)] == []


@pytest.mark.parametrize(
    ("subject", "wrong"),
    [
        ("tests: hold the subjects of commits", False),
        ("tensor/ops: one rule for both", False),
        ("Tests: hold the subjects of commits", True),
        ("hold the subjects of commits", True),
        ("tests:", True),
        ("tests: " + "long " * 14, True),
    ],
)
def test_a_bad_subject_is_found(subject, wrong):
    assert bool(fault(subject)) is wrong
