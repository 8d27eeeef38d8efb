"""Parts of operands that blocks of products use, in plain inside the enclave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...protocols.plain_memory import PlainMemory
from .masking import Operand
from .product_blocks import LEFT, RIGHT, Block

Key = tuple[object, ...]


class OperandParts:
    """The parts that the last block has used: the next one often uses one of them again.

    A part has a number of its own, and so a mask of its own; the whole operand keeps its number.
    numbers: of new operands. forget: is told the numbers of parts that are not used again.
    """

    def __init__(
        self, memory: PlainMemory, numbers: Iterator[int], forget: Callable[[int], None]
    ) -> None:
        self._memory, self._numbers, self._forget = memory, numbers, forget
        self._taken: dict[Key, tuple[Operand, Operand]] = {}  # a part, and its operand

    def take(self, name: str, block: Block, a: Operand, b: Operand) -> tuple[Operand, Operand]:
        """Returns the parts of both operands of a block."""
        wanted = [_key(block, LEFT, a), _key(block, RIGHT, b)]
        self._drop_all_but(wanted)
        for key, tensor, operand in zip(wanted, (LEFT, RIGHT), (a, b), strict=True):
            if key not in self._taken:
                self._taken[key] = self._part(name, block, tensor, operand), operand
        (left, _), (right, _) = (self._taken[key] for key in wanted)
        return left, right

    def prefetch(self, name: str, block: Block | None, a: Operand, b: Operand) -> None:
        """Says which block follows, if one does; parts that are here already are not needed."""
        if block is None or self._memory.limit is None:
            return
        views = [
            block.part(tensor, x.values)
            for tensor, x in ((LEFT, a), (RIGHT, b))
            if _key(block, tensor, x) not in self._taken
        ]
        self._memory.prefetch(name, views)

    def drop(self) -> None:
        """Gives all parts up."""
        self._drop_all_but([])

    def _part(self, name: str, block: Block, tensor: int, operand: Operand) -> Operand:
        if self._memory.limit is None:
            return operand
        view = block.part(tensor, operand.values)
        values = self._memory.read(name, view)
        if view.shape == operand.values.shape:
            return replace(operand, values=values)
        return Operand(next(self._numbers), values, operand.exponent)

    def _drop_all_but(self, wanted: list[Key]) -> None:
        for key in [one for one in self._taken if one not in wanted]:
            part, operand = self._taken.pop(key)
            if part.number == operand.number:
                operand.is_sent = part.is_sent
            else:
                self._forget(part.number)


def _key(block: Block, tensor: int, operand: Operand) -> Key:
    """Returns what tells parts of operands apart: the same part may be on both sides."""
    shape = operand.values.shape
    places = ((one.axis[tensor] or 0, one.start, one.length) for one in block.place(tensor))
    found = ((dim % len(shape), start, length) for dim, start, length in places)
    return operand.number, *(one for one in found if one[2] < shape[one[0]])
