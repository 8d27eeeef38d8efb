"""Errors as exit codes and lines of text."""

import traceback

import pytest
import typer

from tacit import errors
from tacit.cli.failures import CODES, MEANINGS, Circumstances, Code, cut, explain
from tacit.runtime.launch.outcome import Failure, party_failed

NAMES = ("alice", "bob", "carol")


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.py"
    path.write_text("def main(action):\n    return action()\n")
    return path


def raised(job, error):
    """The error after it went through the job's main."""

    def action():
        raise error

    space: dict = {}
    code = compile(job.read_text(), str(job), "exec")
    exec(code, space)
    with pytest.raises(type(error)) as caught:
        space["main"](action)
    return caught.value


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
    known = Circumstances(NAMES, job)
    assert explain(error, known)[0] is outside
    assert explain(raised(job, error), known)[0] is inside


@pytest.mark.parametrize(("error", "_", "inside"), CASES, ids=lambda x: type(x).__name__)
def test_codes_of_a_failed_party_are_those_of_its_error(job, error, _, inside):
    own = raised(job, error)
    text = "".join(traceback.format_exception(own))
    failure = Failure(1, f"{type(own).__name__}: {own}", 0.0, trace=text)
    code, message = explain(party_failed([failure]), Circumstances(NAMES, job))
    assert code is (Code.JOB if isinstance(error, typer.Abort) else inside)
    if code is not Code.INTERRUPTED:
        assert message.startswith("party 1 (bob) failed: ")
        assert "test_failures" not in message


def test_a_peers_error_has_its_name_and_the_line_of_the_job(job):
    error = raised(job, errors.PeerClosed("party 2 is gone", party=2))
    code, message = explain(error, Circumstances(NAMES, job))
    assert code is Code.PEER
    assert message == "party 2 (carol) is gone (at job.py:2 in main)"


def test_the_jobs_own_error_has_its_frames_alone(job):
    _, message = explain(raised(job, ValueError("x")), Circumstances(NAMES, job))
    assert message.startswith("ValueError: x\nTraceback")
    assert message.count("  File ") == 1
    assert "in main" in message


def test_errors_of_nobody_say_how_to_find_them():
    code, message = explain(ZeroDivisionError("x"), Circumstances())
    assert (code, message) == (Code.JOB, "ZeroDivisionError: x; --debug shows where")


def test_libraries_in_the_jobs_folder_are_not_the_job(tmp_path):
    trace = (
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path}/job.py", line 3, in main\n    f()\n'
        f'  File "{tmp_path}/.venv/site-packages/a.py", line 4, in f\n    g()\n'
        '  File "<frozen x>", line 5, in g\n'
        "ValueError: y\n"
    )
    assert cut(trace, tmp_path / "job.py") == (
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path}/job.py", line 3, in main\n    f()\n'
        "ValueError: y"
    )


def test_every_code_has_a_meaning():
    assert set(MEANINGS) == set(Code)
    assert {code for _, code in CODES} == set(Code) - {Code.JOB}
