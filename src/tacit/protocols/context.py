"""What all operations of a party have in common, in any role: channels, keys, ring, limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..errors import ROUND_BITS
from ..ring import Ring
from ..transport import CPU, Mesh
from .loops import Loops
from .products.executor import ProductExecutor
from .public_operands import CallRecord
from .randomness import CallRandomness, KeyStreams, Stream
from .reveals import RevealPolicy, call_site, party_names
from .share import Arith, Bool, Plain
from .steps import Group, Received, Round


class Turns(Protocol):
    """Threads of a party that take turns; see `lanes.py`."""

    def pass_on(self) -> None:
        """Lets the next thread run; returns when it is this one's turn again."""

    def end(self) -> None:
        """Ends all threads but the one that calls."""


class Recorder(Protocol):
    """Records what calls do, so that they can be replayed: see `runtime/replay/plan.py`."""

    def exchange(self, one: Round, operation: int) -> Received:
        """Exchanges a round, as `Mesh.exchange` does, and records it."""

    def note(self, function: Callable[[Tensor], None], x: Tensor) -> None:
        """Calls a function that changes the state of a protocol, and records it."""

    def note_reveal(self, admit: Callable[[int], None], number: int) -> None:
        """Calls a function of the number of the call, which admits a reveal, and records it."""


