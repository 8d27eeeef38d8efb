"""Connections while they come together: dialled by this party, or accepted and judged."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..errors import (
    CertificateRejected,
    ConfigError,
    ConnectTimeout,
    Error,
    HandshakeMismatch,
    PeerClosed,
    TransportError,
)
from .channel import Abort
from .handshake import Verdict, greet, introduce
from .hello import Hello
from .limits import Limits
from .root_cause import blame
from .shaping import Network, Wire
from .socket_channel import SocketChannel
from .tcp import Listener, TcpStream, dial
from .tls import Credentials

_ATTEMPT_SECONDS = 1.0
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_GREETING_SECONDS = 5.0
_MAX_GREETINGS = 32  # strangers that may stand in the door at one time
_MAX_REPORTED = 5  # of those turned away
_SLICE = 0.1
_END_SECONDS = 1.0
_FATAL = (CertificateRejected, HandshakeMismatch)  # trying again does not help


class Gathering:
    """The connections of one party while they come together."""

    def __init__(
        self,
        hello: Hello,
        addresses: Sequence[tuple[str, int]],
        credentials: Credentials | None,
        limits: Limits,
        network: Network,
    ) -> None:
        self._hello, self._addresses, self._credentials = hello, addresses, credentials
        self._limits, self._network = limits, network
        self._until = time.monotonic() + limits.connect_deadline
        self._changed = threading.Condition()
        self._done = threading.Event()
        self._failure: Error | None = None
        self._streams: dict[tuple[int, bool], TcpStream] = {}  # by peer and "outgoing"
        self._channels: dict[int, SocketChannel] = {}
        self._causes: dict[int, str] = {}  # why a peer was not reached, at the last attempt
        self._refused: deque[str] = deque(maxlen=_MAX_REPORTED)
        self._shaking: dict[TcpStream, bool] = {}  # whether it was accepted, oldest first
        self._threads: list[threading.Thread] = []

    def gather(self, listener: Listener) -> list[SocketChannel]:
        """A channel to every peer, or the error that says which one is missing and why."""
        self._start(self._accept, listener)
        for peer in range(self._hello.rank):
            self._start(self._dial, peer)
        try:
            self._await_all()
        except BaseException as error:
            word = blame(error, self._hello.rank, 0)
            for channel in tuple(self._channels.values()):
                channel.say(word)
            self._end_threads(listener)
            for stream in self._streams.values():
                stream.close()
            raise
        self._end_threads(listener)
        return [self._channels[peer] for peer in sorted(self._channels)]

    def _await_all(self) -> None:
        while not self._all_here():
            with self._changed:
                self._changed.wait_for(lambda: self._failure or self._all_here(), _SLICE)
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > self._until:
                raise self._timeout()
            self._listen_to_those_here()

    def _listen_to_those_here(self) -> None:
        """A party that fails while others still connect ends the gathering of all."""
        for peer, channel in tuple(self._channels.items()):
            ended = channel.outgoing.ended()
            word = channel.last_word()
            if isinstance(word, Abort):
                raise word.error(peer)
            if ended and word is None:
                raise PeerClosed(f"party {peer} went away while others connect", party=peer)

    def _end_threads(self, listener: Listener) -> None:
        self._done.set()
        listener.cut()
        with self._changed:
            for stream in self._shaking:
                stream.cut()
        until = time.monotonic() + _END_SECONDS  # one that asks a dead name server stays behind
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            for thread in alive:
                thread.join(max(until - time.monotonic(), 0.0))
            if time.monotonic() > until:
                break

    def _timeout(self) -> ConnectTimeout:
        missing = [p for p in range(self._hello.parties) if not self._is_here(p)]
        peer = missing[0]
        host, port = self._addresses[peer]
        cause = self._causes.get(peer, "it did not come")
        strangers = f"; refused meanwhile: {', '.join(self._refused)}" if self._refused else ""
        return ConnectTimeout(
            f"party {peer} ({host}:{port}) is not connected to party {self._hello.rank} after "
            f"{self._limits.connect_deadline} s: {cause}{strangers}",
            party=peer,
        )

    def _all_here(self) -> bool:
        return len(self._channels) == self._hello.parties - 1

    def _is_here(self, peer: int) -> bool:
        return peer == self._hello.rank or peer in self._channels

    def _start(self, target: Callable[..., None], *args: object) -> None:
        name = f"tacit-connect-{self._hello.rank}"
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        with self._changed:
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
            thread.start()

    def _dial(self, peer: int) -> None:
        """Make both connections to a party of lower rank."""
        for outgoing in (True, False):
            pause = _FIRST_PAUSE
            while not self._done.is_set() and not self._dial_once(peer, outgoing):
                jitter = secrets.randbelow(1000) / 1000
                self._done.wait(pause * (0.5 + jitter))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _dial_once(self, peer: int, outgoing: bool) -> bool:
        """Whether this attempt settles the matter, for good or for bad."""
        try:
            sock = dial(self._addresses[peer], min(_ATTEMPT_SECONDS, self._remaining()))
            stream = self._secure(sock, server=False)
            with self._shaking_hands(stream, until=self._until):
                self._require_pin(stream, peer)
                introduce(stream, self._hello, peer, outgoing=outgoing, until=self._until)
                self._add(peer, outgoing, stream)
        except (ConfigError, *_FATAL) as error:
            self._fail(error, peer)
        except TransportError as error:
            self._causes[peer] = str(error)
            return False
        return True

    def _accept(self, listener: Listener) -> None:
        while not self._done.is_set():
            arrival = listener.accept(_SLICE)
            if arrival is None:
                continue
            sock, origin = arrival
            try:
                self._start(self._greet, self._secure(sock, server=True), origin)
            except TransportError as error:
                self._refused.append(f"{origin} ({error})")

    def _greet(self, stream: TcpStream, origin: str) -> None:
        until = min(self._until, time.monotonic() + _GREETING_SECONDS)
        try:
            with self._shaking_hands(stream, until=until):
                proved = self._proved(stream)
                peer, outgoing = greet(stream, self._hello, self._judge, proved=proved, until=until)
                self._add(peer, outgoing, stream)
        except HandshakeMismatch as error:
            self._fail(error, error.party)
        except TransportError as error:
            self._refused.append(f"{origin} ({error})")

    def _secure(self, sock: socket.socket, *, server: bool) -> TcpStream:
        """A stream before its handshake. Of too many strangers in the door the first has to go."""
        secure = self._credentials.stream if self._credentials else TcpStream
        stream = secure(sock, server=server)
        with self._changed:
            strangers = [s for s, accepted in self._shaking.items() if accepted]
            if server and len(strangers) >= _MAX_GREETINGS:
                strangers[0].cut()
                del self._shaking[strangers[0]]
            self._shaking[stream] = server
            if self._done.is_set():
                stream.cut()
        return stream

    @contextmanager
    def _shaking_hands(self, stream: TcpStream, *, until: float) -> Iterator[None]:
        """Secure a stream; it is closed if the rest of the handshake fails or takes too long."""
        try:
            stream.shake(until - time.monotonic())
            yield
        except BaseException:
            stream.close()
            raise
        finally:
            with self._changed:
                self._shaking.pop(stream, None)

    def _proved(self, stream: TcpStream) -> int | None:
        """The rank whose key the other side holds, where there are keys.

        TLS also believes a certificate that a pinned party has signed: this does not.
        """
        if self._credentials is None:
            return None
        if stream.pin not in self._credentials.pins:
            raise CertificateRejected("the key of the other side is not pinned here")
        return self._credentials.pins.index(stream.pin)

    def _judge(self, theirs: Hello, outgoing: bool) -> Verdict:
        if theirs.rank <= self._hello.rank:
            return Verdict.RANK
        known = self._streams.get((theirs.rank, outgoing))
        return Verdict.TAKEN if known and not known.ended() else Verdict.WELCOME

    def _require_pin(self, stream: TcpStream, peer: int) -> None:
        if self._credentials and stream.pin != self._credentials.pins[peer]:
            raise CertificateRejected(
                f"the certificate at {self._addresses[peer]} is not that of party {peer}",
                party=peer,
            )

    def _add(self, peer: int, outgoing: bool, stream: TcpStream) -> None:
        stream.peer = peer
        with self._changed:
            self._shaking.pop(stream, None)  # from here on nobody may cut it
            if (known := self._streams.get((peer, outgoing))) is not None:
                known.close()
            self._streams[peer, outgoing] = stream
            other = self._streams.get((peer, not outgoing))
            if other is not None:
                pair = (stream, other) if outgoing else (other, stream)
                self._channels[peer] = self._channel(peer, *pair)
            self._changed.notify_all()

    def _channel(self, peer: int, outgoing: TcpStream, incoming: TcpStream) -> SocketChannel:
        rank = self._hello.rank
        return SocketChannel(
            outgoing,
            incoming,
            party=rank,
            peer=peer,
            session=self._hello.session,
            limits=self._limits,
            wire=Wire(self._network.between(rank, peer)),
        )

    def _fail(self, error: Error, peer: int | None) -> None:
        error.party = peer
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _remaining(self) -> float:
        return max(self._until - time.monotonic(), 1e-3)
