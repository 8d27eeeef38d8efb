"""`tacit.run` with threads and with processes: results, failures, and nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest
import torch
from tests import forked
from tests.runtime import programs

import tacit
from tacit.errors import ConfigError, PartyFailed, PeerClosed
from tacit.registry import TRANSPORTS
from tacit.runtime.launch import child_process, processes

ROOT = Path(__file__).parents[2]
LONG = 120.0  # seconds; a busy machine does in this time what is not waited for
BOTH = pytest.mark.parametrize("transport", TRANSPORTS)
THREADS = pytest.mark.full("the same in threads; other tests of this file start processes")


def open_files() -> set[str]:
    """What this process holds open, but for the helper that multiprocessing keeps for itself."""
    kept = {multiprocessing.resource_tracker._resource_tracker._fd}
    found = set()
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept and os.path.exists(f"/proc/self/fd/{name}"):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


@pytest.fixture(autouse=True)
def nothing_left():
    """No thread, process, socket or file is there after a run that was not there before."""
    forkserver.ensure_running()
    threads, files = set(threading.enumerate()), open_files()
    yield
    assert set(threading.enumerate()) <= threads
    assert multiprocessing.active_children() == []
    assert open_files() <= files


@pytest.mark.parametrize("transport", ["threads", pytest.param("processes", marks=THREADS)])
def test_every_party_gets_the_arguments_and_results_come_by_rank(transport):
    tensor = torch.arange(3)
    results = tacit.run(
        programs.describe,
        "a",
        tensor,
        parties=2,
        protocol="none",
        transport=transport,
        ring=32,
        fraction_bits=8,
        b=1,
    )
    for rank, (own, parties, protocol, ring, args, kwargs) in enumerate(results):
        assert (own, parties, protocol, ring, kwargs) == (rank, 2, "none", 32, {"b": 1})
        assert args[0] == "a"
        assert torch.equal(args[1], tensor)


def test_a_protocol_names_its_number_of_parties():
    with pytest.raises(ConfigError, match=r"parties=2: protocol='trio' has 3 parties; .*'none'"):
        tacit.run(programs.describe, parties=2)


def test_a_session_without_a_protocol_says_so():
    with pytest.raises(PartyFailed, match="channels and keys only; choose a protocol"):
        tacit.run(programs.ask_for_protocol, protocol="none")


def test_a_party_alone_has_nobody_to_talk_to():
    ((rank, parties, *_),) = tacit.run(programs.describe, parties=1, protocol="none")
    assert (rank, parties) == (0, 1)


def check_sum(parties: int, transport: str) -> None:
    start = torch.tensor([[0, 2**63 - 1]])
    expected = start * parties + sum(range(parties))
    for result in tacit.run(
        programs.add_up, start, parties=parties, protocol="none", transport=transport
    ):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("parties", [1, 2, 3, 4, 5])
def test_threads_exchange_tensors(parties):
    check_sum(parties, "threads")


@pytest.mark.parametrize("parties", [1, pytest.param(4, marks=THREADS)])
def test_processes_exchange_tensors(parties):
    check_sum(parties, "processes")


@pytest.mark.parametrize(
    "chosen", [None, pytest.param("7", marks=pytest.mark.full("the same without a choice"))]
)
@pytest.mark.parametrize(("name", "default"), child_process.ENVIRONMENT.items())
def test_processes_keep_memory_and_sleep(monkeypatch, spawned, chosen, name, default):
    """Unless the user says otherwise; this process keeps its environment."""
    if chosen is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, chosen)
    found = tacit.run(programs.variable, name, transport="processes", parties=2, protocol="none")
    assert found == [chosen or default] * 2
    assert os.environ.get(name) == chosen


@pytest.mark.parametrize("way", ["forked", "spawned"])
def test_parties_of_tests_are_forks_unless_a_test_asks_for_interpreters(request, way):
    """Each interpreter would import torch for about two seconds."""
    if way == "spawned":
        request.getfixturevalue("spawned")
    [parent] = tacit.run(programs.parent, transport="processes", parties=1, protocol="none")
    assert (parent == os.getpid()) == (way == "spawned")


def test_parties_share_keys_and_every_run_has_its_own():
    first, second = (tacit.run(programs.group_secret) for _ in range(2))
    assert len(set(first)) == len(set(second)) == 1
    assert first != second


@pytest.mark.parametrize(
    ("transport", "bad"),
    [*(("threads", rank) for rank in range(3)), pytest.param("processes", 2, marks=THREADS)],
)
def test_a_failure_names_the_party_that_failed_first(transport, bad):
    with pytest.raises(PartyFailed) as caught:
        tacit.run(programs.chat_until_failure, bad, transport=transport)
    assert caught.value.party == bad
    text = str(caught.value)
    assert text.startswith(f"party {bad} failed: LookupError: the cupboard is bare")
    assert "in chat_until_failure" in text
    echoes = caught.value.__notes__
    assert len(echoes) == 2
    assert all("PeerClosed" in echo for echo in echoes)
    cause = caught.value.__cause__
    assert isinstance(cause, LookupError if transport == "threads" else type(None))


@pytest.mark.parametrize("transport", ["threads", pytest.param("processes", marks=THREADS)])
def test_leaving_the_program_is_a_failure_like_any_other(transport):
    with pytest.raises(PartyFailed, match="party 1 failed: SystemExit: enough") as caught:
        tacit.run(programs.give_up, 1, "enough", parties=2, protocol="none", transport=transport)
    assert caught.value.party == 1


def test_a_party_that_returns_too_early_is_named():
    with pytest.raises(PartyFailed, match="PeerClosed") as caught:
        tacit.run(programs.leave_early, 1)
    assert isinstance(caught.value.__cause__, PeerClosed)
    assert caught.value.__cause__.party == 1


def test_parties_that_wait_for_each_other_end_at_the_deadline():
    start = time.monotonic()
    with pytest.raises(PartyFailed, match=r"ProtocolDesync.*waits too, as all do"):
        tacit.run(programs.wait_for_each_other, deadline=0.5)
    assert time.monotonic() - start < LONG


def test_a_thread_that_computes_without_talking_is_waited_for():
    with pytest.raises(PartyFailed, match="party 0 failed: LookupError") as caught:
        tacit.run(programs.compute_silently, 0, 0.5)
    assert len(caught.value.__notes__) == 2


@pytest.mark.full("tests/runtime/test_failures.py ends parties that wait")
def test_a_process_that_computes_without_talking_is_ended():
    start = time.monotonic()
    with pytest.raises(PartyFailed, match="party 0 failed: LookupError") as caught:
        tacit.run(programs.compute_silently, 0, 2 * LONG, transport="processes")
    assert time.monotonic() - start < LONG
    assert "then party 1 failed: no answer in time; it was still running" in caught.value.__notes__


def test_a_killed_process_is_reported_with_its_signal_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", LONG)  # all others end by themselves
    clock = tmp_path / "clock"
    with pytest.raises(PartyFailed, match=r"party 1 failed: .* killed by SIGKILL") as caught:
        tacit.run(
            programs.die, 1, signal.SIGKILL, str(clock), transport="processes", deadline=2 * LONG
        )
    assert time.monotonic() - float(clock.read_text()) < LONG
    assert caught.value.party == 1
    echoes = caught.value.__notes__
    assert len(echoes) == 2
    assert all("PeerClosed" in echo and "party 1" in echo for echo in echoes)


@pytest.mark.full("tests/runtime/test_failures.py freezes a party")
def test_a_frozen_process_is_found_at_the_deadline_and_ended(tmp_path):
    clock = tmp_path / "clock"
    with pytest.raises(PartyFailed, match=r"PeerTimeout: .*party 2") as caught:
        tacit.run(programs.freeze, 2, str(clock), transport="processes", deadline=2.0)
    assert time.monotonic() - float(clock.read_text()) < LONG
    assert "then party 2 failed: no answer in time; it was still running" in caught.value.__notes__


@pytest.mark.full("a killed process is reported in the same way")
def test_a_process_that_vanishes_is_reported_with_its_exit_code():
    with pytest.raises(PartyFailed, match=r"party 0 failed: .* exit code 7 and without a result"):
        tacit.run(programs.vanish, 0, 7, parties=2, protocol="none", transport="processes")


def test_a_main_that_cannot_travel_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match=r"top level of a module.*if __name__ == '__main__'"):
        tacit.run(lambda session: session.rank, transport="processes")


@pytest.mark.full("failures of processes in test_a_killed_process")
def test_a_result_that_cannot_travel_is_the_failure_of_its_party():
    with pytest.raises(PartyFailed, match="ConfigError: the return value of main cannot be sent"):
        tacit.run(programs.unsendable, parties=1, protocol="none", transport="processes")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"transport": "pigeons"}, "transport='pigeons': allowed are 'threads', 'processes'"),
        ({"parties": 0}, "parties=0"),
        ({"parties": 2.0}, r"parties=2\.0"),
        ({"protocol": "magic"}, "protocol='magic'"),
        ({"ring": 48}, "ring=48"),
        ({"deadline": 0}, "deadline is 0"),
        ({"network": "moon"}, "moon"),
        ({"main": "main"}, "main='main'"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_starts(bad, message):
    main = bad.pop("main", programs.describe)
    with pytest.raises(ConfigError, match=message):
        tacit.run(main, **{"transport": "processes", **bad})


@BOTH
def test_an_interrupt_of_the_caller_ends_all(transport, tmp_path):
    """Python drops one that comes while it frees an object: then another follows, as users do."""
    ended = threading.Event()

    def interrupt():
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)
        while not ended.wait(20):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    helper = threading.Thread(target=interrupt)
    helper.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tacit.run(
                programs.linger, str(tmp_path), parties=2, protocol="none", transport=transport
            )
    finally:
        ended.set()
        helper.join()
        signal.signal(signal.SIGINT, before)


def run_script(text: str, folder: Path) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a script whose parties start interpreters."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(text))
    return forked.run([script])


@pytest.mark.full("processes in test_processes_exchange_tensors")
def test_a_script_sees_what_its_parties_print(tmp_path):
    script = """
        import tacit
        def main(session):
            print(f"party {session.rank}\\n", end="", flush=True)  # whole lines do not mix
            return 10 * session.rank
        if __name__ == "__main__":
            print(tacit.run(main, parties=2, protocol='none', transport="processes"))
    """
    code, out, _ = run_script(script, tmp_path)
    assert code == 0
    assert sorted(out.splitlines()) == ["[0, 10]", "party 0", "party 1"]


def run_interpreter(*arguments: str | Path) -> tuple[int, list[str]]:
    """Returns the exit code and the lines of stderr; parties are interpreters too."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.full("processes in test_processes_exchange_tensors")
