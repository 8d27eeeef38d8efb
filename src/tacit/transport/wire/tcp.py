"""Plain TCP sockets, and the only place besides `tls` that sees the errors of the system.

A stream stays in blocking mode: a call that must not wait says so, and a patient call is bounded by
the kernel. So a short message costs one system call on either side.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import select
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, Self, TypeAlias

from torch import Tensor

from ...errors import ConfigError, ConnectError, Party, PeerClosed, TransportError
from .fixed_message import FixedMessage

Part: TypeAlias = bytes | memoryview

PATIENCE = 0.05  # s that one patient call waits
_MAX_PARTS = 64  # buffers in one system call
_BACKLOG = 64
_KEEP_ALIVE_SECONDS = 60
_HANGUP = getattr(select, "POLLRDHUP", select.POLLHUP)


class TcpStream:
    """One connection; tensors flow one way, the receiver's heartbeats and last word the other."""

    peer: int | None = None  # the rank at the other end, once the handshake has shown it
    pin: bytes | None = None  # the public key at the other end, if it has proved one
    expires: datetime | None = None  # the certificate at the other end

    def __init__(self, sock: socket.socket, *, server: bool = False) -> None:
        self._sock = sock
        patience = struct.pack("ll", 0, int(PATIENCE * 1e6))
        try:
            sock.settimeout(None)
            if sock.family != socket.AF_UNIX:  # one end of a relayed connection has no delay
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        except OSError as error:
            sock.close()
            raise self.lost(error) from error

    def shake(self, seconds: float) -> None:
        """Secure the connection; plain TCP has no means to."""

    def begin_flow(self, *, sending: bool) -> None:
        """From here on tensors pass in one direction, away from here or to here."""

    def carry_bulk(self) -> None:
        """From here on it is a stripe: both ends know what comes next, and only that is read."""

    def keep_alive(self) -> None:
        """Lets the system send something now and then, so that nothing between forgets it."""
        if self._sock.family != socket.AF_UNIX:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_SECONDS)

    def fileno(self) -> int:
        return self._sock.fileno()

    def read(self, view: memoryview, *, patient: bool = False, whole: bool = False) -> int:
        """Receive into `view`; returns the number of bytes, 0 if there are none yet.

        whole: the sender has begun to send all of it, so that a patient call waits for more.
        """
        flags = (socket.MSG_WAITALL if whole else 0) if patient else socket.MSG_DONTWAIT
        try:
            count = self._sock.recv_into(view, 0, flags)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.lost(error) from error
        if not count:
            raise self.lost(None)
        return count

    def write(self, parts: Sequence[Part], *, patient: bool = False) -> int:
        """Send from `parts`; returns the number of bytes taken, 0 if there is no room yet."""
        flags = 0 if patient else socket.MSG_DONTWAIT
        try:
            if len(parts) == 1:
                return self._sock.send(parts[0], flags)
            return self._sock.sendmsg(parts[:_MAX_PARTS], (), flags)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.lost(error) from error

    def message(
        self, head: bytes, tensors: Sequence[Tensor], headers: Sequence[int] = (0,)
    ) -> FixedMessage | None:
        """Returns a message for `send_message` or `receive_message`; None if there are none.

        headers: where headers begin in its head.
        """
        return None

    def send_message(self, message: FixedMessage, operation: int, digest: bytes) -> int:
        """Like `write` of a message as it is now; it may also take nothing for no reason."""
        return 0

    def receive_message(
        self, message: FixedMessage, operation: int, digest: bytes, buffer: memoryview
    ) -> int | None:
        """Receives a message into its tensors after a short wait; None means that it is there.

        If another one comes, or not all of it, returns how many bytes are in the buffer.
        """
        return 0

    def is_lent(self, size: int) -> bool:
        """Returns whether compiled code can pass so many bytes in the direction of the tensors."""
        return False

    def lend(self, size: int) -> Any:
        """Returns what compiled code passes them by; until it has, nobody else uses the stream."""
        raise NotImplementedError

    def failure(self, status: int) -> TransportError:
        """Returns the error that a Status of compiled code is."""
        raise NotImplementedError

    def readable(self, seconds: float) -> bool:
        """Whether there is something to read, or an end, within so many seconds."""
        return ready(self._sock, select.POLLIN, seconds)

    def holds_bytes(self) -> bool:
        """Whether there are bytes to read that were taken from the system already."""
        return False

    def unacknowledged(self) -> int:
        """The bytes written that the other machine does not have yet, where the system tells."""
        if sys.platform != "linux":
            return 0
        try:
            return int.from_bytes(fcntl.ioctl(self._sock, termios.TIOCOUTQ, bytes(4)), "little")
        except OSError as error:
            raise self.lost(error) from error
        except ValueError as error:  # closed by this side
            raise self.lost(OSError(errno.EBADF, "closed by this side")) from error

    def ended(self) -> bool:
        """Whether the other side has closed the connection."""
        return ready(self._sock, _HANGUP, 0.0)

    def cut(self) -> None:
        """Wake whoever waits on this stream: it has ended."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # also under TLS, as it is

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.close()

    def lost(self, error: OSError | None) -> TransportError:
        why = _reason(error) if error else "closed by the other side"
        who = "a stranger" if self.peer is None else Party(self.peer)
        return PeerClosed("the connection with " + who + " is lost", cause=why, party=self.peer)


class Arrivals(Protocol):
    """Where connections of parties with a higher rank come from."""

    def accept(self, seconds: float) -> tuple[socket.socket, str] | None:
        """Returns the next connection and where it comes from, or None if nobody comes."""

    def cut(self) -> None:
        """Wakes whoever waits in `accept`: nobody is expected any more."""

    def close(self) -> None:
        """Takes no connection any more."""


Dial = Callable[[tuple[str, int], float], socket.socket]


class Listener:
    """The port on which a party waits for those of higher rank."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.address: tuple[str, int] = sock.getsockname()[:2]

    def accept(self, seconds: float) -> tuple[socket.socket, str] | None:
        """The next connection and where it comes from, or None if nobody comes."""
        try:
            if not ready(self._sock, select.POLLIN, seconds):
                return None
            sock, address = self._sock.accept()
        except OSError:  # the caller has gone away again, the port is closed, or no file is free
            time.sleep(min(seconds, PATIENCE))
            return None
        return sock, str(address[0])

    def cut(self) -> None:
        """Wake whoever waits on this port: nobody is expected any more."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def listen(host: str, port: int) -> Listener:
    """Take a port; 0 means any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "taken by another program" if taken else _reason(error)
        raise ConnectError(
            f"port {port} of {host} cannot be used: {why}", remedy="choose another port"
        ) from error
    sock.setblocking(False)
    return Listener(sock)


def dial(address: tuple[str, int], seconds: float) -> socket.socket:
    """One attempt to reach an address."""
    try:
        if not 0 < address[1] < 1 << 16:
            raise ValueError("port")
        return socket.create_connection(address, timeout=seconds)
    except OSError as error:
        raise ConnectError(_reason(error)) from error
    except (ValueError, OverflowError) as error:  # also what the resolver makes of a bad name
        raise ConfigError(f"{address!r} is not the address of a host and a port") from error


def _reason(error: OSError) -> str:
    return error.strerror or "no answer"


def ready(source: socket.socket, events: int, seconds: float) -> bool:
    """Whether one of the poll events comes within so many seconds, or this side has closed it."""
    poll = select.poll()
    try:
        poll.register(source, events)
    except ValueError:
        return True
    return bool(poll.poll(max(seconds, 0.0) * 1e3))