@runtime_checkable
class CheckingRecorder(Recorder, Protocol):
    """A recorder of calls that verify before they open."""

    def compute(self, function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> Tensor:
        """Calls a function of tensors alone, and records it."""

    def tell(self, function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> Tensor:
        """Calls a function of tensors and of the state of a protocol, and records it."""

    def check(self, function: Callable[..., None], number: int, tensors: Sequence[Tensor]) -> None:
        """Calls a function of the number of the call and of tensors, which may raise."""


class CallWatcher(Protocol):
    """Is told which operations on secrets run, and where in the program."""

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a call of an operation that does the same, and notes when it begins and ends."""


class CallState(NamedTuple):
    """What a context holds for the thread that runs, and keeps for it while another one does."""

    randomness: CallRandomness | None = None
    in_recorded_call: bool = False
    group: Group | None = None
    lanes: Turns | None = None


class Context:
    """One party's connection to the others, its keys, and what limits its operations.

    streams: the keys, and the count of calls. randomness: that of the call that is running. group:
    the parallel block that collects calls, if any. record: of everything public that was done.
    in_recorded_call: an operation of torch or of the protocol is running that is in the record.
    What it calls in turn follows from its operands, and is not recorded.
    blind: nothing is opened, and what is revealed is zero: while a run is preprocessed.
    lanes: the calls in flight of which one is running, if any; each round lets the next one run.
    parked: all lanes that have not ended.
    recorder: records everything that calls do, if any. watcher: of operations of torch, if any.
    loops: are told of loops that take long.
    """

    randomness: CallRandomness

    def __init__(
        self,
        mesh: Mesh,
        keys: KeyRing,
        ring: Ring,
        *,
        cipher: str = "aes128-ctr",
        product_device: torch.device | None = None,
        memory_limit: int | None = None,
        reveal_policy: RevealPolicy | None = None,
    ) -> None:
        self.mesh, self.ring = mesh, ring
        self.record = mesh.record = CallRecord(mesh.compare)
        mesh.compares_ends = True
        self.in_recorded_call = self.blind = False
        self.rank, self.device = mesh.rank, mesh.device
        self.streams = KeyStreams(keys, cipher, mesh.device)
        self.product_device = product_device
        self.memory_limit = memory_limit
        self.reveal_policy = reveal_policy or RevealPolicy(party_names(mesh.parties))
        self.group: Group | None = None
        self.lanes: Turns | None = None
        self.parked: set[Turns] = set()
        self.recorder: Recorder | None = None
        self.watcher: CallWatcher | None = None
        self.loops = Loops()
        offload = None if product_device == mesh.device else product_device
        self.products = ProductExecutor(
            mesh.device,
            memory_limit=memory_limit,
            offload=offload,
            in_tiles=mesh.sends_in_background and mesh.device == CPU and offload is None,
            members=mesh.parties if mesh.shares_memory else 1,
        )

    def show(self, x: Tensor, to: Callable[[Tensor], None]) -> None:
        """Gives a tensor to a function outside of torch and the kernels, now and in replays."""
        if self.recorder is None:
            to(x)
        else:
            self.recorder.note(to, x)

    def compute(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Returns what a function outside of torch makes of tensors, now and in replays."""
        recorder = self._checking_recorder()
        return recorder.compute(function, tensors) if recorder else function(*tensors)

    def tell(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """As `compute`, of a function that reads the state of a protocol."""
        recorder = self._checking_recorder()
        return recorder.tell(function, tensors) if recorder else function(*tensors)

    def check(self, function: Callable[..., None], *tensors: Tensor) -> None:
        """Gives tensors, and the number of the call, to a function that may raise, and in replays.

        Later rounds of the call wait for it, and whatever uses the tensors.
        """
        recorder, number = self._checking_recorder(), self.randomness.number
        if recorder:
            recorder.check(function, number, tensors)
        else:
            function(number, *tensors)

    def _checking_recorder(self) -> CheckingRecorder | None:
        """Returns the recorder, if any; others find before they record that a call verifies."""
        assert self.recorder is None or isinstance(self.recorder, CheckingRecorder)
        return self.recorder

    @property
    def state(self) -> CallState:
        """What belongs to the thread that runs; set again when that thread goes on."""
        randomness = getattr(self, "randomness", None)
        return CallState(randomness, self.in_recorded_call, self.group, self.lanes)

    @state.setter
    def state(self, state: CallState) -> None:
        if state.randomness is not None:
            self.randomness = state.randomness
        self.in_recorded_call, self.group, self.lanes = state[1:]

    @property
    def operation(self) -> int:
        """The operation, as messages carry it, of the call that began last."""
        return self.streams.number << ROUND_BITS

    def admit_reveal(
        self,
        x: Arith | Bool | Plain,
        to: int | None,
        dtype: torch.dtype | None,
        *,
        to_dealer: bool = False,
    ) -> None:
        """Records a reveal of x to a party, or to all, or raises RevealForbidden."""
        number, shape, name = self.randomness.number, x.shape, self._dtype_name(x, dtype)
        where = call_site()
        is_coin, privacy = isinstance(x, Bool) and x.is_coin, x.privacy

        def admit(number: int) -> None:
            self.reveal_policy.admit(
                number << ROUND_BITS,
                shape,
                name,
                to,
                to_dealer=to_dealer,
                is_coin=is_coin,
                where=where,
                privacy=privacy,
            )

        if self.recorder is None:
            admit(number)
        else:
            self.recorder.note_reveal(admit, number)

    def admit_client_reveal(self, x: Arith) -> None:
        """Records a reveal of x to a client outside, or raises RevealForbidden."""
        operation = self.randomness.number << ROUND_BITS
        self.reveal_policy.admit_client(operation, x.shape, self._dtype_name(x, None))

    def _dtype_name(self, x: Arith | Bool | Plain, dtype: torch.dtype | None) -> str:
        default = torch.bool if isinstance(x, Bool) and x.width == 1 else self.ring.dtype
        return str(dtype or default).removeprefix("torch.")

    def draw(self, source: Stream, shape: Sequence[int]) -> Tensor:
        """Returns ring elements that exactly the holders of a stream know."""
        return self.randomness.draw(source, shape, self.ring.dtype)

    def draw_planes(self, source: Stream, shape: Sequence[int]) -> Tensor:
        """Returns planes of bits that exactly the holders of a stream know."""
        return self.randomness.draw(source, shape, torch.int64)
