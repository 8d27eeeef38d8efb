"""SecretFlow SPU beside us, taking turns: `TACIT_SPU_PYTHON` names an interpreter that has it.

It runs benchmarks/peers/run_spu.py: three processes over TCP, ABY3, 64 bits. Without it the newest
recorded figures of SPU stand in, and the rows say so.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measure import Row

import tacit

SPU_PYTHON = "TACIT_SPU_PYTHON"
SCRIPT = Path(__file__).parent / "peers" / "run_spu.py"
RECORD = Path(__file__).parent / "results" / "spu.json"


class Peer:
    """SPU in an interpreter of its own, or its recorded figures."""

    def __init__(self) -> None:
        python = os.environ.get(SPU_PYTHON)
        self._process = python and subprocess.Popen(
            [python, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.answers: dict[str, list[dict[str, float]]] = {}

    def run(self, name: str) -> None:
        if self._process:
            assert self._process.stdin
            assert self._process.stdout
            print(name, file=self._process.stdin, flush=True)
            lines = iter(self._process.stdout.readline, "")
            answer = next((line for line in lines if line.startswith("{")), None)  # it logs there
            if answer is None:
                raise RuntimeError(f"{SPU_PYTHON}: SPU ended without an answer for {name}")
            found = json.loads(answer)
            self.answers.setdefault(name, []).append(found)

    def result(self, name: str) -> tuple[str, dict[str, float]]:
        """The median answer for a case, and where it comes from."""
        if not self._process:
            record = json.loads(RECORD.read_text())
            return f"SPU on {record['date']}", record["cases"][name]
        answers = self.answers[name]
        return "SPU", {key: median(a[key] for a in answers) for key in answers[0]}

    def close(self) -> None:
        if self._process:
            self._process.communicate()
            found = {name: self.result(name)[1] for name in self.answers}
            before = json.loads(RECORD.read_text())["cases"] if RECORD.exists() else {}
            record = {"date": time.strftime("%Y-%m-%d"), "cases": {**before, **found}}
            RECORD.write_text(json.dumps(record, indent=1) + "\n")


@dataclass(frozen=True)
class Turns:
    """What one party measured of a call: median seconds, megabytes sent, rounds."""

    seconds: float
    megabytes: float
    rounds: int


@dataclass(frozen=True)
class Match:
    """A case of ours beside one of SPU's; `turn` is a barrier of the three parties."""

    name: str
    case: str
    target: float | None
    repetitions: int
    turn: threading.Barrier
    peer: Peer

    def play(self, session: tacit.Session, call: Callable[[], object]) -> Turns:
        """Times a call, which SPU's follows each time. The first is left out."""
        seconds, times = [], self.repetitions + 1
        with session.stats.scope(self.name) as cost:
            for _ in range(times):
                self.turn.wait()
                begin = time.perf_counter()
                call()
                self.turn.wait()
                seconds.append(time.perf_counter() - begin)
                if session.rank == 0:
                    self.peer.run(self.case)
        return Turns(median(seconds[1:]), cost.bytes_sent / times / 1e6, cost.rounds // times)

    def row(self, parties: Sequence[Turns], note: str) -> Row:
        """The line of the table. Seconds are of the slowest party."""
        source, answer = self.peer.result(self.case)
        ours = max(turns.seconds for turns in parties)
        sent = ", ".join(f"{turns.megabytes:.1f}" for turns in parties)
        return Row(
            name=self.name,
            value=1 / ours,
            unit="runs/s",
            baseline=source,
            baseline_value=1 / answer["seconds"],
            target=self.target,
            note=f"{ours:.3f} s to {answer['seconds']:.3f}; {sent} MB sent by the dealer and the "
            f"evaluators to {answer['megabytes']:.1f} by each party; {parties[1].rounds} rounds; "
            + note,
        )
