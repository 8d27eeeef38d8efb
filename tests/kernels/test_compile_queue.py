"""Kernels are compiled ahead of their launch as Triton compiles them for it, and only once."""

import logging
import os
import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest
import torch

pytest.importorskip("triton")

from triton import knobs

from tacit.kernels.gpu import compile_queue, jit, specifications
from tacit.kernels.gpu.compile_queue import CompileQueue, alone
from tacit.kernels.gpu.specifications import COMMON, Specification, append, line, listed

SECONDS = 30.0  # that a thread may take on a busy machine


def kernel(number: int) -> Specification:
    """Returns a kernel that exists, with a constant that tells it from others."""
    return Specification("planes._pack", ("uint8", "uint8"), 1, (number,), (("num_warps", 4),))


class Compiler:
    """Takes the place of Triton's: notes what it compiles, and waits if a test says so."""

    def __init__(self) -> None:
        self.compiled, self.going_on = [], threading.Event()
        self.going_on.set()
        self.begun = threading.Semaphore(0)
        self.broken = set()

    def __call__(self, one: Specification, device: int) -> None:
        self.compiled.append(one)
        self.begun.release()
        assert self.going_on.wait(SECONDS)
        if one in self.broken:
            raise RuntimeError("no such instruction")


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    made = Compiler()
    monkeypatch.setattr(compile_queue, "compile_kernel", made)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path))
    return made


def settled() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("tacit-compile-"):
            thread.join(SECONDS)


@pytest.mark.parametrize(
    "capability", ["90", pytest.param("80", marks=pytest.mark.full("90 is the same code"))]
)
def test_the_queue_compiles_exactly_what_launches_do(capability):
    """Under Triton's own keys, on disk and in memory, for all kernels and the common ones."""
    env = {**os.environ, "TACIT_KERNELS": "triton", "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernels.compile_ahead", capability]
    found = subprocess.run(command, capture_output=True, text=True, env=env)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert len(lines) > len(listed(COMMON))
    assert [text for text in lines if not text.startswith("same ")] == []


def test_the_list_of_common_kernels_is_of_this_version():
    kernels = listed(COMMON)
    assert len(kernels) == len(COMMON.read_text().splitlines()) > 50
    assert "".join(map(line, kernels)) == COMMON.read_text()


def test_threads_compile_side_by_side(compiler):
    compiler.going_on.clear()
    queue = CompileQueue(0, None)
    queue.add([kernel(number) for number in range(5)], threads=3)
    for _ in range(3):
        assert compiler.begun.acquire(timeout=SECONDS)
    assert queue.progress() == (0, 5)
    compiler.going_on.set()
    settled()
    assert sorted(compiler.compiled, key=repr) == [kernel(number) for number in range(5)]
    assert queue.progress() == (5, 5)


def test_the_interpreter_waits_for_threads_that_compile_whoever_began_them(compiler):
    """Parties in threads are daemons, and so would be what they start."""
    compiler.going_on.clear()
    queue, daemons = CompileQueue(0, None), []

    def party():
        queue.add([kernel(0)], threads=1)
        assert compiler.begun.acquire(timeout=SECONDS)
        daemons.extend(x.daemon for x in threading.enumerate() if x.name == "tacit-compile-0")

    starting = threading.Thread(target=party, daemon=True)
    starting.start()
    starting.join(SECONDS)
    compiler.going_on.set()
    settled()
    assert daemons == [False]


def test_a_launch_waits_for_its_own_kernel_alone(compiler):
    compiler.going_on.clear()
    queue = CompileQueue(0, None)
    queue.add([kernel(0), kernel(1)], threads=1)
    assert compiler.begun.acquire(timeout=SECONDS)
    launch = threading.Thread(target=queue.finish, args=(kernel(1),))
    launch.start()
    assert compiler.begun.acquire(timeout=SECONDS)  # by the launch: the thread is busy with 0
    waiting = threading.Thread(target=queue.finish, args=(kernel(0),))
    waiting.start()
    compiler.going_on.set()
    for thread in (launch, waiting):
        thread.join(SECONDS)
        assert not thread.is_alive()
    settled()
    assert sorted(compiler.compiled, key=repr) == [kernel(0), kernel(1)]  # each once


def test_what_cannot_be_compiled_ahead_is_left_to_the_launch(compiler):
    compiler.broken.add(kernel(0))
    queue = CompileQueue(0, None)
    queue.add([kernel(0), kernel(1)], threads=1)
    settled()
    queue.finish(kernel(0))  # neither raises nor waits
    assert queue.progress() == (2, 2)


