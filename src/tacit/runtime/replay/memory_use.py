"""Which memory the steps of a plan read and write, and which steps depend on which.

While a function is recorded, each step is noted with the blocks of the arena that it refers to at
that time; an address belongs to another block later. Memory outside of the arena matters if a step
writes it: buffers of state and results, and public tensors. All other memory is constant. Memory of
a GPU is known by its storages: each is a block, whoever allocated it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ...errors import ROUND_BITS
from .arena import Arena, Block
from .device_memory import DeviceBlocks, DeviceStep
from .plan import Admission, Check, Effect, Exchange, Step

EFFECTS, RANDOM = "effects", "random"  # what steps have in common that must keep their order


class Range(NamedTuple):
    """Addresses of memory outside of the arena."""

    start: int
    end: int

    @classmethod
    def of(cls, tensor: Tensor) -> Range:
        """Returns that of all memory that a tensor is a view of."""
        storage = tensor.untyped_storage()
        return cls(storage.data_ptr(), storage.data_ptr() + storage.nbytes())


class StepUse(NamedTuple):
    """What one step refers to.

    is_kernel: integers among its arguments may be addresses. blocks: of the arena, and of a GPU.
    outside: addresses elsewhere. written: the numbers of those blocks that are written. ordered:
    other things that it uses, in order with all steps that do. call: the call that a round belongs
    to.
    """

    step: Step | DeviceStep
    is_kernel: bool
    blocks: tuple[Block, ...]
    outside: tuple[int, ...]
    written: frozenset[int]
    written_outside: tuple[int, ...]
    ordered: tuple[Hashable, ...]
    call: Hashable

    @property
    def is_on_gpu(self) -> bool:
        """Whether it is work of a GPU, a round, or writes memory of a GPU."""
        is_work = isinstance(self.step, DeviceStep | Exchange)
        return is_work or any(number < 0 for number in self.written)


class MemoryUse:
    """The steps of a plan with the memory that they use, in their recorded order.

    is_known: whether all memory is known that is written; if not, no step may change its place.
    """

    def __init__(self, arena: Arena) -> None:
        self.uses: list[StepUse] = []
        self._arena = arena
        self._ranges: set[Range] = set()
        self.on_gpu = DeviceBlocks()
        self.is_known = True

    def own(self, tensor: Tensor) -> None:
        """Tells of memory outside of the arena that steps may write."""
        has_bytes = bool(tensor.untyped_storage().nbytes())
        if has_bytes and not tensor.is_cuda and not self._arena.holds(tensor):
            self._ranges.add(Range.of(tensor))

    def note(
        self,
        step: Step,
        written: Iterable[Tensor | int],
        *,
        is_kernel: bool = False,
        is_random: bool = False,
    ) -> None:
        """Notes a step, with the memory that it writes, and whether it draws public numbers."""
        written = list(written)
        for one in written:
            if isinstance(one, Tensor):
                self.own(one)
        blocks, outside = self._found(_places(_operands(step), is_kernel))
        changed, changed_outside = self._found(_places(written, True))
        ordered = (*_ordered(step), *([RANDOM] if is_random else []))
        numbers = frozenset(block.number for block in changed)
        self.uses.append(
            StepUse(
                step,
                is_kernel,
                tuple(blocks),
                tuple(outside),
                numbers,
                tuple(changed_outside),
                ordered,
                _call(step),
            )
        )

    def note_on_gpu(
        self, step: DeviceStep | Exchange, read: Iterable[Tensor], written: Iterable[Tensor]
    ) -> None:
        """Notes a step of a GPU, or a round of tensors there, which it does not keep alive."""
        changed, _ = self._found(written)
        blocks = tuple(self._found(read)[0] | changed)
        numbers = frozenset(block.number for block in changed)
        self.uses.append(StepUse(step, False, blocks, (), numbers, (), (), _call(step)))

    def _found(self, places: Iterable[int | Tensor]) -> tuple[set[Block], set[int]]:
        """Returns the blocks that addresses or tensors of a GPU are in, and addresses in none."""
        blocks, outside = set(), set()
        for place in places:
            if isinstance(place, Tensor):
                found = self.on_gpu.block(place)
            elif not (found := self._arena.block(place)) and place:
                outside.add(place)
            if found:
                blocks.add(found)
        return blocks, outside

    def may_change(self, use: StepUse, known: Sequence[Tensor]) -> bool:
        """Whether a step uses memory outside of the arena that may change, and is not known."""
        own = {Range.of(x) for x in known}
        ranges = self._ranges - own
        return any(one.start <= x < one.end for one in ranges for x in use.outside)

    def predecessors(self) -> list[list[int]]:
        """Returns for each step the earlier steps that must come before it, directly.

        A reader comes after the last writer, a writer after the last writer and its readers.
        """
        ranges = sorted(self._ranges)
        starts = [one.start for one in ranges]

        def outside(addresses: Iterable[int]) -> set[Hashable]:
            places = {(bisect_right(starts, address) - 1, address) for address in addresses}
            return {ranges[i] for i, address in places if i >= 0 and address < ranges[i].end}

        writer: dict[Hashable, int] = {}
        readers: defaultdict[Hashable, list[int]] = defaultdict(list)
        found = []
        for i, use in enumerate(self.uses):
            written = {*use.written, *use.ordered, *outside(use.written_outside)}
            if len(outside(use.written_outside)) < len(use.written_outside):
                self.is_known = False
            read = {use.call, *(block.number for block in use.blocks), *outside(use.outside)}
            before = {writer[key] for key in written | read if key in writer}
            for key in written:
                before.update(readers.pop(key, ()))
                writer[key] = i
            for key in read - written:
                readers[key].append(i)
            found.append(sorted(before - {i}))
        return found


def _call(step: Step | DeviceStep) -> Hashable:
    """Returns what rounds of one call have in common, or None."""
    return ("call", step.operation >> ROUND_BITS) if isinstance(step, Exchange) else None


def _ordered(step: Step) -> Iterator[Hashable]:
    """Yields what a step shares with others that must keep their order.

    A reveal is admitted before the rounds of its call, and checked before those that open.
    """
    if isinstance(step, Effect | Admission | Check):
        yield EFFECTS
    if isinstance(step, Admission | Check):
        yield "call", step.number


def _operands(step: Step) -> Any:
    """Returns everything that a step refers to."""
    if isinstance(step, Exchange):
        return step.sent, step.places
    return tuple(step) if isinstance(step, tuple) else step


def _places(value: Any, has_integers: bool) -> Iterator[int | Tensor]:
    """Yields the addresses of all tensors and arrays in a nest, and its integers if told to.

    For tensors of a GPU it yields those themselves.
    """
    if isinstance(value, Tensor):
        if value.numel():
            yield value if value.is_cuda else value.data_ptr()
    elif isinstance(value, np.ndarray):
        if value.size:
            yield value.ctypes.data
    elif type(value) is int:
        if has_integers:
            yield value
    else:
        for one in _parts(value):
            yield from _places(one, has_integers)


def _parts(value: Any) -> Sequence[Any]:
    """Returns what a list, tuple, dictionary or partial call consists of."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, partial):
        return [*value.args, *value.keywords.values()]
    return ()
