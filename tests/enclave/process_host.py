"""A host as a process of its own, which runs a program of `process_programs` with an enclave.

Arguments: the name of the program, and a folder. It writes there which processes it has started
(started.json), and what it knows in the end (ended.json).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.enclave import process_programs
from tests.enclave.started import recorded

import tacit


def write(path, value):
    path.with_suffix(".tmp").write_text(json.dumps(value))
    path.with_suffix(".tmp").rename(path)


def main(name, folder):
    with recorded(lambda pids: write(folder / "started.json", {**pids, "host": os.getpid()})):
        results = tacit.run(
            getattr(process_programs, name),
            str(folder),
            parties=2,
            protocol="enclave",
            transport="processes",
            outsourcing="two-server",
            allow_simulated=True,
            deadline=120.0,  # a scan of a process holds up its heartbeats
        )
    ended = {"results": results, "trusted": process_programs.trusted_modules()}
    write(folder / "ended.json", ended)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
