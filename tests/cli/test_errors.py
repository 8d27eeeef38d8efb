"""Errors as exit codes and lines of text."""

import pytest
import typer

from tacit import errors
from tacit.cli.errors import CODES, MEANINGS, Code, Known, explain

NAMES = ("alice", "bob", "carol")


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.py"
    path.write_text("def main(error):\n    raise error\n")
    return path


def raised(job, error):
    """The error after it went through the job's main, with the traceback from there on."""
    space: dict = {}
    exec(compile(job.read_text(), str(job), "exec"), space)
    with pytest.raises(type(error)) as caught:
        space["main"](error)
    found = caught.value
    assert found.__traceback__ is not None
    return found.with_traceback(found.__traceback__.tb_next)


CASES = [
    (ValueError("x"), Code.JOB, Code.JOB),
    (KeyboardInterrupt(), Code.INTERRUPTED, Code.INTERRUPTED),
    (typer.Abort(), Code.INTERRUPTED, Code.INTERRUPTED),
    (errors.ConfigError("x"), Code.USAGE, Code.JOB),
    (errors.UnsupportedOp("x"), Code.JOB, Code.JOB),
    (errors.DataRejected("x"), Code.JOB, Code.JOB),
    (errors.RevealForbidden("x"), Code.REFUSED, Code.REFUSED),
    (errors.HandshakeMismatch("x", field="f"), Code.REFUSED, Code.REFUSED),
    (errors.CertificateRejected("x"), Code.PEER, Code.PEER),
    (errors.PeerTimeout("x"), Code.PEER, Code.PEER),
    (errors.ProtocolDesync("x"), Code.PEER, Code.PEER),
    (errors.CheckpointRejected("x"), Code.CHECKPOINT, Code.CHECKPOINT),
    (PermissionError("x"), Code.USAGE, Code.JOB),
]


@pytest.mark.parametrize(("error", "outside", "inside"), CASES, ids=lambda x: type(x).__name__)
def test_codes(job, error, outside, inside):
    known = Known(NAMES)
    assert explain(error, known)[0] is outside
    assert explain(raised(job, error), known)[0] is inside


@pytest.mark.parametrize(("error", "_", "inside"), CASES, ids=lambda x: type(x).__name__)
def test_codes_of_a_failed_party_are_those_of_its_error(job, error, _, inside):
    own = raised(job, error)
    code, message = explain(errors.PartyFailed.of(own, 1), Known(NAMES))
    assert code is (Code.JOB if isinstance(error, typer.Abort) else inside)
    if code is not Code.INTERRUPTED:
        assert message.startswith("party 1 (bob) failed: ")
        assert message.endswith(" (at job.py:2 in main)")


def test_a_peers_error_has_its_name_and_the_line_of_the_job(job):
    error = raised(job, errors.PeerClosed(errors.Party(2) + " is gone", party=2))
    code, message = explain(error, Known(NAMES))
    assert code is Code.PEER
    assert message == "party 2 (carol) is gone (at job.py:2 in main)"


def test_the_jobs_own_error_is_one_line(job):
    _, message = explain(raised(job, ValueError("x\ny")), Known(NAMES))
    assert message == "ValueError: x y (at job.py:2 in main)"


def test_errors_of_nobody_say_how_to_find_them():
    code, message = explain(ZeroDivisionError("x"), Known())
    assert (code, message) == (Code.JOB, "ZeroDivisionError: x; --debug shows where")


def test_every_code_has_a_meaning():
    assert set(MEANINGS) == set(Code)
    assert {code for _, code in CODES} == set(Code) - {Code.JOB}
