"""`crypten.communicator`: who this party is, plain tensors to the others, and what was sent.

What is sent here is not secret to its receivers.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError, FrameRejected, Party
from ...transport import Spec
from . import initialization
from .initialization import is_initialized, uninit
from .objects import LIMIT, LONGEST_OBJECT, packed, unpacked

__all__ = ["Communicator", "get", "is_initialized", "uninit"]

# Messages between two parties are numbered apart from those of all, which count together.
BETWEEN_TWO = 1 << 48


class Request:
    """What is still to be received, if anything."""

    def __init__(self, receive: Callable[[], Any] | None = None) -> None:
        self._receive = receive

    def wait(self) -> None:
        """Returns when it has arrived."""
        if self._receive is not None:
            self._receive()
            self._receive = None


class Communicator:
    """The channels of this party. All parties call the collective functions in the same order."""

    def __init__(self) -> None:
        self._session = initialization.current_session()
        self._mesh = self._session.mesh
        self._start = self._mesh.stats.snapshot()
        self._counts: dict[tuple[int, int], int] = {}
        self._name = initialization.party_name()

    @staticmethod
    def is_initialized() -> bool:
        """Returns whether there is a communicator in this thread."""
        return is_initialized()

    @staticmethod
    def get() -> Communicator:
        """Returns the communicator of this thread's session."""
        return get()

    # Who ------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The rank of this party."""
        return self._session.rank

    @property
    def world_size(self) -> int:
        """The number of parties."""
        return self._session.parties

    def get_rank(self) -> int:
        """Returns the rank of this party."""
        return self.rank

    def get_world_size(self) -> int:
        """Returns the number of parties."""
        return self.world_size

    def get_name(self) -> str:
        """Returns the name of this party."""
        return self._name

    def set_name(self, name: str) -> None:
        """Names this party."""
        assert isinstance(name, str), "a name is a text"
        self._name = name

    # Collective -----------------------------------------------------------------------------------

    def barrier(self) -> None:
        """Returns when all parties have called it. One round."""
        self.all_gather(torch.zeros(0))

    def broadcast(self, input: Any, src: int, batched: bool = False) -> Any:
        """Returns the tensor of party `src`, everywhere; with `batched` a list of tensors."""
        if batched:
            return [self.broadcast(one, src) for one in input]
        [received] = self._round(input, [src], [*range(self._mesh.parties)])
        return input if self.rank == src else _written(input, received)

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Returns the tensors of all parties, which have one shape, everywhere."""
        return self._round(tensor, [*range(self.world_size)], [*range(self._mesh.parties)])

    def gather(self, tensor: Tensor, dst: int) -> list[Any]:
        """Returns the tensors of all parties at `dst`, and a list with None elsewhere."""
        found = self._round(tensor, [*range(self.world_size)], [dst])
        return found if self.rank == dst else [None]

    def all_reduce(self, input: Any, op: Any = None, batched: bool = False) -> Any:
        """Returns the sum of the tensors of all parties, or what `op` makes of them."""
        if batched:
            return [self.all_reduce(one, op) for one in input]
        return reduce(_operator(op), self.all_gather(input))

    def reduce(self, input: Any, dst: int, op: Any = None, batched: bool = False) -> Any:
        """As `all_reduce`, at party `dst`; None elsewhere."""
        if batched:
            reduced = [self.reduce(one, dst, op) for one in input]
            return reduced if self.rank == dst else None
        found = self.gather(input, dst)
        return reduce(_operator(op), found) if self.rank == dst else None

    def scatter(self, scatter_list: Sequence[Tensor], src: int, size: Any = None) -> Tensor:
        """Returns the tensor of party src's list that has this party's place in it.

        size: its shape at the others; by default that of their own lists.
        """
        self._check(src)
        if self.rank == src:
            send = {peer: [_sent(scatter_list[peer])] for peer in self._others()}
            self._mesh.exchange(send, {})
            return scatter_list[src]
        if self.rank >= self.world_size:  # a dealer gets nothing
            self._mesh.exchange({}, {})
            return torch.zeros(0)
        like = scatter_list[self.rank] if size is None else torch.zeros(size, dtype=torch.int64)
        return self._mesh.exchange({}, {src: [_spec(like)]})[src][0].clone()

    def broadcast_obj(self, obj: Any, src: int) -> Any:
        """Returns party src's object, everywhere; `objects.packed` says which it may be."""
        self._check(src)
        others = [rank for rank in range(self._mesh.parties) if rank != src]
        if self.rank == src:
            data = packed(obj)
            self._mesh.exchange_bytes(dict.fromkeys(others, data), [])
            return obj
        return unpacked(self._mesh.exchange_bytes({}, [src])[src], src)

    # Between two ----------------------------------------------------------------------------------

    def send(self, tensor: Tensor, dst: int) -> None:
        """Sends a tensor to a party, which calls `recv`."""
        self._mesh.exchange({dst: [_sent(tensor)]}, {}, operation=self._numbered(self.rank, dst))

    def recv(self, tensor: Tensor, src: int) -> Tensor:
        """Returns the tensor that a party sends, of the shape of `tensor`, which stays as it is."""
        number = self._numbered(src, self.rank)
        return self._mesh.exchange({}, {src: [_spec(tensor)]}, operation=number)[src][0].clone()

    def send_obj(self, obj: Any, dst: int) -> None:
        """Sends an object to a party, which calls `recv_obj`."""
        data = torch.frombuffer(bytearray(packed(obj)), dtype=torch.uint8)
        self.send(torch.tensor(len(data)), dst)
        self.send(data, dst)

    def recv_obj(self, src: int) -> Any:
        """Returns the object that a party sends."""
        size = int(self.recv(torch.tensor(0), src))
        if not 0 < size <= LONGEST_OBJECT:
            raise FrameRejected(
                Party(src) + f" sends an object of {size} bytes", party=src, limit=LIMIT
            )
        data = self.recv(torch.zeros(size, dtype=torch.uint8), src)
        return unpacked(data.numpy().tobytes(), src)

    # Statistics -----------------------------------------------------------------------------------

    @property
    def comm_rounds(self) -> int:
        """The rounds since the statistics were reset."""
        return self._mesh.stats.rounds - self._start.rounds

    @property
    def comm_bytes(self) -> int:
        """The bytes that this party sent since then."""
        return self._mesh.stats.bytes_sent - self._start.bytes_sent

    @property
    def comm_time(self) -> float:
        """The seconds that this party waited since then."""
        return self._mesh.stats.seconds_waiting - self._start.seconds_waiting

    def get_communication_stats(self) -> dict[str, Any]:
        """Returns rounds, bytes sent and seconds waited."""
        return {"rounds": self.comm_rounds, "bytes": self.comm_bytes, "time": self.comm_time}

    def reset_communication_stats(self) -> None:
        """Counts from here."""
        self._start = self._mesh.stats.snapshot()

    def print_communication_stats(self) -> None:
        """Prints what `get_communication_stats` returns."""
        text = ", ".join(
            f"{value:g} {name}" for name, value in self.get_communication_stats().items()
        )
        builtins.print(f"communication of party {self.rank}: {text}")

    def isend(self, tensor: Tensor, dst: int) -> Request:
        """As `send`; waiting for what it returns does nothing more."""
        self.send(tensor, dst)
        return Request()

    def irecv(self, tensor: Tensor, src: int) -> Request:
        """Returns a request: `wait` on it receives, and writes to the tensor."""
        return Request(lambda: _written(tensor, self.recv(tensor, src)))

    def set_verbosity(self, verbosity: bool) -> None:
        """Does nothing: everything is counted, whether it is printed or not."""

    # ----------------------------------------------------------------------------------------------

    def _others(self) -> list[int]:
        return [rank for rank in range(self.world_size) if rank != self.rank]

    def _check(self, rank: int) -> None:
        self._session.rank_of(rank)

    def _numbered(self, src: int, dst: int) -> int:
        """Returns the number of the next message from one party to another."""
        self._check(src)
        self._check(dst)
        count = self._counts[src, dst] = self._counts.get((src, dst), 0) + 1
        return BETWEEN_TWO + count

    def _round(self, own: Tensor, sources: list[int], to: list[int]) -> list[Any]:
        """Returns the tensor of each source at the ranks `to`, and Nones elsewhere. One round."""
        for rank in sources if len(sources) == 1 else to if len(to) == 1 else ():
            self._check(rank)
        here, sent = self.rank, _sent(own)
        send = {peer: [sent] for peer in to if peer != here} if here in sources else {}
        wanted = [peer for peer in sources if peer != here] if here in to else []
        arrived = self._mesh.exchange(send, {peer: [_spec(own)] for peer in wanted})
        if here not in to:
            return [None] * len(sources)
        return [sent if peer == here else arrived[peer][0].clone() for peer in sources]


def get() -> Communicator:
    """Returns the communicator of this thread's session."""
    return initialization.kept("communicator", Communicator)


def _written(tensor: Tensor, new: Tensor) -> Tensor:
    """Returns the tensor, which may be a parameter, with other values."""
    with torch.no_grad():
        return tensor.copy_(new)


def _sent(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().contiguous()


def _spec(tensor: Tensor) -> Spec:
    return Spec(tuple(tensor.shape), tensor.dtype)


def _operator(op: Any) -> Any:
    name = "SUM" if op is None else str(op).rpartition(".")[2].upper()
    operators = {
        "SUM": torch.add,
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
        "BXOR": torch.bitwise_xor,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
    }
    if name not in operators:
        raise ConfigError(f"op={op!r}", limit=f"allowed are {', '.join(operators)}")
    return operators[name]
