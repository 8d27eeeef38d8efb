"""The processes that a run with an enclave starts, by their names."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

from tacit.runtime.launch.child_process import Child
from tacit.runtime.launch.enclave_child import EnclaveMember


@contextmanager
def recorded(when_complete=lambda pids: None):
    """Yields the numbers of the processes; calls a function with them once an enclave is there."""
    pids = {}
    start_child, start_enclave = Child.start, EnclaveMember.start

    def child(serve, task, name, rank):
        made = start_child(serve, task, name, rank)
        pids[name] = made.process.pid
        return made

    def enclave(task, number, *details):
        made = start_enclave(task, number, *details)
        pids[f"tacit-enclave-{number}"] = made.process.pid
        when_complete(pids)
        return made

    with patch.object(Child, "start", child), patch.object(EnclaveMember, "start", enclave):
        yield pids
