"""Three or four organisations, sometimes a dealer, each with a folder, that run the commands."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from tests.deployment import plain
from tests.deployment.network import Network
from tests.forked import Forked
from tests.ports import free_ports
from tests.runtime.party_files import NAMES, credentials, write_key

from tacit.runtime.deploy.member_blocks import snippet

JOBS = Path(__file__).parent / "jobs"
PORT = 7000  # in a network, where everybody has an address
DEADLINE = 5.0  # seconds
SLACK = 60.0  # seconds for a busy machine to ask who is silent, to say so, and to end
ENOUGH = 300.0  # seconds in which a busy machine starts and ends everything
SETTINGS = f"""\
reveals = ["bob"]
deadline = {DEADLINE}
connect_deadline = 900.0

"""
DEALER = "dora"
DEALT = f'protocol = "additive"\n{SETTINGS}'
FOURTH = "dan"
FOUR_PARTIES = f'protocol = "quad"\n{SETTINGS}'
PARTY_FILE = "parties.toml"
FOREVER = "1000000"  # steps
TACIT = ("-m", "tacit")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and how many seconds after the moment that counts."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def report(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """The error, without what was printed before; without one, all of it."""
        error = re.search(r"^error: .*", self.err, re.MULTILINE | re.DOTALL)
        return (error.group().removeprefix("error: ") if error else self.err).strip()


class Run:
    """One command at several parties at the same time."""

    def __init__(self) -> None:
        self.processes: dict[str, Forked] = {}
        self._files: dict[str, tuple[Path, Path]] = {}
        self.since = time.monotonic()

    def add(self, name: str, arguments: Sequence[str], folder: Path, host: int | None) -> None:
        """Starts what Python gets these arguments for."""
        self._files[name] = files = folder / "stdout", folder / "stderr"
        env = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        self.processes[name] = Forked(arguments, cwd=folder, env=env, files=files, host=host)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.since = time.monotonic()
        self.processes[name].send_signal(number)

    def end(self, names: Iterable[str] = ()) -> dict[str, Ended]:
        """Returns how each ended; fails the test if one does not end."""
        ended: dict[str, Ended] = {}
        waited = set(names) or set(self.processes)
        until = time.monotonic() + ENOUGH
        while waited - ended.keys():
            for name in waited - ended.keys():
                code = self.processes[name].poll()
                if code is not None:
                    out, err = (file.read_text() for file in self._files[name])
                    ended[name] = Ended(code, out, err, time.monotonic() - self.since)
            assert time.monotonic() < until, (sorted(waited - ended.keys()), ended, self.texts())
            time.sleep(0.02)
        return {name: ended[name] for name in self.processes if name in ended}

    def texts(self) -> dict[str, str]:
        """What is on stderr so far."""
        return {name: files[1].read_text() for name, files in self._files.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


class Site:
    """The parties' folders, the addresses at which they meet, and a process at each host."""

    def __init__(
        self, folder: Path, addresses: Mapping[str, str], hosts: Mapping[str, int]
    ) -> None:
        self.folder, self.addresses, self.hosts = folder, dict(addresses), dict(hosts)
        self.parties = tuple(name for name in (*NAMES, FOURTH) if name in addresses)
        self.logs = {name: self.of(name) / "log" for name in self.addresses}  # where each writes
        x = plain.digits()[0]
        for name in self.addresses:
            self.of(name).mkdir()
            for job in JOBS.glob("*.py"):
                shutil.copy(job, self.of(name))
        torch.save(plain.trained().state_dict(), self.of("alice") / "model.pt")
        np.save(self.of("alice") / "pictures.npy", x[: -plain.ASIDE].numpy())
        np.save(self.of("bob") / "labels.npy", plain.targets().numpy())
        np.save(self.of("bob") / "pictures.npy", x[-plain.ASIDE :].numpy())

    @classmethod
    def on_loopback(cls, folder: Path, *, dealer: bool = False) -> Site:
        names = (*NAMES[:2], DEALER) if dealer else NAMES
        ports = zip(names, free_ports(len(names)), strict=True)
        addresses = {name: f"127.0.0.1:{port}" for name, port in ports}
        made = cls(folder, addresses, {})
        made.introduce()
        return made

    @classmethod
    def in_network(cls, folder: Path, network: Network) -> Site:
        addresses = {name: f"{host}:{PORT}" for name, host in network.addresses.items()}
        return cls(folder, addresses, network.holders)

    def of(self, name: str) -> Path:
        """The folder of a party."""
        return self.folder / name

    def introduce(self) -> None:
        """Gives everybody a key and the party file, without the command line."""
        blocks = []
        for name, address in self.addresses.items():
            write_key(self.of(name), name, credentials(name).private_key)
            certificate = credentials(name).certificate
            kind = "dealer" if name == DEALER else "party"
            blocks.append(snippet(name, address, certificate, kind=kind))
        special = {DEALER: DEALT, FOURTH: FOUR_PARTIES}
        head = next((special[name] for name in special if name in self.addresses), SETTINGS)
        for name in self.addresses:
            (self.of(name) / PARTY_FILE).write_text(head + "\n".join(blocks))

    def at(self, run: Run, name: str, *arguments: str, program: Sequence[str] = TACIT) -> None:
        """Starts a command at a host, as a part of a run."""
        run.add(name, [*program, *arguments], self.of(name), self.hosts.get(name))

    def add(self, run: Run, name: str, command: Sequence[str], *arguments: str) -> None:
        """The same for a command that takes a party and a party file."""
        self.at(run, name, *command, "--party", name, "--parties", PARTY_FILE, *arguments)

    def start(self, *job: str, resume: bool = False, order: Sequence[str] = ()) -> Run:
        """`tacit run` at all parties, and `tacit dealer` if there is one."""
        run = Run()
        for name in order or self.parties:
            self.join(run, name, *job, resume=resume)
        if DEALER in self.addresses:
            self.deal(run, *job, resume=resume)
        return run

    def join(self, run: Run, name: str, *job: str, resume: bool = False) -> None:
        """`tacit run` at one more party."""
        self.add(run, name, ["run"], *run_arguments(self.logs[name], *job, resume=resume))

    def deal(self, run: Run, *job: str, resume: bool = False) -> None:
        """`tacit dealer` at the dealer's host."""
        options = run_arguments(self.logs[DEALER], *job, resume=resume)
        self.at(run, DEALER, "dealer", "--parties", PARTY_FILE, *options)

    def checkpoints(self, name: str) -> list[int]:
        """The steps of a party's checkpoints."""
        steps = self.logs[name].glob("step-*")
        return sorted(int(step.name.split("-")[1]) for step in steps if _is_saved(step))

    def newest(self) -> int:
        """The newest step of which all parties have a checkpoint; 0 if there is none."""
        common = set.intersection(*(set(self.checkpoints(name)) for name in self.parties))
        return max(common, default=0)

    def curve(self) -> list[tuple[int, float]]:
        """Steps and losses, as bob has them."""
        path = self.logs["bob"] / "scalars.csv"
        if not path.exists():
            return []
        with path.open() as file:
            return [(int(r["step"]), float(r["loss"])) for r in csv.DictReader(file) if r["loss"]]


