"""A function's work on arguments of one form, recorded, to be replayed without its code.

How the work is recorded and replayed depends on where it is done: see `graph.py` for parties that
share a GPU, and `plan_recording.py` for a party on its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from ...fixedpoint import Numbers, Value
from ...fixedpoint.flatten import canonical, signature
from ...protocols import Protocol as Operations
from ...tensor import SecretTensor
from ...tensor.secret import Cell
from ...transport import Cost, Mesh, Stats
from .buffered_arguments import BufferedArguments
from .buffers import CallSignature, SecretTree, ValueBuffers
from .gradients import Gradients
from .optimizer_observer import OptimizerObserver
from .optimizer_steps import OptimizerSteps
from .plan import Plan
from .public_results import PublicResults
from .secret_results import SecretResults
from .summary import RecordingSummary


class Party(Protocol):
    """What a recording needs of a session."""

    @property
    def mesh(self) -> Mesh: ...
    @property
    def numbers(self) -> Numbers: ...
    @property
    def protocol(self) -> Operations: ...
    @property
    def rank(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def stats(self) -> Stats: ...
    @property
    def reveals(self) -> Sequence[object]: ...
    def gather_objects(self, value: Any) -> list[Any]: ...


class Recording(ABC):
    """A function's work on arguments of one form; `replay` does it again.

    observer: the kind of trace that finds whether a function can be recorded so.
    takes_plain: whether plain arguments may differ from call to call.
    can_verify: whether the function may open what is verified before.
    obstacle: why the recording must not be replayed, or None.
    """

    observer: ClassVar[type[OptimizerObserver]] = OptimizerObserver
    takes_plain: ClassVar[bool] = False
    can_verify: ClassVar[bool] = False
    obstacle: str | None = None

    def __init__(
        self,
        session: Party,
        function: Callable[..., Any],
        given: SecretTree,
        seen: OptimizerObserver,
        parameters: Sequence[SecretTensor],
        signature: CallSignature,
    ) -> None:
        """Records the function. All parties call this at the same point of their programs.

        seen: what the function used in the call before. parameters: tensors that may get gradients
        besides those in `seen`. signature: of the call.
        """
        self._session, self._seen = session, seen
        self._shapes = tuple(tuple(x.shape) for x in given.secrets)
        self._num_replays = 0
        self._input_buffers = ValueBuffers(session.numbers, given.values)
        self._alike = sorted(signature.alike)
        buffered = signature.varying | (signature.private or frozenset())
        self._arguments = BufferedArguments(given.others, buffered)
        self._state = seen.written()  # what the function writes to
        self._state_buffers = ValueBuffers(session.numbers, self._current_state())
        self._kept_weights: list[Any] = []
        leaves = [*(used.tensor for used in seen.leaves.values()), *parameters]
        self._gradients = Gradients(leaves)
        self._trace = self._make_trace()
        self._record(function, given)

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """What a replay does at this party."""

    @classmethod
    @abstractmethod
    def decided(cls, session: Party, opinion: bool) -> bool:
        """Returns whether to go on, if that is this party's opinion."""

    @classmethod
    @abstractmethod
    def gathered(cls, session: Party, text: str) -> list[str]:
        """Returns the texts of all parties, by rank. All parties call it."""

    @classmethod
    def first_of_all(cls, session: Party, obstacle: str | None) -> str | None:
        """Returns the obstacle of the first party that has one, or None. All parties call it."""
        return next((one for one in cls.gathered(session, obstacle or "") if one), None)

    @abstractmethod
    def first_results(self, given: SecretTree) -> Any:
        """Returns the results of the call that was recorded."""

    @abstractmethod
    def _record(self, function: Callable[..., Any], given: SecretTree) -> None:
        """Records the function."""

    @abstractmethod
    def _make_trace(self) -> OptimizerObserver:
        """Returns the trace of the recorded call."""

    @abstractmethod
    def _drawing(self) -> AbstractContextManager[None]:
        """In the block, what the function draws is recorded as such."""

    @abstractmethod
    def _copying(self) -> AbstractContextManager[None]:
        """In the block, results are copied to buffers, as part of what is recorded."""

    @abstractmethod
    def replay(self, given: SecretTree) -> Any:
        """Returns the function's results for these arguments, for which `fits` holds."""

    @abstractmethod
    def summary(self) -> RecordingSummary:
        """Returns what a replay does, in numbers."""

    def _summary(
        self,
        cost: Cost,
        *,
        calls: int | None,
        draws: int | None,
        memory: int,
        rounds: int | None = None,
        rounds_of_call: int | None = None,
    ) -> RecordingSummary:
        """Returns the summary. cost: of a call or of a replay, whose rounds may be others."""
        buffers = (self._input_buffers, self._state_buffers, self._output_buffers)
        return RecordingSummary(
            self._shapes,
            num_calls=calls,
            num_draws=draws,
            rounds=cost.rounds if rounds is None else rounds,
            rounds_of_call=cost.rounds if rounds_of_call is None else rounds_of_call,
            bytes_sent=cost.bytes_sent,
            bytes_received=cost.bytes_received,
            memory_bytes=memory + sum(one.num_bytes for one in buffers),
            num_replays=self._num_replays,
        )

    def _run(self, function: Callable[..., Any], given: SecretTree) -> SecretTree:
        """Runs the function on the buffers of arguments and state, and copies what it writes."""
        session, cache = self._session, self._session.protocol.context.products.cache
        for cell, value in zip(self._state, self._state_buffers.aliases(), strict=True):
            cell.set(value)
        cache.pins = self._kept_weights
        try:
            watched = self._steps.watching(self._seen.steps.schedulers)
            with self._drawing(), self._trace.on(session.numbers), watched:
                taken = given._replace(others=self._arguments.put_into(given.others))
                args, kwargs = taken.with_secrets(session.numbers, self._input_buffers.aliases())
                made = SecretTree.of(function(*args, **kwargs))
                self._trace.operands.note_results(made.others, made.spec)
                self._secret_results = SecretResults(made.secrets, self._gradients.set_by_now())
                compute(self._secret_results.values)
                self._gradients.observe(self._trace)
                new = self._current_state()
            with self._copying():
                self._output_buffers = ValueBuffers(session.numbers, self._secret_results.values)
                self._public_results = PublicResults(made.others, self._is_made)
                self._state_buffers.copy_from(new)
        finally:
            cache.pins = None
        # What the buffers hold after a replay:
        self._last_state = [cell.value for cell in self._state]
        forms = [signature(value) for value in new]
        self._keeps_signatures = forms == self._state_buffers.signatures
        return made._replace(secrets=[], others=self._public_results.others)

    def _restore(self, values: Sequence[Value]) -> None:
        """Restores what a capture has written: it computes no values."""
        for cell, version in self._trace.cells.values():
            if cell.version != version:
                cell.set(self._trace.values[id(cell)])
        for cell, value in zip(self._state, values, strict=True):
            cell.set(value)
        self._gradients.restore()

    def _is_made(self, x: Tensor) -> bool:
        """Whether a public tensor among the results is made anew by each replay."""
        return False

    def _current_state(self) -> list[Value]:
        """Returns the current values of the state."""
        values = [cell.value for cell in self._state]
        return canonical(self._session.numbers, values) if values else []

    def _difference(self, given: SecretTree) -> str | None:
        """Returns in what the recorded call differed from the one before, or None."""
        written = {id(cell) for cell in self._trace.written()}
        expected = self._seen.cells.keys() | {id(x._cell) for x in given.secrets}
        if not self._trace.cells.keys() <= expected:
            return "it reads other secrets than before"
        if written - {id(cell) for cell in self._state} or not self._keeps_signatures:
            return "other tensors, or of another form, were written"
        if not self._trace.public_state.keys() <= self._seen.public_state.keys():
            return "it writes other public tensors than before"
        if self._trace.followed_optimizers != self._seen.followed_optimizers:
            return "other optimizers step than before"
        return self._steps.difference(self._trace.public_state.values()) or self._trace.obstacle

    def difference_in_public(self) -> str | None:
        """Returns in what the public numbers of two calls differed, or None.

        The recorded call itself is right; its Python code has run, and must not run again.
        """
        return self._trace.operands.difference(self._seen.operands)

    def fits(self, given: SecretTree) -> bool:
        """Returns whether a replay does what the function would do with these arguments now."""
        written = {id(cell) for cell in self._state}
        if any(id(x._cell) in written for x in given.secrets):
            return False
        unchanged = self._gradients.are_unchanged() and self._trace.is_same()
        return unchanged and not self.changed_reads()

    def replace_state(self, old: Cell, new: Cell) -> None:
        """Notes that another cell has taken the place of one that the function writes to."""
        self._state = [new if cell is old else cell for cell in self._state]
        self._gradients.replace(old, new)
        self._trace.replace(old, new)

    def changed_reads(self) -> list[Cell]:
        """Returns the cells that the function only reads, and that were written since."""
        written = {id(cell) for cell in self._state}
        return [
            cell
            for cell, version in self._trace.cells.values()
            if id(cell) not in written and cell.version != version
        ]

    def accept_state(self) -> bool:
        """Copies state that was written since the last replay into the buffers.

        Returns False if its form has changed. All parties call this at the same time.
        """
        if [id(cell.value) for cell in self._state] == [id(value) for value in self._last_state]:
            return True
        now = self._current_state()
        if [signature(value) for value in now] != self._state_buffers.signatures:
            return False
        self._state_buffers.copy_from(now)
        return True

    @contextmanager
    def _complete(self) -> Iterator[None]:
        """If the block raises, as a refused reveal does, the state is that from before it."""
        try:
            yield
        except BaseException:
            self._last_state = []  # the buffers hold a part of the new one
            raise

    def may_reveal(self) -> bool:
        """Whether the policy would admit now what a replay reveals."""
        return self._session.protocol.context.reveal_policy.would_admit(self._trace.reveals)

    def advance(self, given: SecretTree) -> bool:
        """Computes the public numbers of the next replay; False if it cannot be with these."""
        self._arguments.copy_from(given.others)
        return self._trace.guards_hold() and self._steps.advance()

    def hand_on(self) -> None:
        """Lets the next recording start with what is known of optimizers and public numbers."""
        self._seen.steps, self._seen.bounds = self._steps, self._trace.bounds

    @property
    def _steps(self) -> OptimizerSteps:
        """What optimizers do in the function."""
        return self._trace.steps

    def _take_results(self, results: SecretTree) -> Any:
        """Sets state and gradients to what the buffers hold, and returns the results."""
        numbers = self._session.numbers
        self._last_state = self._state_buffers.clones() if self._state else []
        for cell, value in zip(self._state, self._last_state, strict=True):
            cell.set(value)
        self._gradients.assign(numbers)
        results = results._replace(others=self._public_results.copies())
        return results.filled(self._secret_results.made(numbers, self._output_buffers.clones()))


def compute(values: Sequence[Value]) -> None:
    """Computes lazy values."""
    for value in values:
        signature(value)
