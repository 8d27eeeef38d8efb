"""The memory of steps in another order than the recorded one.

Blocks that nobody holds any more get new addresses by their lifetimes in the new order, and the
tensors, arrays and addresses in the steps become those of the new places. Blocks that somebody
still holds, such as results, stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .arena import Arena, Block
from .device_memory import DeviceStep
from .memory_use import StepUse
from .plan import Check, Draw, Effect, Exchange, Guard, Step, Work
from .step_order import Moment


class Turn(NamedTuple):
    """The blocks whose first use a moment is, and those whose last use it is."""

    first: Sequence[Block]
    last: Sequence[Block]


def lifetimes(order: Sequence[Moment], fixed: Set[int]) -> Iterator[Turn]:
    """Yields for each moment which blocks begin and end with it. fixed: blocks that stay."""
    used = [[b for b in set(moment.blocks) if b.number not in fixed] for moment in order]
    last = {block: i for i, blocks in enumerate(used) for block in blocks}
    seen: set[Block] = set()
    for i, blocks in enumerate(used):
        new = [block for block in blocks if block not in seen]
        seen.update(new)
        yield Turn(sorted(new), sorted(block for block in blocks if last[block] == i))


def peak_bytes(order: Sequence[Moment], fixed: Set[int]) -> int:
    """Returns how much memory an order takes at most at one time."""
    now = most = 0
    for first, last in lifetimes(order, fixed):
        now += sum(block.size for block in first)
        most = max(most, now)
        now -= sum(block.size for block in last)
    return most


def new_addresses(arena: Arena, order: Sequence[Moment], fixed: Set[int]) -> dict[int, int]:
    """Returns where each block begins, by its number, for an order; the arena may grow."""
    found: dict[int, int] = {}
    for first, last in lifetimes(order, fixed):
        for block in first:
            found[block.number] = arena.take(block.size)
        for block in last:
            arena.free(found[block.number], block.size)
    return found


class Relocation:
    """Makes steps that use new addresses."""

    def __init__(self, arena: Arena, addresses: Mapping[int, int]) -> None:
        self._arena, self._addresses = arena, addresses

    def step(self, use: StepUse) -> Step:
        """Returns the step of a use at its new addresses."""
        step, move = use.step, partial(self._moved, use.blocks)
        if isinstance(step, Work):
            return Work(*(move(part, use.is_kernel) for part in step))
        if isinstance(step, Draw):
            return Draw(step.function, move(step.args, True))
        if isinstance(step, Effect):
            return step._replace(tensors=move(step.tensors, False), place=move(step.place, False))
        if isinstance(step, Check):
            return step._replace(tensors=move(step.tensors, False))
        if isinstance(step, Guard):
            return Guard(step.function, move(step.args, False), step.decision)
        assert not isinstance(step, DeviceStep)
        return step

    def exchange(self, uses: Sequence[StepUse], operation: int) -> Exchange:
        """Returns one round of this number in place of several, at new addresses."""
        return Exchange.merged([self._exchange(use) for use in uses], operation)

    def _exchange(self, use: StepUse) -> Exchange:
        step, move = use.step, partial(self._moved, use.blocks)
        assert isinstance(step, Exchange)
        return step.at(move(step.sent, False), move(step.places, False))

    def _moved(self, blocks: Sequence[Block], value: Any, has_integers: bool) -> Any:
        """Returns a nest with all that is in these blocks at their new addresses."""
        if isinstance(value, Tensor):
            address = self._address(blocks, value.data_ptr()) if value.numel() else None
            return value if address is None else self._arena.tensor_at(address, value)
        if isinstance(value, np.ndarray):
            address = self._address(blocks, value.ctypes.data) if value.size else None
            return value if address is None else _array_at(self._arena, address, value)
        if type(value) is int and has_integers:
            address = self._address(blocks, value)
            return value if address is None else address
        move = partial(self._moved, blocks, has_integers=has_integers)
        if isinstance(value, list):
            return [move(one) for one in value]
        if type(value) is tuple:
            return tuple(move(one) for one in value)
        if isinstance(value, Mapping):
            return {key: move(one) for key, one in value.items()}
        if isinstance(value, partial):
            return partial(value.func, *move(value.args), **move(value.keywords))
        return value

    def _address(self, blocks: Sequence[Block], address: int) -> int | None:
        """Returns where something is now, or None if it stays."""
        for block in blocks:
            if block.holds(address) and block.number in self._addresses:
                return self._addresses[block.number] + address - block.start
        return None


def _array_at(arena: Arena, address: int, like: np.ndarray) -> np.ndarray:
    return arena.tensor_at(address, torch.from_numpy(like)).numpy()