def run_arguments(log: Path, *job: str, resume: bool = False) -> list[str]:
    """The arguments of `tacit run` but for the party: options, the job, and the job's own."""
    name, *arguments = job
    options = ["--json", "--log", str(log), *(["--resume"] if resume else [])]
    return [*options, name, *(["--", *arguments] if arguments else [])]


def check_curve(curve: Sequence[tuple[int, float]], steps: int) -> None:
    """Each step of a training once, with the loss that it has without secrets."""
    found = [loss for step, loss in curve if step < steps]
    assert [step for step, _ in curve][:steps] == [*range(steps)]
    expected = plain.losses(steps)
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    assert worst < 0.01, (worst, steps)


@contextmanager
def training(site: Site) -> Iterator[Run]:
    """The training under way, two checkpoints or more after the one that it goes on from."""
    before = site.newest()
    with site.start("train.py", FOREVER, resume=before > 0) as run:
        until = time.monotonic() + ENOUGH
        while site.newest() < before + 4:
            assert {one.poll() for one in run.processes.values()} == {None}, run.texts()
            assert time.monotonic() < until, run.texts()
            time.sleep(0.05)
        yield run
    check_curve(site.curve(), site.newest())


def check(
    ended: Mapping[str, Ended],
    codes: Mapping[str, int],
    *words: str,
    within: float = ENOUGH,
) -> None:
    """Everybody ended in time, with its code; those told of another's failure say `words`."""
    assert {name: one.code for name, one in ended.items()} == codes, ended
    for name, one in ended.items():
        assert one.seconds < within, (name, one)
        assert "4711" not in one.err or codes[name] == 1, "what a job's error says stays there"
        if codes[name] in (3, 4, 5):
            assert [w for w in words if w not in one.said] == [], (name, one)
            assert "\n" not in one.said, (name, one)


def _is_saved(step: Path) -> bool:
    """Whether there is a checkpoint in a folder, which its party may remove meanwhile."""
    try:
        return any(one.match("party-*.tacit") for one in step.iterdir())
    except FileNotFoundError:
        return False
