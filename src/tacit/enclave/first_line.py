"""One port of a host serves everybody who speaks with its enclave: a first line says what for.

A connection without such a line begins with TLS, and so with another byte: it joins the session.
The line is not protected and need not be: TLS that follows ends inside the enclave.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

QUOTE = b"TACIT-QUOTE-1\n"  # a nonce follows; the answer is a certificate with a quote
_PORT = b"TACIT-PORT-1 "  # the name of one of the enclave's ports follows
_MAX_BYTES = 64
Dial = Callable[[tuple[str, int], float], socket.socket]  # an address, seconds


def through_port(name: str, dial: Dial) -> Dial:
    """Returns what connects to one of an enclave's ports, at the address of its host."""
    line = _PORT + name.encode() + b"\n"

    def connected(address: tuple[str, int], seconds: float) -> socket.socket:
        sock = dial(address, seconds)
        try:
            sock.sendall(line)
        except OSError:
            sock.close()
            raise
        return sock

    return connected


def read_first_line(sock: socket.socket) -> bytes | None:
    """Returns the first line of a connection; b"" if it begins otherwise, None if it ends."""
    first = sock.recv(1, socket.MSG_PEEK)
    if first != QUOTE[:1]:
        return b"" if first else None
    line = b""
    while len(line) < _MAX_BYTES and not line.endswith(b"\n"):
        part = sock.recv(1)
        if not part:
            return None
        line += part
    return line


def port_in(line: bytes, default: str) -> str | None:
    """Returns the name of the port that a first line asks for; None if it is no such line."""
    if not line:
        return default
    name = line.removeprefix(_PORT)
    if name == line or not name.endswith(b"\n") or not name[:-1].isascii():
        return None
    return name[:-1].decode() or None
