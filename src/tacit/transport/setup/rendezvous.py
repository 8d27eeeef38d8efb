"""Connections while they come together: dialled by this party, or accepted and judged."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from ...errors import (
    CertificateRejected,
    ConfigError,
    ConnectTimeout,
    Error,
    HandshakeMismatch,
    PeerClosed,
    TransportError,
)
from ..channel import Abort
from ..limits import Limits
from ..root_cause import blame
from ..shaping import Network, Wire
from ..wire.socket_channel import SocketChannel
from ..wire.tcp import Listener, TcpStream, dial
from ..wire.tls import Credentials
from .admission import Doorway
from .handshake import Hello, Verdict, greet, introduce
from .pairing import Seats
from .refusals import Refusals

_ATTEMPT_SECONDS = 3.0  # until a host that does not answer is asked anew
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_GREETING_SECONDS = 10.0  # a handshake is four round trips, some of them lost
_SLICE = 0.1
_END_SECONDS = 1.0


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
        self._hello, self._addresses = hello, addresses
        self._limits, self._network = limits, network
        self._until = time.monotonic() + limits.connect_deadline
        self._changed = threading.Condition()
        self._done = threading.Event()
        self._failure: Error | None = None
        self._seats = Seats(self._channel)
        self._causes: dict[int, str] = {}  # why a peer was not reached, at the last attempt
        self._refused = Refusals(hello.rank)
        self._doorway = Doorway(credentials)
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
            for channel in tuple(self._seats.channels.values()):
                channel.say(word)
            self._end_threads(listener)
            self._seats.clear()
            raise
        self._end_threads(listener)
        return [channel for _, channel in sorted(self._seats.channels.items())]

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
        for peer, channel in tuple(self._seats.channels.items()):
            ended = channel.outgoing.ended()
            word = channel.last_word()
            if isinstance(word, Abort):
                raise word.error(peer)
            if ended and word is None:
                raise PeerClosed(f"party {peer} went away while others connect", party=peer)

    def _end_threads(self, listener: Listener) -> None:
        self._done.set()
        listener.cut()
        self._doorway.clear()
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
        return ConnectTimeout(
            f"party {peer} ({host}:{port}) is not connected to party {self._hello.rank} after "
            f"{self._limits.connect_deadline} s: {cause}{self._refused}",
            party=peer,
        )

    def _all_here(self) -> bool:
        return len(self._seats.channels) == self._hello.parties - 1

    def _is_here(self, peer: int) -> bool:
        return peer == self._hello.rank or peer in self._seats.channels

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
            while not self._over() and not self._dial_once(peer, outgoing):
                jitter = secrets.randbelow(1000) / 1000
                self._done.wait(pause * (0.5 + jitter))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _over(self) -> bool:
        return self._done.is_set() or self._failure is not None

    def _dial_once(self, peer: int, outgoing: bool) -> bool:
        """Whether this attempt settles the matter, for good or for bad."""
        try:
            sock = dial(self._addresses[peer], min(_ATTEMPT_SECONDS, self._remaining()))
            stream = self._doorway.enter(sock, server=False)
            until = min(self._until, time.monotonic() + _GREETING_SECONDS)
            with self._doorway.shaking_hands(stream, until=until):
                self._doorway.require(stream, peer)
                introduce(stream, self._hello, peer, outgoing=outgoing, until=until)
                self._add(peer, outgoing, stream)
        except CertificateRejected as error:
            host, port = self._addresses[peer]
            self._fail(CertificateRejected(f"party {peer} ({host}:{port}): {error}"), peer)
        except (ConfigError, HandshakeMismatch) as error:
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
                self._start(self._greet, self._doorway.enter(sock, server=True), origin)
            except TransportError as error:
                self._refused.add(origin, error)

    def _greet(self, stream: TcpStream, origin: str) -> None:
        until = min(self._until, time.monotonic() + _GREETING_SECONDS)
        try:
            with self._doorway.shaking_hands(stream, until=until), self._seats.claims_of(stream):
                proved = self._doorway.proved(stream)
                judge = partial(self._judge, stream)
                peer, outgoing = greet(stream, self._hello, judge, proved=proved, until=until)
                self._add(peer, outgoing, stream)
        except HandshakeMismatch as error:
            self._fail(error, error.party)
        except TransportError as error:
            if not self._done.is_set():  # then it was this party that left
                self._refused.add(origin, error)

    def _judge(self, stream: TcpStream, theirs: Hello, outgoing: bool) -> Verdict:
        if theirs.rank <= self._hello.rank:
            return Verdict.RANK
        is_free = self._seats.claim(theirs.rank, outgoing, stream)
        return Verdict.WELCOME if is_free else Verdict.TAKEN

    def _add(self, peer: int, outgoing: bool, stream: TcpStream) -> None:
        self._doorway.leave(stream)
        with self._changed:
            self._seats.take(peer, outgoing, stream)
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
