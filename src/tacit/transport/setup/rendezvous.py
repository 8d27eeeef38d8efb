"""How a party gets a channel to every other party: it dials lower ranks and accepts higher ones."""

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
    Party,
    PeerClosed,
    TransportError,
)
from ..channel import Abort
from ..limits import Clock, Limits
from ..root_cause import blame
from ..shaping import Network, Wire
from ..wire.socket_channel import SocketChannel
from ..wire.stripes import common_stripes
from ..wire.tcp import Arrivals, Dial, TcpStream
from ..wire.tls import Credentials
from .admission import Admission, Refusals
from .handshake import Hello, Place, Verdict, greet, introduce
from .pairing import ConnectionPairs

_ATTEMPT_SECONDS = 3.0  # until a host that does not answer is dialled again
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_HANDSHAKE_SECONDS = 10.0  # a handshake is four round trips, some of them lost
_DIALLED_AT_ONCE = 4  # stripes of a peer: each takes three round trips
_SLICE = 0.1
_END_SECONDS = 1.0


class Rendezvous:
    """The connections of one party until all channels are complete."""

    def __init__(
        self,
        hello: Hello,
        addresses: Sequence[tuple[str, int]],
        credentials: Credentials | None,
        limits: Limits,
        network: Network,
        clock: Clock,
        dial: Dial,
        stripes: int = 1,
    ) -> None:
        self._reach, self._stripes = dial, stripes
        self._hello, self._addresses = hello, addresses
        self._limits, self._network, self._clock = limits, network, clock
        self._until = clock.now() + limits.connect_deadline
        self._changed = threading.Condition()
        self._done = threading.Event()
        self._failure: Error | None = None
        self._pairs = ConnectionPairs(self._channel)
        self._causes: dict[int, str] = {}  # why the last attempt to dial a peer failed
        self._refused = Refusals(hello.rank)
        self._admission = Admission(credentials)
        self._threads: list[threading.Thread] = []

    def connect(self, listener: Arrivals) -> list[SocketChannel]:
        """Returns a channel to every peer, by rank; an error names a missing peer and the cause."""
        self._start(self._accept, listener)
        for peer in range(self._hello.rank):
            self._start(self._dial, peer)
        try:
            self._await_all()
        except BaseException as error:
            word = blame(error, self._hello.rank, 0)
            for channel in tuple(self._pairs.channels.values()):
                channel.say(word)
            self._end_threads(listener)
            self._pairs.close()
            raise
        self._end_threads(listener)
        return [channel for _, channel in sorted(self._pairs.channels.items())]

    def _await_all(self) -> None:
        while not self._is_complete():
            with self._changed:
                self._changed.wait_for(lambda: self._failure or self._is_complete(), _SLICE)
            if self._failure is not None:
                raise self._failure
            if self._clock.now() > self._until:
                raise self._timeout()
            self._check_connected_peers()

    def _check_connected_peers(self) -> None:
        """A party that fails while others still connect ends the rendezvous of all."""
        for peer, channel in tuple(self._pairs.channels.items()):
            ended = channel.outgoing.ended()
            word = channel.last_word()
            if isinstance(word, Abort):
                raise word.error(peer)
            if ended and word is None:
                raise PeerClosed(Party(peer) + " went away while others connect", party=peer)

    def _end_threads(self, listener: Arrivals) -> None:
        self._done.set()
        listener.cut()
        self._admission.close()
        until = time.monotonic() + _END_SECONDS  # a thread may hang in a dead name server
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            for thread in alive:
                thread.join(max(until - time.monotonic(), 0.0))
            if time.monotonic() > until:
                break

    def _timeout(self) -> ConnectTimeout:
        missing = [p for p in range(self._hello.parties) if not self._is_connected(p)]
        peer = missing[0]
        cause = self._causes.get(peer, "it did not come")
        return ConnectTimeout(
            self._at_address(peer)
            + " is not connected to "
            + Party(self._hello.rank)
            + f" after {self._limits.connect_deadline} s",
            cause=f"{cause}{self._refused}",
            party=peer,
        )

    def _at_address(self, peer: int) -> Party:
        host, port = self._addresses[peer]
        return Party(peer, note=f"{host}:{port}")

    def _is_complete(self) -> bool:
        return len(self._pairs.channels) == self._hello.parties - 1

    def _is_connected(self, peer: int) -> bool:
        return peer == self._hello.rank or peer in self._pairs.channels

    def _start(self, target: Callable[..., None], *args: object) -> None:
        name = f"tacit-connect-{self._hello.rank}"
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        with self._changed:
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
            thread.start()

    def _dial(self, peer: int) -> None:
        """Makes all connections to a party of lower rank: the main ones, and then the stripes."""
        self._dial_places(peer, [0])
        stripes = range(1, self._pairs.num_stripes(peer) + 1)
        for first in range(_DIALLED_AT_ONCE):
            self._start(self._dial_places, peer, stripes[first::_DIALLED_AT_ONCE])

    def _dial_places(self, peer: int, stripes: Sequence[int]) -> None:
        for stripe in stripes:
            for outgoing in (True, False):
                self._dial_until_connected(peer, Place(outgoing, stripe))

    def _dial_until_connected(self, peer: int, place: Place) -> None:
        pause = _FIRST_PAUSE
        while not self._is_over() and not self._dial_once(peer, place):
            jitter = secrets.randbelow(1000) / 1000
            self._done.wait(pause * (0.5 + jitter))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _is_over(self) -> bool:
        return self._done.is_set() or self._failure is not None

    def _dial_once(self, peer: int, place: Place) -> bool:
        """Makes one attempt; returns whether no other one is needed."""
        try:
            sock = self._reach(self._addresses[peer], min(_ATTEMPT_SECONDS, self._remaining()))
            stream = self._admission.enter(sock, server=False)
            seconds = min(self._remaining(), _HANDSHAKE_SECONDS)
            until = time.monotonic() + seconds
            with self._admission.handshake(stream, seconds=seconds):
                self._admission.require(stream, peer)
                offered = introduce(
                    stream, self._hello, peer, place, stripes=self._stripes, until=until
                )
                self._add(peer, place, stream, offered)
        except CertificateRejected as error:
            self._fail(error.about(self._at_address(peer)), peer)
        except (ConfigError, HandshakeMismatch) as error:
            self._fail(error, peer)
        except TransportError as error:
            self._causes[peer] = str(error)
            return False
        return True

    def _accept(self, listener: Arrivals) -> None:
        while not self._done.is_set():
            arrival = listener.accept(_SLICE)
            if arrival is None:
                continue
            sock, origin = arrival
            try:
                self._start(self._greet, self._admission.enter(sock, server=True), origin)
            except TransportError as error:
                self._refused.add(origin, error)

    def _greet(self, stream: TcpStream, origin: str) -> None:
        seconds = min(self._remaining(), _HANDSHAKE_SECONDS)
        until = time.monotonic() + seconds
        try:
            with (
                self._admission.handshake(stream, seconds=seconds),
                self._pairs.releasing_claims(stream),
            ):
                proved = self._admission.ranks_of(stream)
                judge = partial(self._judge, stream)
                peer, place, offered = greet(
                    stream,
                    self._hello,
                    judge,
                    stripes=self._stripes,
                    proved=proved,
                    until=until,
                )
                self._add(peer, place, stream, offered)
        except HandshakeMismatch as error:
            self._fail(error, error.party)
        except TransportError as error:
            if not self._done.is_set():  # otherwise this party has closed it
                self._refused.add(origin, error)

    def _judge(self, stream: TcpStream, theirs: Hello, place: Place, offered: int) -> Verdict:
        if theirs.rank <= self._hello.rank:
            return Verdict.RANK
        if place.stripe > common_stripes(self._stripes, offered):
            return Verdict.STRIPE
        is_free = self._pairs.claim(theirs.rank, place, stream)
        return Verdict.WELCOME if is_free else Verdict.TAKEN

    def _add(self, peer: int, place: Place, stream: TcpStream, offered: int) -> None:
        self._admission.leave(stream)
        with self._changed:
            self._pairs.add(peer, place, stream, common_stripes(self._stripes, offered))
            self._changed.notify_all()

    def _channel(
        self, peer: int, outgoing: Sequence[TcpStream], incoming: Sequence[TcpStream]
    ) -> SocketChannel:
        rank = self._hello.rank
        return SocketChannel(
            outgoing[0],
            incoming[0],
            stripes=(outgoing[1:], incoming[1:]),
            party=rank,
            peer=peer,
            session=self._hello.session,
            limits=self._limits,
            wire=Wire(self._network.between(rank, peer)),
            clock=self._clock,
        )

    def _fail(self, error: Error, peer: int | None) -> None:
        error.party = peer
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _remaining(self) -> float:
        return max(self._until - self._clock.now(), 1e-3)
