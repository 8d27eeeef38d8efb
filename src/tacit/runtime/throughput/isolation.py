"""What calls in flight must not do to each other, and what they may take from outside.

NOTE [turned roles]: a product's mask is known to the dealer alone until it is shared out. Lanes
have different dealers, so a secret that leaves its lane, or was made outside, is settled before
another lane computes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import UnsupportedError
from ...fixedpoint import Numbers, Value
from ...fixedpoint.flatten import settle
from ...protocols.lanes import Lanes

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload
    from torch.optim import Optimizer

    from ...tensor.secret import Cell, SecretTensor

NOBODY = object()


class Isolation:
    """Watches the secrets of calls in flight, as the `trace` of a session's numbers.

    It refuses to write to a secret that a call has not made itself: other calls read it, in an
    order that the program does not show. With `settles`, what comes from outside is settled.
    """

    def __init__(self, numbers: Numbers, *, settles: bool) -> None:
        self.lanes: Lanes | None = None
        self._numbers, self._settles = numbers, settles
        self._taker: Hashable = NOBODY  # the lane in which the program's iterator runs
        # Identities of cells that a call has made. One may be reused, but never for an older cell.
        self._made: dict[Hashable, set[int]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, everything that is done with secrets of the session is watched.

        In a call of another map, or of a recorded function, it is watched already.
        """
        before = self._numbers.trace
        self._numbers.trace = before or self
        try:
            yield
        finally:
            self._numbers.trace = before

    @contextmanager
    def taking_a_batch(self) -> Iterator[None]:
        """Within, the program's iterator runs: it may write. A new call begins then."""
        self._made[self._running] = set()
        self._taker = self._running
        try:
            yield
        finally:
            self._taker = NOBODY

    @property
    def _running(self) -> Hashable:
        return None if self.lanes is None else self.lanes.running

    def note_new(self, cell: Cell) -> None:
        """Notes that the call that runs has made a cell."""
        self._made[self._running].add(id(cell))

    def note_use(self, tensor: SecretTensor) -> None:
        """Settles a secret from outside, before it is read."""
        cell = tensor._cell
        if not self._settles or id(cell) in self._made[self._running]:
            return
        self.settle([cell.value])
        if tensor._take is not None and tensor._seen == cell.version:
            self.settle([tensor._value])

    def note_write(self, tensor: SecretTensor) -> None:
        """Raises UnsupportedError if the tensor is from outside."""
        own = self._running == self._taker or id(tensor._cell) in self._made[self._running]
        if not own:
            raise UnsupportedError(
                "the function that session.map calls writes to a secret from outside of the call",
                limit="its calls run side by side, so that none may depend on another",
                remedy="return what is new; put modules in eval mode; train in a loop of its own",
            )

    def note_call(self, func: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Returns the arguments to compute with: those of the call."""
        return args, kwargs

    def begin_step(self, optimizer: Optimizer) -> None:
        """Does nothing: a write of the step is refused."""

    def begin_closure(self) -> None:
        """Does nothing."""

    def end_closure(self) -> None:
        """Does nothing."""

    def end_step(self) -> None:
        """Does nothing."""

    def note_shared(self, value: Any) -> None:
        """Does nothing: it is shared in every call."""

    def check_input(self, check: Callable[[Tensor], None], values: Tensor) -> None:
        """Calls a function that checks the owner's numbers."""
        check(values)

    def bounded(self, x: Tensor) -> Tensor:
        """Returns x: rules look at the numbers of each call."""
        return x

    def note_revealed(self, tensor: Tensor) -> None:
        """Does nothing: it is revealed in every call."""

    def refuse(self, obstacle: str) -> None:
        """Does nothing: the function's code runs in every call."""

    def settle(self, values: list[Value]) -> None:
        """Settles values while no other lane runs, so that none of them does it too."""
        if self.lanes is None:
            settle(self._numbers, values)
        else:
            with self.lanes.alone():
                settle(self._numbers, values)
