"""Malformed data files of every format: refused in words, in time, within memory, unquoted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runtime.data_files import write_all

ROOT = Path(__file__).parents[2]
SEED, COUNT = 20260301, 40  # of each of 14 files
SECRETS = ("31337", "Zanzibar")


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_all(folder, 12)
    (folder / "marked.csv").write_text("a,b,c\n" + "1,31337.25,3\n4,5,31337.5\n" * 20)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.read_files", str(folder), str(SEED), str(COUNT)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1:], done.stderr[-2000:])
    return [line for line in lines if "error" in line]


def test_there_are_many_and_most_are_refused(cases):
    assert len(cases) == 15 * COUNT
    refused = [case for case in cases if case["error"]]
    assert len(refused) > len(cases) / 2


def test_only_refusals_come_out(cases):
    assert {case["error"] for case in cases} == {"", "FileRejected"}, [
        case for case in cases if case["error"] not in ("", "FileRejected")
    ]


def test_none_takes_long(cases):
    assert [case for case in cases if case["seconds"] > 2.0] == []


def test_no_message_quotes_a_cell(cases):
    quoted = [case for case in cases if any(secret in case["message"] for secret in SECRETS)]
    assert quoted == []
