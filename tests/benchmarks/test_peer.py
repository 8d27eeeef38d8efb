"""A peer that fails fails once, and leaves the record of its answers as it was."""

import json

import pytest
from benchmarks import peer


@pytest.fixture
def spu(tmp_path, monkeypatch):
    """Starts a peer that is a shell script, and keeps a record of its own."""
    monkeypatch.setattr(peer, "RECORD", tmp_path / "spu.json")

    def start(script):
        program = tmp_path / "spu"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv(peer.SPU_PYTHON, str(program))
        return peer.Peer()

    return start


def test_answers_are_recorded(spu):
    one = spu("""read name; echo log; echo '{"seconds": 2}'; read name; echo '{"seconds": 4}'""")
    one.run("relu")
    one.run("relu")
    one.close()
    assert json.loads(peer.RECORD.read_text())["cases"] == {"relu": {"seconds": 3}}


@pytest.mark.parametrize(
    ("script", "error"),
    [("read name; echo '{broken'", json.JSONDecodeError), ("read name; exit 1", RuntimeError)],
)
def test_a_failed_answer_is_no_answer(spu, script, error):
    one = spu(script)
    with pytest.raises(error):
        one.run("relu")
    one.close()
    assert json.loads(peer.RECORD.read_text())["cases"] == {}
