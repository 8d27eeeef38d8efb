"""The host's side of the socket to an enclave: it relays streams, and passes on requests.

Owners connect to the host's port and workers are dialled from here; TLS ends inside the enclave. A
host can drop, delay or change what passes, and the ends notice it.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import suppress

from ...errors import ConnectError, FrameRejected, PeerClosed, TransportError
from ...transport import Listener, listen
from ..attestation.request import SIZE
from ..edl import NONCE_BYTES, Frame, Kind, Link, Side, unpack_end, unpack_status
from ..first_line import QUOTE, port_in, read_first_line
from ..streams import Stream, Streams

_LOG = logging.getLogger("tacit")
_FIRST_BYTES_SECONDS = 10.0  # for one who connects to say something
_DIAL_SECONDS = 5.0
_SLICE = 0.2
_MAX_UNDECIDED = 32  # connections that have said nothing yet


class Relay:
    """Serves one enclave until it ends. `ended` has its last word: "" if all went well.

    at_fault: the workers because of which it failed, if any; known when it has ended.
    """

    at_fault: tuple[int, ...] = ()

    def __init__(self, link: Link, *, may_dial: Collection[tuple[str, int]] = ()) -> None:
        self._link = link
        self._may_dial = frozenset(may_dial)
        self._streams = Streams(link, Side.HOST)
        self._requests: dict[int, Future[bytearray]] = {}
        self._lock = threading.Lock()
        self._num_requests = 0
        self._listeners: list[Listener] = []
        self._undecided = threading.BoundedSemaphore(_MAX_UNDECIDED)
        self.ended: Future[str] = Future()
        self._start(self._read)

    def listen(self, host: str, port: int = 0, *, name: str) -> tuple[str, int]:
        """Takes a port on which the enclave is reached under a name, and returns its address.

        What connects there arrives at `HostLink.listen(name)`, unless its first line asks for a
        quote, or for another of the enclave's ports.
        """
        listener = listen(host, port)
        self.serve(listener, name)
        return listener.address

    def serve(self, listener: Listener, name: str) -> None:
        """Does as `listen` with a port that was taken before; closes it in the end."""
        self._listeners.append(listener)
        self._start(self._accept, listener, name)

    def allow_dialling(self, addresses: Collection[tuple[str, int]]) -> None:
        """Sets the addresses that the enclave may have dialled."""
        self._may_dial = frozenset(addresses)

    def quote(self, nonce: bytes, seconds: float = 30.0) -> bytes:
        """Returns the enclave's certificate and quote for a nonce, encoded."""
        return bytes(self._ask(Kind.QUOTE, nonce, seconds))

    def status(self, seconds: float = 30.0) -> dict[str, int]:
        """Returns the counts of the enclave, by the names of STATUS_FIELDS."""
        return unpack_status(self._ask(Kind.STATUS, b"", seconds))

    def stop(self) -> None:
        """Asks the enclave to end."""
        with suppress(PeerClosed):
            self._link.send(Kind.STOP)

    def close(self) -> None:
        """Takes no connection any more, and ends the socket to the enclave."""
        for listener in self._listeners:
            listener.cut()
        self._link.close()

    # Requests -----------------------------------------------------------------------------------

    def _ask(self, kind: Kind, body: bytes, seconds: float) -> bytearray:
        answer: Future[bytearray] = Future()
        with self._lock:
            self._num_requests += 1
            number = self._num_requests
            self._requests[number] = answer
        try:
            if self.ended.done():
                raise PeerClosed("the enclave has ended")
            self._link.send(kind, number, body)
            return answer.result(seconds)
        except TimeoutError:
            raise PeerClosed(f"the enclave did not answer within {seconds} s") from None
        finally:
            with self._lock:
                self._requests.pop(number, None)

    def _answer(self, frame: Frame) -> None:
        with self._lock:
            waiting = self._requests.pop(frame.number, None)
        if waiting is None:
            raise FrameRejected(
                f"the enclave answered the request {frame.number}, which is open no more"
            )
        waiting.set_result(frame.body)

    # What the enclave sends ---------------------------------------------------------------------

    def _read(self) -> None:
        word = "its process ended without a word"
        try:
            while (frame := self._link.receive()).kind is not Kind.ENDED:
                self._take(frame)
            word, self.at_fault = unpack_end(frame.body)
        except TransportError as error:
            if not isinstance(error, PeerClosed):
                word = str(error)
        self._streams.abandon()
        self.ended.set_result(word)
        with self._lock:
            for waiting in self._requests.values():
                waiting.set_exception(PeerClosed("the enclave has ended"))
            self._requests.clear()
        self.close()

    def _take(self, frame: Frame) -> None:
        if frame.kind in (Kind.QUOTE, Kind.STATUS):
            self._answer(frame)
        elif frame.kind is Kind.OPEN:
            stream = self._streams.accept(frame.number)
            self._start(self._dial, stream, frame.body.decode(errors="replace"))
        else:
            self._streams.take(frame)

    def _dial(self, stream: Stream, text: str) -> None:
        host, _, port = text.rpartition(":")
        try:
            if (host, int(port)) not in self._may_dial:
                raise ConnectError(f"the enclave may not have {text} dialled")
            sock = socket.create_connection((host, int(port)), timeout=_DIAL_SECONDS)
            _without_delay(sock)
        except (OSError, ValueError) as error:
            _LOG.debug("the enclave's connection to %s failed: %s", text, error)
            with suppress(PeerClosed):
                stream.refuse()
            return
        stream.join(sock)

    # Who connects to the host --------------------------------------------------------------------

    def _accept(self, listener: Listener, name: str) -> None:
        with listener:
            while not self.ended.done():
                arrival = listener.accept(_SLICE)
                if arrival is None:
                    continue
                if self._undecided.acquire(blocking=False):
                    self._start(self._decide, arrival[0], name)
                else:
                    arrival[0].close()

    def _decide(self, sock: socket.socket, name: str) -> None:
        """Answers one who asks for a quote; all others speak with the enclave."""
        try:
            sock.settimeout(_FIRST_BYTES_SECONDS)
            line = read_first_line(sock)
        except OSError:
            line = None
        finally:
            self._undecided.release()
        with suppress(OSError, TransportError):  # of one who goes away
            if line == QUOTE:
                self._give_quote(sock)
            elif line is not None and (port := port_in(line, name)):
                _without_delay(sock)
                self._streams.open(sock, port)
                return
        sock.close()

    def _give_quote(self, sock: socket.socket) -> None:
        nonce = b""
        while len(nonce) < NONCE_BYTES:
            part = sock.recv(NONCE_BYTES - len(nonce))
            if not part:
                return
            nonce += part
        answer = self.quote(nonce)
        sock.sendall(SIZE.pack(len(answer)) + answer)

    def _start(self, target: object, *args: object) -> None:
        name = f"tacit-relay-{secrets.token_hex(2)}"
        threading.Thread(target=target, args=args, name=name, daemon=True).start()  # type: ignore[arg-type]


def _without_delay(sock: socket.socket) -> None:
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
