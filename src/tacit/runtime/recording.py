"""The work of all parties on one GPU as one graph, which is started without any of their code.

NOTE [fresh masks]: a recorded kernel draws its masks from the key that lies in a fixed place and
with the operation's number of the recording. Before each repetition every key in that place is made
anew, from the stream of the group's key at an operation number that is used for nothing else. So no
mask is ever made twice, and the holders of a key still make the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ..errors import ConfigError
from ..fixedpoint import Value
from ..fixedpoint.forms import form, normal, rebuilt, tensors
from ..tensor import SecretTensor
from ..tensor.cell import Cell
from ..tensor.trace import Trace, is_upload

if TYPE_CHECKING:
    from .session import Session

SECRET = object()
LEADER = 0  # the party on whose stream the graph is recorded and started


class Room:
    """Fixed memory for tensors of these forms, in one piece of each dtype."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        self._cuts: list[tuple[torch.dtype, int, torch.Size]] = []
        sizes: dict[torch.dtype, int] = {}
        for tensor in like:
            start = sizes.get(tensor.dtype, 0)
            self._cuts.append((tensor.dtype, start, tensor.shape))
            sizes[tensor.dtype] = start + -(-tensor.numel() // 16) * 16
        device = like[0].device if like else None
        self._flat = {
            dtype: torch.empty(size, dtype=dtype, device=device) for dtype, size in sizes.items()
        }
        self.tensors = self._cut(self._flat)
        self.put(like)

    def put(self, new: Sequence[Tensor]) -> None:
        """Copies tensors to their places."""
        for place, tensor in zip(self.tensors, new, strict=True):
            place.copy_(tensor)

    def copies(self) -> list[Tensor]:
        """What lies here now, in memory of its own."""
        return self._cut({dtype: flat.clone() for dtype, flat in self._flat.items()})

    def _cut(self, flat: dict[torch.dtype, Tensor]) -> list[Tensor]:
        return [
            flat[dtype][start : start + shape.numel()].view(shape)
            for dtype, start, shape in self._cuts
        ]


class Values:
    """Values of fixed form in a room of their own."""

    def __init__(self, session: Session, values: Sequence[Value]) -> None:
        self._numbers, self._like = session.numbers, list(values)
        self.forms = [form(value) for value in values]
        self.room = Room([part for value in values for part in tensors(value)])

    def put(self, values: Sequence[Value]) -> None:
        self.room.put([part for value in values for part in tensors(value)])

    def fixed(self) -> list[Value]:
        """The values that lie here, and change when others are put."""
        return self._made(self.room.tensors)

    def copies(self) -> list[Value]:
        return self._made(self.room.copies())

    def _made(self, parts: Sequence[Tensor]) -> list[Value]:
        taken = iter(parts)
        return [
            rebuilt(self._numbers, value, [next(taken) for _ in tensors(value)])
            for value in self._like
        ]


class Structure(NamedTuple):
    """Arguments or results: the secret ones apart from the rest."""

    secrets: list[Value]
    others: list[Any]  # SECRET in the place of a secret
    spec: TreeSpec

    @classmethod
    def of(cls, things: Any) -> Structure:
        leaves, spec = tree_flatten(things)
        others = [SECRET if isinstance(x, SecretTensor) else x for x in leaves]
        return cls([x.value for x in leaves if isinstance(x, SecretTensor)], others, spec)

    def with_secrets(self, session: Session, values: Sequence[Value]) -> Any:
        new = iter(values)
        leaves = [
            SecretTensor(next(new), session.numbers) if x is SECRET else x for x in self.others
        ]
        return tree_unflatten(leaves, self.spec)

    def is_like(self, other: Structure) -> bool:
        """Whether the secrets have the same forms, and the rest is equal."""
        return (
            self.spec == other.spec
            and all(map(_equal, self.others, other.others))
            and [form(value) for value in self.secrets] == [form(value) for value in other.secrets]
        )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a is b or (a.dtype == b.dtype and a.device == b.device and torch.equal(a, b))
    return a is b or bool(type(a) is type(b) and a == b)


class Capture(Trace):
    """Watches a thread while a graph is recorded.

    What is copied from the host is copied at once, on a stream beside; that, and whatever was there
    before, is kept as long as the graph.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.held: dict[int, Any] = {}
        self._beside = torch.cuda.Stream(device)

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        if is_upload(func, args, kwargs):
            with torch.cuda.stream(self._beside):
                made = func(*args, **kwargs)
            self._beside.synchronize()
            self._hold(made)
            return made
        for x in found:
            if x.is_cuda and not self.is_new(x):
                self._hold(x)
        return func(*args, **kwargs)

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.held[storage._cdata] = storage


class Recording:
    """A function's work on arguments of one form, and how it is done again."""

    def __init__(
        self, session: Session, function: Callable[..., Any], given: Structure, state: list[Cell]
    ) -> None:
        """Records: all parties come here at once. `state`: the cells that the function writes."""
        self._session = session
        self._given = given
        self._inputs = Values(session, given.secrets)
        self._state = state
        self._values = Values(session, self._now())
        self._source = session.protocol.context.source
        self._keys = self._source.blank_keys()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._capture = Capture(session.device)
        self._held: list[Any] = []
        before = session.stats.snapshot()
        self._record(function)
        self._cost = session.stats.take_back(before)
        self._check_state()

    def _record(self, function: Callable[..., Any]) -> None:
        session, stream = self._session, torch.cuda.current_stream()
        torch.cuda.synchronize()
        session.meet(None)
        if session.rank == LEADER:
            self._graph = torch.cuda.CUDAGraph()
            self._graph.capture_begin(capture_error_mode="relaxed")
        try:
            session.meet(event())[LEADER].wait(stream)
            for cell, value in zip(self._state, self._values.fixed(), strict=True):
                cell.set(value)
            self._results = self._work(function)
            others = session.meet(event())
            if self._graph is not None:
                for other in others:
                    other.wait(stream)
        except BaseException:
            self._give_up()
            raise
        if self._graph is not None:
            self._graph.capture_end()
        session.meet(None)

    def _give_up(self) -> None:
        """Ends a recording that failed; the streams that were part of it can be used again."""
        if self._graph is not None:
            with suppress(RuntimeError):  # there is work that was not joined
                self._graph.capture_end()

    def _work(self, function: Callable[..., Any]) -> Structure:
        """The function's results, in a room; what it writes is put where it was read."""
        session, memo = self._session, self._session.protocol.context.memo
        memo.holder = self._held
        try:
            with self._source.under(self._keys), self._capture.on(session.numbers):
                args, kwargs = self._given.with_secrets(session, self._inputs.fixed())
                made = Structure.of(function(*args, **kwargs))
                compute(made.secrets)
                new = self._now()
        finally:
            memo.holder = None
        self._outputs = Values(session, made.secrets)
        for other in session.meet(event()):  # who may still read a message that is part of a value
            other.wait(torch.cuda.current_stream())
        self._values.put(new)
        self._handed = [cell.value for cell in self._state]  # what is in the room when it has run
        self._is_steady = [form(value) for value in new] == self._values.forms
        return made

    def _now(self) -> list[Value]:
        """The values of what the function writes."""
        return normal(self._session.numbers, [cell.value for cell in self._state])

    def _check_state(self) -> None:
        """What was written must be what was foreseen, and of the same form as before."""
        found = {id(cell) for cell in self._capture.written()} - {id(c) for c in self._state}
        if found or self._capture.obstacle or not self._is_steady:
            raise ConfigError(
                "repeated: the function did not do the same as the time before "
                f"({self._capture.obstacle or 'other tensors, or of another form, were written'}): "
                "call it as it is"
            )

    def fits(self, given: Structure) -> bool:
        """Whether the recording does what the function would do with these arguments."""
        return given.is_like(self._given) and self._same()

    def _same(self) -> bool:
        """Whether what was only read is as it was."""
        written = {id(cell) for cell in self._state}
        return all(
            cell.version == version
            for cell, version in self._capture.cells.values()
            if id(cell) not in written
        )

    def play(self, given: Structure) -> Any:
        """The function's results for these arguments."""
        session, stream = self._session, torch.cuda.current_stream()
        self._inputs.put(given.secrets)
        if [id(cell.value) for cell in self._state] != [id(value) for value in self._handed]:
            self._values.put(self._now())
        self._source.renew(self._keys, session.protocol.context.new_number())
        befores = session.meet(event())
        if self._graph is not None:
            for before in befores:
                before.wait(stream)
            self._graph.replay()
        session.meet(event())[LEADER].wait(stream)
        self._handed = self._values.copies() if self._state else []
        for cell, value in zip(self._state, self._handed, strict=True):
            cell.set(value)
        session.stats.accumulate(self._cost)
        return self._results.with_secrets(session, self._outputs.copies())


def compute(values: Sequence[Value]) -> None:
    """Computes what nobody has read yet."""
    for value in values:
        form(value)


def event() -> torch.cuda.Event:
    """The moment when all that this thread has queued is done."""
    made = torch.cuda.Event()
    made.record()
    return made
