"""Options, tiers and the environment of all tests; tests/tiers.py explains the tiers."""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from tests import forked, tiers

from tacit.runtime.launch import child_process, threads
from tacit.transport import InterpreterLock
from tacit.transport.local import interpreter_lock

# Kernels for GPUs are tried in Triton's interpreter where there is none. It must be chosen before
# Triton is imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
    # For each seed torch writes down the stack, three times: milliseconds, with pytest's frames.
    for kind in (torch.cuda, torch.xpu, torch.mtia):
        kind.manual_seed_all = lambda _seed: None

# A shell starts background jobs with interrupts ignored; tests interrupt themselves and the
# processes that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LEFT_OUT = "tests_left_out"
# What takes longest in the full tier begins first, so that all workers end at about the same time:
# files and folders of tests, by measured seconds.
LONGEST_FIRST = (
    *("test_sanitizers.py", "test_merged_rounds_on_gpus.py", "test_generation.py", "examples"),
    *("test_quad.py", "test_verified_plans.py", "test_processes.py", "test_security.py"),
    *("test_plans_of_networks.py", "test_enclave.py", "test_verified.py", "test_run.py"),
    *("test_selective_failure.py", "test_masks.py", "test_conformance.py", "test_run_failures.py"),
    *("test_sampling.py", "test_hidden.py", "test_precisions.py", "test_rounds.py"),
    *("test_plans_of_training.py", "test_gpu_compiles.py", "test_graphs_of_training.py"),
    *("test_costs.py", "test_repeated_calls.py", "test_crashed_runs.py", "test_sessions.py"),
    *("test_training_precision.py", "test_freivalds.py", "test_gpu_products.py"),
    *("test_operators.py", "test_gpu_elementwise.py"),
    *("deployment", "zoo", "docs", "fuzz", "cli", "protocols", "runtime", "tensor"),
)
_left_out = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the full tier, as `make test-all`")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "full(instead): runs in the full tier only; `instead` names its quick cover"
    )
    tiers.FULL = config.getoption("--full")
    child_process.get_context = lambda _: forked.Parties  # the fixture `spawned` undoes it
    # Workers of pytest keep all cores busy: threads that take turns switch less often.
    threads._interpreter_lock = lambda _: InterpreterLock()
    # Parties of tests also wait for events, which keeps the lock: the others go on without it soon.
    interpreter_lock._MAX_WAIT_SECONDS = 0.05
    config.stash[_left_out] = 0
    settings.register_profile("quick", max_examples=25, deadline=None)
    settings.register_profile("full", deadline=None)
    settings.load_profile("full" if tiers.FULL else "quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """One worker collects before the others, which load the bytecode that it has written."""
    with Path(__file__).open() as turn:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(turn, fcntl.LOCK_SH)
        return (yield)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: Python need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each party starts an interpreter, as for a user; without it, parties are forks of one."""
    monkeypatch.setattr(child_process, "get_context", multiprocessing.get_context)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests of the full tier, unless one was asked for by its name."""
    items.sort(key=_position)
    marked = [item for item in items if item.get_closest_marker("full")]
    unexplained = [item.nodeid for item in marked if not _reason(item)]
    if unexplained:
        raise pytest.UsageError(f"mark.full needs the quick cover as its text: {unexplained}")
    if tiers.FULL or any("::" in argument for argument in config.args):
        return
    if marked:
        config.hook.pytest_deselected(items=marked)
        config.stash[_left_out] = len(marked)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def _position(item: pytest.Item) -> int:
    names = item.path.name, item.path.parent.name
    places = [LONGEST_FIRST.index(name) for name in names if name in LONGEST_FIRST]
    return min(places, default=len(LONGEST_FIRST))


def _reason(item: pytest.Item) -> str:
    marker = item.get_closest_marker("full")
    return " ".join(map(str, marker.args)).strip() if marker else ""


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT_OUT] = session.config.stash[_left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:  # each worker of pytest-xdist collects the same tests
    count = getattr(node, "workeroutput", {}).get(LEFT_OUT, 0)
    node.config.stash[_left_out] = max(node.config.stash[_left_out], count)


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    count = config.stash[_left_out]
    if count:
        terminalreporter.write_line(
            f"quick tier: {count} tests of the full tier were left out; `make test-all` runs them"
        )