def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import tacit\n"
        "def main(session): pass\n"
        "tacit.run(main, parties=2, protocol='none', transport='processes')"
    )
    code, lines = run_interpreter(script)
    assert code == 1
    assert "needs an `if __name__ == '__main__':` guard" in lines[-2]
    assert lines[-1].endswith("failed in the same way")
    assert len(lines) < 10


@pytest.mark.full("test_a_script_without_a_guard_is_told_so")
def test_a_main_that_other_processes_cannot_import_is_explained():
    code, lines = run_interpreter(
        "-c",
        "import tacit\n"
        "def main(session): pass\n"
        "if __name__ == '__main__': "
        "tacit.run(main, parties=1, protocol='none', transport='processes')",
    )
    assert code == 1
    text = "\n".join(lines)
    assert "party 0 failed: ConfigError: main or one of its arguments cannot be read" in text
    assert "at the top level of a module" in text


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.full("test_an_interrupt_of_the_caller_ends_all")
def test_parties_do_not_outlive_a_caller_that_is_killed(tmp_path):
    program = (
        "import tacit, sys; from tests.runtime.programs import linger\n"
        "if __name__ == '__main__': "
        "tacit.run(linger, sys.argv[1], parties=2, protocol='none', transport='processes')"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    caller = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment)
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and caller.poll() is None:
        time.sleep(0.05)
    caller.kill()
    caller.wait()
    parties = [int(path.read_text()) for path in tmp_path.iterdir()]
    assert len(parties) == 2
    while any(map(alive, parties)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, parties))


OWN_MISTAKE = """
import tacit, torch

def prepare(session):
    return undefined_name

def main(session):
    return prepare(session)

if __name__ == "__main__":
    tacit.run(main, transport={transport!r})
"""


@pytest.mark.parametrize("transport", ["threads", "processes"])
def test_a_mistake_in_a_script_is_shown_once_and_on_one_screen(transport, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(OWN_MISTAKE.format(transport=transport))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) <= 24, done.stderr
    assert sum("return undefined_name" in line for line in lines) == 1
    assert any(re.search("party . failed: NameError", line) for line in lines)
