"""The enclave's links to its workers and to a second enclave; failures name who is at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor

from ...errors import CheatingDetected, Error, ProtocolError, TransportError, WorkerFailed, rendered
from ...transport import Mesh, Spec
from ...transport.open_round import OpenRound
from ..messages import End, Message, Task, encode
from ..worker import WORKER


class WorkerLinks:
    """The links to some workers, by the workers' numbers."""

    def __init__(self, links: Mapping[int, Mesh]) -> None:
        self._links = dict(links)
        self._rounds: dict[int, OpenRound] = {}

    def tell(self, worker: int, message: Message) -> None:
        """Sends a message to a worker."""
        with naming_worker(worker):
            self._links[worker].exchange_bytes({WORKER: encode(message)}, [])

    def begin(self, worker: int, task: Task, operands: Sequence[Tensor]) -> None:
        """Sends a task and its operands to a worker, and returns without waiting."""
        self.tell(worker, task)
        send, receive = ({WORKER: operands} if operands else {}), {WORKER: [task.result]}
        with naming_worker(worker):
            opened = self._links[worker].begin(send, receive, operation=task.number)
        self._rounds[worker] = opened

    def answers(self) -> dict[int, Tensor]:
        """Waits for the answers to all tasks that were begun, and returns them by worker."""
        rounds, self._rounds = self._rounds, {}
        found = {}
        for worker, opened in rounds.items():
            with naming_worker(worker):
                [found[worker]] = self._links[worker].finish(opened)[WORKER]
        return found

    def abort(self, error: BaseException) -> None:
        """Ends all workers because of an error; they learn only its class."""
        for link in self._links.values():
            link.abort(error)

    def close(self) -> None:
        """Tells all workers that no task follows, and closes the links."""
        for worker, link in self._links.items():
            if link.is_open:
                self.tell(worker, End())
                with naming_worker(worker):
                    link.close()


class PeerLink:
    """The link to the other enclave, which runs the same program; rank 0 has workers 0 and 2."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self.rank, self._other = mesh.rank, 1 - mesh.rank

    def first_says(self, data: bytes) -> bytes:
        """Returns the bytes of enclave 0 at both enclaves."""
        with _naming("the other enclave"):
            if self.rank == 0:
                self._mesh.exchange_bytes({self._other: data}, [])
                return data
            return self._mesh.exchange_bytes({}, [self._other])[self._other]

    def both(self, data: bytes) -> bytes:
        """Sends bytes to the other enclave and returns those that it sends."""
        with _naming("the other enclave"):
            return self._mesh.exchange_bytes({self._other: data}, [self._other])[self._other]

    def total(self, part: Tensor) -> Tensor:
        """Returns the sum of a tensor of this enclave and one of the other."""
        spec = Spec(tuple(part.shape), part.dtype)
        with _naming("the other enclave"):
            [other] = self._mesh.exchange({self._other: [part]}, {self._other: [spec]})[self._other]
        return part + other

    def abort(self, error: BaseException) -> None:
        """Ends the other enclave because of an error; it learns only its class."""
        self._mesh.abort(error)

    def close(self) -> None:
        """Closes the link."""
        self._mesh.close()


@contextmanager
def _naming(who: str) -> Iterator[None]:
    """Raises errors of a link as WorkerFailed: its two members have no rank in the session."""
    try:
        yield
    except (TransportError, ProtocolError) as error:
        cause: Error = error
        raise WorkerFailed(
            f"{who} does not answer",
            subject=who,
            cause=f"{error.kind}: {rendered(cause.reason, ('the enclave', who))}",
            remedy="see why it ended or is late, and start the run again",
        ) from error


@contextmanager
def naming_worker(worker: int) -> Iterator[None]:
    """Raises errors of the link to a worker as WorkerFailed, with its number."""
    try:
        with _naming(f"worker {worker}"):
            yield
    except WorkerFailed as error:
        error.workers = (worker,)
        raise


def wrong_answer(workers: Sequence[int], op: str) -> CheatingDetected:
    """Returns the error that names the workers whose answers are wrong."""
    who = " and ".join(f"worker {worker}" for worker in workers)
    error = CheatingDetected(
        f"{who} answered with a wrong product",
        subject=who,
        op=op,
        remedy="do not use this worker again; no result of the product was used",
    )
    error.workers = tuple(workers)
    return error
