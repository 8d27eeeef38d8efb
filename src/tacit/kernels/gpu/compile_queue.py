"""Compiles kernels in threads, before they are launched where their need can be known.

Triton compiles a kernel when it is launched first, which takes most of a second. Its passes do not
hold the interpreter's lock, so that threads compile side by side; its reading of the code does,
which is why a few are faster than many. When a session on a GPU begins,
threads compile what this machine needed before, or else what common networks need. What is in
Triton's cache on disk is only read. A launch waits for the thread that has its kernel in work, and
compiles itself what nobody has begun. Threads make no call of CUDA that would change the device:
they may run while a graph is captured. A kernel is loaded when it is launched.

Processes of a machine share the cache. While one of them compiles a kernel, the others wait for a
lock on a file, which ends with the process; after PATIENCE seconds they compile it themselves.

A kernel that cannot be compiled ahead breaks nothing: its launch compiles it again, and raises.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread, main_thread

import torch
from triton import knobs
from triton.runtime.driver import driver

from .library_key import keep_library_key
from .specifications import COMMON, Specification, append, folder, list_file, listed

LOG = logging.getLogger("tacit")
MOST_THREADS = 4  # in a process: more of them wait for the interpreter's lock longer than they work
PATIENCE = 60.0  # seconds to wait for another process
POLL = 0.02
QUIET = 2.0  # seconds between reports of the progress

_starting = Lock()
_queues: dict[int, CompileQueue] = {}  # by the number of the GPU
_driver_lock = Lock()  # Triton makes its driver and its tables for a device at first use


class CompileQueue:
    """The kernels of one GPU that this process has compiled, compiles, or will compile."""

    def __init__(self, device: int, file: Path | None) -> None:
        self._device, self._file = device, file
        self._lock = Lock()
        self._begun: dict[Specification, Event] = {}  # each set when the kernel is compiled
        self._waiting: deque[Specification] = deque()
        self._listed: set[Specification] = set()
        self._num_done, self._reported = 0, 0.0

    def start(self, threads: int) -> None:
        """Lets threads compile what is listed for the device."""
        if knobs.runtime.interpret:  # Triton compiles nothing
            return
        kernels = listed(self._file) if self._file else []
        self._listed.update(kernels)
        self.add(kernels or listed(COMMON), threads)

    def add(self, kernels: Iterable[Specification], threads: int) -> None:
        """Lets threads compile these kernels, in this order; the last of them ends the threads."""
        with self._lock:
            self._waiting.extend(kernels)
            self._reported = time.monotonic()
            count = min(threads, len(self._waiting))
        for number in range(count):
            # No daemons, even if the caller is one: an interpreter that ends within the compiler
            # aborts the process. They end with `main`.
            Thread(target=self._work, name=f"tacit-compile-{number}", daemon=False).start()

    def finish(self, one: Specification) -> None:
        """Returns when a kernel is compiled: by this thread, unless another has begun."""
        done, is_mine = self._claim(one)
        if is_mine:
            self._compile(one, done)
        done.wait()
        if self._file and one not in self._listed:
            self._listed.add(one)
            append(self._file, one)

    def progress(self) -> tuple[int, int]:
        """Returns how many kernels are compiled, and how many are or will be."""
        with self._lock:
            return self._num_done, len(self._begun.keys() | set(self._waiting))

    def _claim(self, one: Specification) -> tuple[Event, bool]:
        """Returns the event of a kernel, and whether the caller has to compile it."""
        with self._lock:
            is_mine = one not in self._begun
            return self._begun.setdefault(one, Event()), is_mine

    def _work(self) -> None:
        while main_thread().is_alive() and (one := self._next()) is not None:
            done, is_mine = self._claim(one)
            if is_mine:
                self._compile(one, done)

    def _next(self) -> Specification | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _compile(self, one: Specification, done: Event) -> None:
        try:
            with torch.cuda.device(self._device), alone(one):
                compile_kernel(one, self._device)
        except Exception as error:  # its launch raises
            LOG.debug("kernel %s is not compiled ahead: %s", one.kernel, type(error).__name__)
        finally:
            done.set()
            self._report()

    def _report(self) -> None:
        """Counts a kernel; says how far the work is, if it takes long."""
        now = time.monotonic()
        with self._lock:
            self._num_done += 1
            is_due = bool(self._waiting) and now - self._reported > QUIET
            if is_due:
                self._reported = now
        if is_due:
            LOG.info("compiling kernels for the GPU (%d of %d)", *self.progress())


def compile_kernel(one: Specification, device: int) -> None:
    """Compiles a kernel for a device, which is the current one, as Triton does for a launch.

    Its launcher is compiled, too, where Triton has one for each list of types.
    """
    function = one.function()
    with _driver_lock:  # else several threads would make the same
        keep_library_key()
        active = driver.active
        active.get_current_device()  # makes the driver
        function.device_caches[device]  # makes the tables
    made = function.warmup(*one.arguments(), grid=(1, 1, 1), **dict(one.options))
    active.launcher_cls(made.src, made.metadata)


@contextmanager
def alone(one: Specification) -> Iterator[None]:
    """Keeps other processes from compiling the same kernel in the block; waits while one does."""
    name = hashlib.sha256(repr(one).encode()).hexdigest()[:2]  # 256 files, for ever
    try:
        folder().mkdir(parents=True, exist_ok=True)
        lock = os.open(folder() / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # a folder that cannot be written: everybody compiles
        yield
        return
    try:
        _wait_for(lock)
        yield
    finally:
        os.close(lock)  # which unlocks it


def _wait_for(lock: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL)
        except OSError:  # a file system without locks
            return None
    return None


def queue_of(device: torch.device) -> CompileQueue:
    """Returns the queue of a GPU; the first call starts its threads."""
    index = torch.cuda.current_device() if device.index is None else device.index
    with _starting:
        if index not in _queues:
            file = list_file(torch.cuda.get_device_capability(index))
            _queues[index] = CompileQueue(index, file)
            _queues[index].start(min(MOST_THREADS, max(1, len(os.sched_getaffinity(0)) - 1)))
        return _queues[index]
