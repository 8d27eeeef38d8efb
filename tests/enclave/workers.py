"""Workers as threads of a test, honest or not, and enclaves with links to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.transport.parties import connected
from torch import Tensor

from tacit.enclave import worker
from tacit.enclave.trusted.masking import MODES
from tacit.enclave.trusted.outsourcing import Outsourcer
from tacit.testing.channels import in_threads
from tacit.transport import Limits, Mesh

KEY = bytes(range(32))
LIMITS = Limits(deadline=30.0, patience=60.0)
OUTSOURCED = ["three-server", "two-server", "one-worker"]
Serve = Callable[[Mesh], None]


class Crew:
    """Workers in threads; `errors` has what they raised, by worker."""

    def __init__(self, kind: str = "memory", limits: Limits = LIMITS) -> None:
        self.errors: dict[int, BaseException] = {}
        self._kind, self._limits = kind, limits
        self._links: list[Mesh] = []
        self._threads: list[threading.Thread] = []

    def link(self, number: int, serve: Serve = worker.serve) -> Mesh:
        """Starts a worker and returns the enclave's end of the link to it."""
        enclave, other = connected(self._kind, 2, limits=self._limits)

        def run() -> None:
            try:
                serve(other)
            except BaseException as error:
                self.errors[number] = error

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._links.append(enclave)
        self._threads[-1].start()
        return enclave

    def end(self) -> None:
        """Ends all workers that have not ended, and waits for them."""
        for link in self._links:
            link.abort("the test has ended")
        for thread in self._threads:
            thread.join(30.0)
            assert not thread.is_alive()


@contextmanager
def outsourcer(
    mode: str,
    *,
    serve: Mapping[int, Serve] | None = None,
    crew: Crew | None = None,
    **settings: Any,
) -> Iterator[Outsourcer]:
    """An outsourcer of one enclave with workers in threads; all of them end with the block.

    `serve`: what some workers do instead of `worker.serve`.
    """
    crew, serve = crew or Crew(), serve or {}
    links = [crew.link(i, serve.get(i, worker.serve)) for i in range(len(MODES[mode]))]
    made = Outsourcer(links, mode, **{"key": KEY, **settings})
    try:
        yield made
        made.close()
    finally:
        crew.end()


def two_enclaves(
    mode: str,
    program: Callable[[Outsourcer], Any],
    *,
    serve: Mapping[int, Serve] | None = None,
    **settings: Any,
) -> list[Any]:
    """Returns what a program returns at each of two enclaves, or the exception that it raises."""
    crew, serve = Crew(), serve or {}
    peers = connected("memory", 2, limits=LIMITS)
    workers = range(len(MODES[mode]))

    def enclave(peer: Mesh) -> Any:
        own = [i for i in workers if i % 2 == peer.rank]
        links = [crew.link(i, serve.get(i, worker.serve)) for i in own]
        made = Outsourcer(links, mode, **{"key": KEY, "peer": peer, **settings})
        found = program(made)
        made.close()
        return found

    try:
        return in_threads([partial(enclave, peer) for peer in peers])
    finally:
        crew.end()


def changing(change: Callable[[Tensor], Tensor]) -> Serve:
    """Returns a worker that changes its answers."""

    def serve(mesh: Mesh) -> None:
        change_answers(mesh, change)
        worker.serve(mesh)

    return serve


def change_answers(mesh: Mesh, change: Callable[[Tensor], Tensor]) -> None:
    """Makes a worker change its answers before it sends them."""
    exchange = mesh.exchange

    def changed(send: Any, receive: Any, **options: Any) -> Any:
        send = {peer: [change(answer)] for peer, [answer] in send.items()}
        return exchange(send, receive, **options)

    mesh.exchange = changed  # type: ignore[method-assign]


def recording(seen: list[Tensor], honest: Serve = worker.serve) -> Serve:
    """Returns a worker that keeps copies of the operands that it receives."""

    def serve(mesh: Mesh) -> None:
        exchange = mesh.exchange

        def recorded(send: Any, receive: Any, **options: Any) -> Any:
            received = exchange(send, receive, **options)
            seen.extend(x.clone() for tensors in received.values() for x in tensors)
            return received

        mesh.exchange = recorded  # type: ignore[method-assign]
        honest(mesh)

    return serve
