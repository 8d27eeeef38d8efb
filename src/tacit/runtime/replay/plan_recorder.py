"""Records what a function does below the protocols: calls of torch and kernels, and rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import ROUND_BITS
from ...kernels.backend import load_native, native_replaced
from ...kernels.dispatch_mode import leaves, with_each_leaf
from ...kernels.written_arguments import written_addresses
from ...ring.drawn_numbers import drawn
from ...tensor.secret import Cell
from ...tensor.trace import targets
from .arena import Arena
from .device_memory import DeviceStep
from .guards import NOT_PUBLIC, guarded, hold, is_within
from .memory_use import MemoryUse
from .noted_memory import storage_of
from .optimizer_observer import OptimizerObserver
from .optimizer_steps import OptimizerSteps
from .plan import (
    Admission,
    Check,
    Draw,
    Effect,
    Exchange,
    Guard,
    Messages,
    Number,
    Plan,
    Step,
    Work,
)
from .plan_observer import READING, PlanObserver
from .small_work import small_work

if TYPE_CHECKING:
    from ...protocols.context import Context
    from ...protocols.steps import Received, Round

aten = torch.ops.aten
ALLOCATING = frozenset(
    (aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided)
)
ZEROS = frozenset((aten.zeros, aten.zeros_like, aten.new_zeros))
# Kernels that return something which depends on shapes and settings alone.
BY_SHAPE = frozenset(
    ("num_threads", "matmul_plan32", "matmul_plan64", "conv_plan32", "conv_plan64")
)


class PlanRecorder(PlanObserver):
    """Traces a thread, and records its work as a plan whose memory is an arena.

    The work is done as it would be without it; only the results lie elsewhere.
    """

    def __init__(self, context: Context, seen: OptimizerObserver) -> None:
        """seen: the trace of the call before."""
        super().__init__()
        self._changing.add(*seen.public_state.values())
        self.steps, self.bounds = OptimizerSteps(before=seen.steps), dict(seen.bounds)
        self.guarded: list[Step] = []  # the guards, and the steps that they depend on
        self._guarded_state: list[Tensor] = []  # what those write outside of the arena
        self._arguments: list[Tensor] = []
        self.plan, self.arena = Plan(), Arena()
        self.memory = MemoryUse(self.arena)
        self.held: dict[int, Any] = {}  # memory outside of the arena whose addresses steps have
        self._context, self._first = context, context.streams.number
        self.messages: list[Messages] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Records the kernels and the rounds of this thread."""
        native = load_native()
        assert native is not None
        streams, products = self._context.streams, self._context.products
        self._context.recorder, streams.marked = self, Number
        in_tiles, products.in_tiles = products.in_tiles, False  # a replay sends what is complete
        try:
            with native_replaced(RecordedKernels(native, self)):
                yield
        finally:
            self._context.recorder, streams.marked = None, int
            products.in_tiles = in_tiles
        self.plan.num_calls = streams.number - self._first

    def note_new(self, cell: Cell) -> None:
        super().note_new(cell)
        self._made.append(ref(cell))

    @property
    def keeps_secrets(self) -> bool:
        """Whether somebody still holds a secret that was made while this recorded."""
        return any(made() is not None for made in self._made)

    def check_input(self, check: Callable[[Tensor], None], values: Tensor) -> None:
        self.note(check, values)

    def note_buffers(self, *tensors: Tensor) -> None:
        """Tells of buffers of arguments whose contents may differ."""
        self.own(*tensors)
        self._arguments += tensors
        self._changing.add(*tensors)

    def own(self, *tensors: Tensor) -> None:
        """Tells of memory that the plan may write: buffers of arguments, state and results."""
        self._new |= set(map(storage_of, tensors))
        for one in tensors:
            self.memory.own(one)

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        if func.overloadpacket in ALLOCATING:
            return self.arena.empty_like(func(*args, **kwargs))
        result = super().run(func, args, kwargs, found)
        if func.overloadpacket in READING and any(map(self._changes, found)):
            self._append(Guard(func, with_each_leaf(self._alias, (*args,)), result), [])
        made = [x for x in leaves(result) if isinstance(x, Tensor)]
        if _writes(func):
            if len(made) != 1 or not self._add_small(func, args, kwargs, made[0]):
                self._add(func, args, kwargs, list(targets(func, args, kwargs)), of=func)
            return result
        known = set(map(storage_of, found))
        if all(storage_of(x) in known for x in made):
            return result  # views, whose memory is that of their bases
        moved = self._add_results(func, args, kwargs, result)
        self._note_changing(func, found, moved)
        return moved

    def bounded(self, x: Tensor) -> Tensor:
        made = super().bounded(x)
        if made is not x and (known := drawn(made)) is not None:
            with _disable_current_modes():
                self._append(Guard(is_within, (self.arena.alias(x), known), True), [])
        return made

    def find_guards(self) -> None:
        """Finds what is done before each replay, so that guards can be looked at."""
        found = guarded(self.memory, [*self._arguments, *self.public_state.values()])
        if found is None:
            self.refuse(NOT_PUBLIC)
        else:
            self.guarded = [x for use in found if not isinstance(x := use.step, DeviceStep)]
            writes = any(use.written_outside for use in found)
            self._guarded_state = [*self.public_state.values()] if writes else []

    def guards_hold(self) -> bool:
        return not self.guarded or hold(self.guarded, self._guarded_state)

    def drop_guards(self) -> None:
        """Takes the guards out of the plan: they are looked at before it."""
        self.plan.steps = [step for step in self.plan.steps if not isinstance(step, Guard)]

    def _append(self, step: Step, written: Sequence[Tensor | int], **how: bool) -> None:
        self.plan.steps.append(step)
        self.memory.note(step, written, **how)

    def _add(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        written: Sequence[Tensor],
        *,
        of: OpOverload,
    ) -> None:
        """Records a call that does what an operation of torch does."""
        args, kwargs = with_each_leaf(self._alias, (tuple(args), dict(kwargs)))
        is_random = torch.Tag.nondeterministic_seeded in of.tags
        self._append(Work(function, args, kwargs), written, is_random=is_random)

    def _add_small(self, func: OpOverload, args: Any, kwargs: Any, place: Tensor) -> bool:
        """Records a call of numpy instead of torch's, if there is one."""
        aliases = with_each_leaf(self._alias, tuple(args))
        found = small_work(func, aliases, kwargs, self.arena.alias(place))
        if found is not None:
            self._append(Work(*found, {}), [place])
        return found is not None

    def _add_results(self, func: OpOverload, args: Any, kwargs: Any, result: Any) -> Any:
        """Records a call with the results in the arena; returns those."""
        places = with_each_leaf(self._moved, result)
        aliases = self._aliases(places)
        if not isinstance(result, Tensor):
            self._add(partial(_copy_all, func, aliases), args, kwargs, aliases, of=func)
            return places
        if func.overloadpacket in ZEROS:
            self._add(aten.zero_.default, (places,), {}, aliases, of=func)
            return places
        if self._add_small(func, args, kwargs, places):
            return places
        into = _out_overload(func)
        if into is None:
            self._add(partial(_copy, func, *aliases), args, kwargs, aliases, of=func)
        else:
            self._add(into, args, {**kwargs, "out": places}, aliases, of=func)
        return places

    def _aliases(self, tensors: Any) -> list[Tensor]:
        return [self.arena.alias(x) for x in leaves(tensors) if isinstance(x, Tensor)]

    def _alias(self, x: Any) -> Any:
        return self.arena.alias(x) if isinstance(x, Tensor) else x

    def _moved(self, x: Any) -> Any:
        return self.arena.empty_like(x).copy_(x) if isinstance(x, Tensor) else x

    def hold(self, tensor: Tensor) -> None:
        """Keeps memory outside of the arena as long as the plan, whose kernels get its address.

        A share that is settled leaves its parts, and a cache what it has kept.
        """
        if tensor.numel() and not self.arena.holds(tensor):
            self.held[storage_of(tensor)] = tensor.untyped_storage()

    def add_kernel(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a kernel, which writes to memory, and records it."""
        result = function(*args)
        if result is not None:  # a replay would go on with this one
            self.refuse("it calls a kernel that returns a result")
            return result
        written = written_addresses(function.__name__, args)
        if written is None:
            self.refuse("it calls a kernel of which it is not known what it writes")
            return None
        relative = tuple(Number(x - self._first) if type(x) is Number else x for x in args)
        if any(type(x) is Number for x in args):
            self._append(Draw(function, relative), written, is_kernel=True)
            return None
        if any(isinstance(x, bytes) for x in args):  # a key: its words would be drawn again
            self.refuse("it draws words that do not depend on the number of the call")
        self._append(Work(function, args, {}), written, is_kernel=True)
        return None

    def exchange(self, one: Round, operation: int) -> Received:
        """Exchanges a round and records it."""
        computed = one.computed()
        with _disable_current_modes():
            return self._exchanged(one, computed, operation)

    def _exchanged(self, one: Round, computed: dict[int, list[Tensor]], operation: int) -> Received:
        mesh = self._context.mesh
        send = {peer: [self.arena.alias(x) for x in xs] for peer, xs in computed.items()}
        sent = {peer: [x.clone() for x in xs] for peer, xs in computed.items()}
        got = mesh.exchange(sent, one.receive, operation=operation, ahead=one.ahead)
        self.messages.append(Messages(sent, got))
        received = {peer: [self._moved(x) for x in xs] for peer, xs in got.items()}
        for tensors in received.values():
            self.own(*tensors)
        places = {peer: self._aliases(xs) for peer, xs in received.items()}
        relative = operation - (self._first << ROUND_BITS)
        written = [x for xs in places.values() for x in xs]
        self._append(Exchange(mesh, one, send, places, relative), written)
        return received

    def note(self, function: Callable[[Tensor], None], x: Tensor) -> None:
        """Shows a tensor to a function, and records that."""
        with _disable_current_modes():
            function(x)
            self._append(Effect(function, (self.arena.alias(x),)), [])

    def compute(self, function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> Tensor:
        """Returns what a function makes of tensors alone, and records that."""
        with _disable_current_modes():
            made = self._moved(function(*tensors))
            place, given = self.arena.alias(made), tuple(map(self.arena.alias, tensors))
            self._append(Work(partial(_put, function), (place, *given), {}), [place])
            self.own(made)
        return made

    def tell(self, function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> Tensor:
        """Returns what a function makes of tensors and a protocol's state, and records that."""
        with _disable_current_modes():
            made = self._moved(recorded := function(*tensors))
            place, given = self.arena.alias(made), tuple(map(self.arena.alias, tensors))
            self._append(Effect(function, given, place, recorded.clone()), [place])
            self.own(made)
        return made

    def check(self, function: Callable[..., None], number: int, tensors: Sequence[Tensor]) -> None:
        """Calls a function of a call's number and tensors, which may raise, and records that."""
        with _disable_current_modes():
            function(number, *tensors)
            given = tuple(map(self.arena.alias, tensors))
            self._append(Check(function, number - self._first, given), given)

    def note_reveal(self, admit: Callable[[int], None], number: int) -> None:
        """Admits a reveal, and records that."""
        with _disable_current_modes():
            admit(number)
            self._note_admission(admit, number)

    def _note_admission(self, admit: Callable[[int], None], number: int) -> None:
        self.reveals.append(partial(admit, number))
        self._append(Admission(admit, number - self._first), [])

    def repeats(self, random: Tensor) -> bool:
        """Does the plan once more, with the messages that were received; whether it sends the same.

        random: the state of torch's generator when it was recorded.
        """
        messages, self.messages = self.messages, []
        now = torch.get_rng_state()
        torch.set_rng_state(random)
        self.arena.spoil()  # what a step that was not recorded had written
        try:
            return self.guards_hold() and self.plan.sends_again(messages, self._first)
        finally:
            torch.set_rng_state(now)


class RecordedKernels:
    """The compiled kernels, whose calls a recorder notes."""

    def __init__(self, native: ModuleType, recorder: PlanRecorder) -> None:
        self._native, self._recorder = native, recorder

    def hold(self, tensor: Tensor) -> None:
        """Notes that a kernel gets the address of a tensor."""
        self._recorder.hold(tensor)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)
        if isinstance(found, type) or not callable(found) or name in BY_SHAPE:
            return found
        return partial(self._recorder.add_kernel, found)


