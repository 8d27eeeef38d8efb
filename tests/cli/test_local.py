"""`tacit local`: all parties of a job on this machine."""

import pytest
from tests.cli.shell import in_terminal, tacit, tacit_process

from tacit.runtime.report import read_report

JOB = """
import torch

def main(session, scale="1"):
    print("begun")
    x = session.share(torch.arange(4.0), owner=0)
    return session.reveal((x * float(scale)).relu(), to=1)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def test_threads(folder):
    done = tacit("local", "job.py", "--", "2", cwd=folder)
    assert done.code == 0, done.err
    assert "tensor([0., 2., 4., 6.])" in done.out
    assert "float32[4] to party1 at" in done.out
    assert (folder / "runs" / "job" / "party1" / "reveals.jsonl").exists()


def test_reports_are_written_and_compared(folder):
    for name, scale in (("before", "2"), ("after", "3")):
        done = tacit("local", "--report", f"{name}.html", "job.py", "--", scale, cwd=folder)
        assert done.code == 0, done.err
        assert f"the report is in {name}.html" in done.out
        report = read_report(folder / f"{name}.html")
        assert report["title"] == "job.py"
        assert len(report["parties"]) == 3
        assert (folder / f"{name}.trace.json").exists()
    done = tacit("report", "compare", "before.html", "after.html", cwd=folder)
    assert done.code == 0, done.err
    rounds = next(line.split() for line in done.out.splitlines() if line.startswith("rounds"))
    assert rounds[1] == rounds[2]
    assert rounds[3] == "1.00"
    assert (folder / "difference.html").exists()
    refused = tacit("report", "compare", "before.html", "difference.html", cwd=folder)
    assert refused.code == 2
    assert "difference.html holds no report" in refused.err


REVEALS = """
import torch

def main(session):
    x = session.share(torch.ones(2), owner=0)
    for _ in range(61):
        session.reveal(x)
    session.reveal(x, to=1)