def test_the_next_process_compiles_what_this_one_needed(compiler, tmp_path, monkeypatch):
    file = tmp_path / "tacit" / "kernels-sm90.jsonl"
    first = CompileQueue(0, file)
    for number in (3, 1, 3):
        first.finish(kernel(number))
    assert listed(file) == [kernel(3), kernel(1)]
    compiler.compiled.clear()
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    second = CompileQueue(0, file)
    second.start(threads=1)
    settled()
    second.finish(kernel(1))
    assert compiler.compiled == [kernel(3), kernel(1)]
    assert len(file.read_text().splitlines()) == 2  # nothing is listed twice


def test_without_a_list_common_kernels_are_compiled(compiler, tmp_path, monkeypatch):
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    CompileQueue(0, tmp_path / "none").start(threads=2)
    settled()
    assert sorted(compiler.compiled, key=repr) == sorted(listed(COMMON), key=repr)


def test_lines_of_other_versions_are_left_out(tmp_path):
    file = tmp_path / "list"
    append(file, kernel(1))
    with file.open("ab") as out:
        for text in (
            b'["os.system", ["uint8"], 1, [1], []]\n',
            b'["planes.no_such", ["uint8", "uint8"], 1, [1], []]\n',
            b'["planes._pack", ["uint8"], 1, [1], []]\n',  # one pointer is missing
            b'["planes._pack", ["uint8", "uint8"], 1, [[1]], []]\n',
            b'["planes._pack", 1]\n{}\n\xff\xfe\n["planes._pa',
        ):
            out.write(text)
    assert listed(file) == [kernel(1)]


def test_a_long_list_keeps_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr(specifications, "MOST_LISTED", 3)
    file = tmp_path / "list"
    for number in range(7):
        append(file, kernel(number))
    newest = [kernel(number) for number in (4, 5, 6)]
    assert listed(file) == newest
    assert file.read_text() == "".join(map(line, newest))


HOLDER = """
import sys, time
from triton import knobs
knobs.cache.dir = sys.argv[1]
from tacit.kernels.gpu.compile_queue import alone
from tests.kernels.test_compile_queue import kernel
with alone(kernel(1)):
    print("held", flush=True)
    time.sleep(600)
"""


def test_processes_compile_a_kernel_one_after_the_other(compiler, tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            queue = CompileQueue(0, None)
            queue.add([kernel(1)], threads=1)
            queue.finish(kernel(2))
            assert compiler.compiled == [kernel(2)]  # another one does not wait
        finally:
            holder.kill()
        settled()  # the lock has ended with the process
    assert compiler.compiled == [kernel(2), kernel(1)]


def test_nobody_waits_for_another_process_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path))
    monkeypatch.setattr(compile_queue, "PATIENCE", 0.1)
    with alone(kernel(1)), alone(kernel(1)):
        pass


def test_a_folder_that_cannot_be_written_breaks_nothing(compiler, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "file"))
    CompileQueue(0, specifications.folder() / "list").finish(kernel(1))
    assert compiler.compiled == [kernel(1)]


def test_progress_is_said_when_it_takes_long(compiler, monkeypatch, caplog):
    monkeypatch.setattr(compile_queue, "QUIET", -1.0)
    with caplog.at_level(logging.INFO, logger="tacit"):
        CompileQueue(0, None).add([kernel(number) for number in range(3)], threads=1)
        settled()
    said = "compiling kernels for the GPU ({} of 3)"
    assert caplog.messages == [said.format(1), said.format(2)]


def test_a_launch_that_triton_specializes_otherwise_is_compiled_by_triton(monkeypatch):
    """What `launch` and `Kernel` launch first passes through Triton, whatever the queue made."""
    calls = []

    class Function(jit.JITFunction):
        def __init__(self):
            """Has no source."""

        def __getitem__(self, grid):
            return lambda *arguments, **options: calls.append((grid, arguments, options))

    queue = type("Queue", (), {"finish": lambda self, one: calls.append(one)})()
    monkeypatch.setattr(jit, "queue_of", lambda device: queue)
    monkeypatch.setattr(jit, "specification", lambda *given: given)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    device, function = torch.device("cuda", 0), Function.__new__(Function)
    jit._launch_first(function, device, (2, 1), ("x", 5), (7,), [torch.int64], {"num_warps": 8})
    assert calls == [
        (function, [torch.int64], 1, (7,), {"num_warps": 8}),
        ((2, 1), ("x", 5, 7), {"num_warps": 8}),
    ]