def _copy(func: OpOverload, place: Tensor, *args: Any, **kwargs: Any) -> None:
    place.copy_(func(*args, **kwargs))


def _put(function: Callable[..., Tensor], place: Tensor, *args: Tensor) -> None:
    place.copy_(function(*args))


def _copy_all(func: OpOverload, places: list[Tensor], *args: Any, **kwargs: Any) -> None:
    made = [x for x in leaves(func(*args, **kwargs)) if isinstance(x, Tensor)]
    for place, x in zip(places, made, strict=True):
        place.copy_(x)


@cache
def _writes(func: OpOverload) -> bool:
    """Whether an operation writes to one of its arguments."""
    aliases = [argument.alias_info for argument in func._schema.arguments]
    return any(one is not None and one.is_write for one in aliases)


@cache
def _out_overload(func: OpOverload) -> OpOverload | None:
    """Returns the overload that writes to `out` and otherwise takes the same arguments, if any."""
    ours = [(x.name, str(x.type)) for x in func._schema.arguments]
    for name in func.overloadpacket.overloads():
        other = getattr(func.overloadpacket, name)
        theirs = [(x.name, str(x.type)) for x in other._schema.arguments]
        if theirs == [*ours, ("out", "Tensor")] and _writes(other):
            return other
    return None