"""


def test_many_reveals_of_one_line_are_shown_as_one(folder):
    (folder / "job.py").write_text(REVEALS)
    done = tacit("local", "job.py", cwd=folder)
    assert done.code == 0, done.err
    shown = [line.strip() for line in done.out.splitlines() if "float32[2]" in line]
    assert [line.split(" at ")[0] for line in shown] == [
        "1 to 61: float32[2] to party0, party1, party2",
        "62: float32[2] to party1",
    ]


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--check-range", "RangeError: aten.mul.Tensor: a result is beyond the range"),
        ("--guard", "RangeError: the guard found values beyond their range"),
    ],
)
def test_ranges_are_checked_if_asked_for(folder, option, told):
    (folder / "job.py").write_text(
        "import torch\n\ndef main(session):\n"
        "    x = session.share(torch.tensor([1e5]), owner=0)\n    return session.reveal(x * x)\n"
    )
    done = tacit("local", option, "job.py", cwd=folder)
    assert done.code == 1
    assert told in done.err


def test_how_busy_a_link_was(folder):
    (folder / "job.py").write_text(
        "import torch\n\ndef main(session):\n"
        "    x = session.share(torch.ones(40000), owner=1)\n"
        "    return session.reveal((x * x).relu().sum(), to=1)\n"
    )
    done = tacit("local", "--network", "wan", "--json", "job.py", cwd=folder)
    assert done.code == 0, done.err
    parties = {one["party"]: one for one in done.json["parties"]}
    seconds = max(one["seconds"] for one in parties.values())
    for name, one in parties.items():
        sent = sum(link["bytes_sent"] for link in one["links"].values())
        assert sent == sum(one["operations"].values())
        assert 0 < one["bytes_sent"] - sent < 1000  # the keys, agreed on before the job starts
        assert (name == "party0") == (one["seconds_waiting"] == 0)  # the dealer waits for nobody
        assert one["seconds_waiting"] < one["seconds"]
        for peer, link in one["links"].items():
            assert link["percent_sent"] == parties[peer]["links"][name]["percent_received"]
            percent = 100 * link["bytes_sent"] * 8 / 100e6 / seconds
            assert link["percent_sent"] == pytest.approx(percent, abs=0.1)
            assert percent < 100
    assert {"share", "aten.relu"} <= parties["party1"]["operations"].keys()


def test_the_busiest_link_is_printed(folder):
    done = tacit("local", "--network", "1gbit", "job.py", cwd=folder)
    assert done.code == 0, done.err
    lines = [line for line in done.out.splitlines() if line.startswith("  busiest link")]
    assert len(lines) == 3
    assert all("% of its bandwidth; waited" in line for line in lines)
    assert "busiest link" not in tacit("local", "job.py", cwd=folder).out
    assert "busiest link" not in tacit("local", "--network", "loopback", "job.py", cwd=folder).out


@pytest.mark.full("test_threads; names in tests/cli/test_run.py")
def test_processes_with_names(folder):
    options = ("--transport", "processes", "--names", "alice,bob,carol", "--reveals", "bob")
    done = tacit_process("local", *options, "--log", "trial", "--json", "job.py", cwd=folder)
    assert done.code == 0, done.err
    results = {one["party"]: one["result"] for one in done.json["parties"]}
    assert results == {"alice": None, "bob": [0.0, 1.0, 2.0, 3.0], "carol": None}
    assert done.json["parties"][0]["reveals"][0]["to"] == ["bob"]
    assert (folder / "trial" / "carol" / "reveals.jsonl").exists()


@pytest.mark.parametrize(
    "transport",
    ["threads", pytest.param("processes", marks=pytest.mark.full("threads"))],
)
def test_an_error_of_the_job(folder, transport):
    (folder / "job.py").write_text(
        "def main(session):\n    if session.rank == 1:\n        raise ValueError('of the job')\n"
        "    session.mesh.exchange_bytes({}, [1])\n"
    )
    done = tacit_process("local", "--transport", transport, "job.py", cwd=folder)
    assert done.code == 1
    assert done.err == "error: party 1 failed: ValueError: of the job (at job.py:3 in main)\n"


def test_all_fields_of_an_error_in_json(folder):
    (folder / "job.py").write_text(
        "import torch\n\ndef main(session):\n"
        "    model = torch.nn.Sequential(torch.nn.Softshrink(), torch.nn.Identity())\n"
        "    x = session.share(torch.eye(2), owner=0)\n"
        "    return torch.linalg.eigvals(model(x))\n"
    )
    done = tacit("local", "--names", "alice,bob,carol", "--json", "job.py", cwd=folder)
    error = done.json
    assert (done.code, error["exit_code"], error["kind"]) == (1, 1, "UnsupportedOp")
    assert error["party"] in ("alice", "bob", "carol")
    assert error["op"] == "aten.linalg_eig.default"
    assert error["line"] == f"{(folder / 'job.py').resolve()}:6 in main"
    assert "has no rule for secret tensors" in error["reason"]
    assert error["remedy"] in error["error"]
    assert {"limit", "operation", "path", "library_line", "cause", "subject"} <= error.keys()


def test_the_policy(folder):
    done = tacit("local", "--reveals", "party0", "job.py", cwd=folder)
    assert done.code == 4
    assert "reveal to party 1" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--num-parties", "2"), "parties=2"),
        (("--protocol", "duo"), "protocol='duo'"),
        (("--reveals", "dave"), "party0"),
        (("--device", "tpu"), "device='tpu'"),
        (("--names", "a,a,b"), "names="),
        (("--network", "lan"), "loopback, 25gbit, 10gbit, 1gbit, wan"),
    ],
)
def test_settings_that_are_refused(folder, options, message):
    done = tacit("local", *options, "job.py", cwd=folder)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_cleartext_takes_any_number(folder):
    done = tacit(
        "local", "--protocol", "cleartext", "--num-parties", "2", "--json", "job.py", cwd=folder
    )
    assert done.code == 0, done.err
    assert [one["party"] for one in done.json["parties"]] == ["party0", "party1"]


@pytest.mark.full("test_threads")
def test_a_terminal_sees_that_it_runs(folder):
    slow = JOB.replace("import torch", "import time, torch").replace(
        'print("begun")', "time.sleep(1)"
    )
    (folder / "job.py").write_text(slow)
    code, seen = in_terminal("local", "job.py", cwd=folder)
    assert code == 0, seen
    assert "running" in seen
    assert "0:00:01" in seen
    assert "running" not in tacit("local", "job.py", cwd=folder).out
