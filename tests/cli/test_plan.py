"""`tacit plan`: what the repeated functions of a job do."""

from tests.cli.shell import tacit

JOB = """
import torch

def double(x):
    return x * x + x

def main(session, size="2"):
    function = session.repeated(double)
    for _ in range(4):
        y = function(session.share(torch.ones(int(size)), owner=0))
    return session.reveal(y)
"""


def test_a_plan_is_shown(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    done = tacit("plan", "job.py", "--", "3", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "recorded at party0" in done.out
    assert "double, for secrets of the shapes\n  [3]: " in done.out.replace("    ", "  ")


def test_numbers_for_programs(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    done = tacit("plan", "--json", "--protocol", "replicated", "job.py", cwd=tmp_path)
    assert done.code == 0, done.err
    for party in done.json["parties"]:
        [function] = party["functions"]
        [recording] = function["recordings"]
        assert recording["arguments"] == [[2]]
        assert recording["rounds"] >= 1
        assert recording["bytes_sent"] == 16


def test_a_job_without_repeated_functions(tmp_path):
    (tmp_path / "job.py").write_text("def main(session):\n    return session.rank\n")
    done = tacit("plan", "job.py", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "does not call session.repeated" in done.out
