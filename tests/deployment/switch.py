"""A network switch in Python: frames between virtual cables, as slow, lossy or cut as a test asks.

    unshare --user --map-root-user --net python switch.py CAPTURE SEED

It stays in a network namespace of its own, where one end of every cable is. Each line of its input
is a JSON object with some of `ports` (names of cables' ends to serve), `latency` (seconds, each
way), `loss` (the part of all frames), and `down` (ports that are unplugged); it answers "ok". All
frames that reach it go to the file CAPTURE, in the format of tcpdump, before anything is lost.
"""

from __future__ import annotations

import json
import random
import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Any, BinaryIO

LONGEST = 1 << 16
EVERY_PROTOCOL = 3  # ETH_P_ALL
ADDRESS = 6  # bytes; a frame begins with that of its receiver and that of its sender
HEAD_OF_CAPTURE = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, LONGEST, 1)
BUFFER = 8 << 20


class Port:
    """One end of a cable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.bind((name, 0))
        self.socket.setblocking(False)

    def read(self) -> bytes | None:
        """A frame that came in, if there is one; what went out is seen here, too."""
        while True:
            try:
                frame, (_, _, kind, *_) = self.socket.recvfrom(LONGEST)
            except OSError:  # nothing is there, or the host has gone
                return None
            if kind != socket.PACKET_OUTGOING:
                return frame

    def write(self, frame: bytes) -> None:
        """Sends; a full queue loses the frame, as it does in any switch."""
        with suppress(OSError):
            self.socket.send(frame)


class Switch:
    """Learns who is behind which port, and carries frames there."""

    def __init__(self, capture: BinaryIO, seed: int) -> None:
        self.ports: dict[str, Port] = {}
        self.behind: dict[bytes, Port] = {}
        self.latency, self.loss = 0.0, 0.0
        self.down: set[str] = set()
        self._capture, self._random = capture, random.Random(seed)
        self._under_way: deque[tuple[float, Port, bytes]] = deque()
        capture.write(HEAD_OF_CAPTURE)

    def order(self, wish: dict[str, Any]) -> None:
        for name in wish.get("ports", ()):
            self.ports[name] = Port(name)
        self.latency = wish.get("latency", self.latency)
        self.loss = wish.get("loss", self.loss)
        self.down = set(wish.get("down", self.down))

    def take(self, port: Port) -> None:
        """All frames that wait at a port."""
        while (frame := port.read()) is not None:
            self._write_down(frame)
            self.behind[frame[ADDRESS : 2 * ADDRESS]] = port
            if port.name in self.down or self._random.random() < self.loss:
                continue
            target = self.behind.get(frame[:ADDRESS])
            for other in self.ports.values() if target is None else [target]:
                if other is not port and other.name not in self.down:
                    self._under_way.append((time.monotonic() + self.latency, other, frame))

    def deliver(self) -> float | None:
        """Sends what is due; gives the seconds until more is."""
        while self._under_way:
            due, port, frame = self._under_way[0]
            if (wait := due - time.monotonic()) > 0:
                return wait
            self._under_way.popleft()
            if port.name not in self.down:
                port.write(frame)
        return None

    def _write_down(self, frame: bytes) -> None:
        now = time.time_ns()
        times = now // 10**9, now % 10**9 // 1000
        self._capture.write(struct.pack("<IIII", *times, len(frame), len(frame)) + frame)


def main(path: str, seed: str) -> None:
    with open(path, "wb") as capture:
        switch = Switch(capture, int(seed))
        while True:
            wait = switch.deliver()
            sockets = {port.socket: port for port in switch.ports.values()}
            for ready in select.select([sys.stdin, *sockets], [], [], wait)[0]:
                if ready is not sys.stdin:
                    switch.take(sockets[ready])
                elif line := sys.stdin.readline():
                    switch.order(json.loads(line))
                    capture.flush()
                    print("ok", flush=True)
                else:
                    return


if __name__ == "__main__":
    main(*sys.argv[1:])
