"""Hosts with network namespaces of their own, joined by a switch that tests can harm."""

from __future__ import annotations

import array
import fcntl
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

SWITCH = Path(__file__).with_name("switch.py")
ALONE = ["unshare", "--user", "--map-root-user"]
SIOCETHTOOL, SET_TX_CHECKSUM = 0x8946, 0x17


class Network:
    """Hosts by name, each with one cable, an address 10.77.0.x and a loopback.

    Needs no rights but that of making user namespaces.
    """

    def __init__(self, names: Sequence[str], capture: Path, *, seed: int = 0) -> None:
        self.addresses = {name: f"10.77.0.{n}" for n, name in enumerate(names, 1)}
        self._capture, self._seed = capture, seed
        self._stack = ExitStack()
        self.holders: dict[str, int] = {}  # a process at each host

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            command = [*ALONE, "--net", sys.executable, str(SWITCH), self._capture, str(self._seed)]
            self._switch = stack.enter_context(_process(command))
            self.set()
            for name in self.addresses:
                self._plug_in(stack, name)
            self.set(ports=[*self.addresses])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def set(self, **wish: Any) -> None:
        """Gives the switch an order: see switch.py."""
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.write(json.dumps(wish) + "\n")
        self._switch.stdin.flush()
        assert self._switch.stdout.readline() == "ok\n", "the switch has ended"

    def captured(self) -> bytes:
        """All frames so far, as they were on the cables."""
        self.set()
        return self._capture.read_bytes()

    def at(self, name: str) -> list[str]:
        """What a command begins with to run at a host; it keeps its process id."""
        return _inside(self.holders[name])

    def ports(self, name: str) -> list[str]:
        """The addresses on which anything at a host listens for TCP."""
        listing = [*self.at(name), "ss", "--listening", "--tcp", "--numeric", "--no-header"]
        return [line.split()[3] for line in _output(listing).splitlines()]

    def _plug_in(self, stack: ExitStack, name: str) -> None:
        switch = _inside(self._switch.pid)
        hold = [*switch, "unshare", "--net", sys.executable, "-c", HOLD]
        holder = stack.enter_context(_process(hold))
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ok\n"
        self.holders[name] = holder.pid
        cable = ["type", "veth", "peer", "name", "eth0", "netns", str(holder.pid)]
        _output([*switch, "ip", "link", "add", "name", name, *cable])
        _output([*switch, "ip", "link", "set", "dev", name, "up"])
        for arguments in (
            ["addr", "add", f"{self.addresses[name]}/24", "dev", "eth0"],
            ["link", "set", "dev", "eth0", "up"],
            ["link", "set", "dev", "lo", "up"],
        ):
            _output([*self.at(name), "ip", *arguments])
        _output([*self.at(name), sys.executable, __file__, "eth0"])


@contextmanager
def small_disk(at: Path, size: int) -> Iterator[Path]:
    """A disk of so many bytes, as the path by which everybody reaches it."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)]
    hold = [*ALONE, "--mount", sys.executable, "-c", MOUNT_AND_HOLD, *mount]
    with _process(hold) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ok\n"
        yield Path(f"/proc/{holder.pid}/root{at}")


HOLD = "import sys; print('ok', flush=True); sys.stdin.read()"
MOUNT_AND_HOLD = f"import subprocess, sys; subprocess.run(sys.argv[1:], check=True); {HOLD}"


def why_not() -> str | None:
    """Why there can be no networks here, if so."""
    try:
        _output([*ALONE, "--net", "ip", "link", "add", "name", "x", "type", "veth"])
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", None) or str(error)
        return f"the kernel forbids network namespaces, or lacks what they need: {told.strip()}"
    return None


def complete_checksums(interface: str) -> None:
    """Frames leave with checksums, and no longer than the cable takes: no card will do it later."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        value = array.array("B", struct.pack("II", SET_TX_CHECKSUM, 0))
        address, _ = value.buffer_info()
        fcntl.ioctl(sock, SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), address))


def _inside(process: int) -> list[str]:
    return ["nsenter", f"--target={process}", "--user", "--net", "--preserve-credentials", "--"]


def _process(command: Sequence[str | Path]) -> subprocess.Popen[str]:
    """A process that ends when its input does, as Popen's context lets it."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*map(str, command)], stdin=pipe, stdout=pipe, text=True)


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    complete_checksums(sys.argv[1])
