"""The right operands that a party keeps encoded: the weights of a model that only infers.

A right operand is a sum of parts, and parts are never written to after they are made. So the
storage of a part and its place in that storage identify it, also through views that are made anew
in every call (the transpose in a dense layer). The cache holds a weak reference to the storage, so
that its address is not given to another one.

The first product with an operand only records it: an operand that is used once, as in training,
costs nothing. The second product encodes it, if the budget allows.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ...errors import ConfigError
from ...kernels import Plan, Prepared
from ...transport import CPU
from .bilinear import Bilinear, sum_parts

BUDGET_VARIABLE = "TACIT_KEEP_MIB"
DEFAULT_MIB = 1024
MOST_SHARES = 4  # more members in one memory keep together what so many would
MAX_PLANS = 4096  # shapes of operands whose plans are remembered
MAX_SEEN = 1024  # operands that were used once and are remembered

Parts = Sequence[Tensor]


@dataclass
class Entry:
    """A right operand that was used before: when last, and what the cache holds of it."""

    storages: list[StorageWeakRef]
    last_use: int
    operand: Prepared | list[Tensor | None] | None = None  # None in a list: the only part is it
    num_bytes: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether a part is gone, so that the operand can never be used again."""
        return any(storage.expired() for storage in self.storages)


class OperandCache:
    """Right operands of one party. `budget` is in bytes; 0 keeps nothing.

    TACIT_KEEP_MIB in the environment sets the budget in MiB; the default is 1024, or an eighth of
    the memory of a GPU, and less for each if more than four members of a session share that memory.
    Parties may differ in it: the cache changes no message. When the budget is
    spent, an operand replaces those that were not used since its own last use; so a model that does
    not fit is kept in part, instead of being encoded again and again.

    pins: while a graph is being captured, the operands that it uses are appended to this list, so
    that they stay alive as long as the graph.
    """

    def __init__(self, budget: int | None = None) -> None:
        self.budget = default_budget() if budget is None else budget
        self.num_bytes = 0
        self.pins: list[Any] | None = None
        self._clock = 0
        self._plans: dict[Hashable, Plan | None] = {}
        self._seen: OrderedDict[Hashable, Entry] = OrderedDict()  # used once, nothing kept
        self._kept: OrderedDict[Hashable, Entry] = OrderedDict()  # least recently used first

    def get(
        self,
        op: Bilinear,
        left: Sequence[Tensor],
        right: Sequence[Parts],
        *,
        reused: bool = False,
    ) -> Prepared | list[Tensor]:
        """Returns the right operands, encoded together or as sums, on the left operands' device.

        reused: for several left operands like these, so that they are encoded if that ever pays.
        """
        device, like = left[0].device, right[0][0]
        if like.device != device:  # a tensor of that shape, without its memory
            like = left[0].new_empty(()).expand(like.shape)
        plan = self._plan(op, left, like) if self.budget or reused else None
        if plan is None or not (plan.num_bytes or any(len(parts) > 1 for parts in right)):
            return [sum_parts(parts).to(device) for parts in right]
        identities = tuple(_identity(part) for parts in right for part in parts)
        key = (op, plan, tuple(map(len, right)), identities)
        found = self._look_up(key, op, plan, right, device)
        if reused and plan.num_bytes and not isinstance(found, Prepared):
            return op.prepare(found, plan)
        return found if isinstance(found, Prepared) else [b.to(device) for b in found]

    def _plan(self, op: Bilinear, left: Sequence[Tensor], like: Tensor) -> Plan | None:
        """Returns the operation's plan for operands of these shapes, which it makes once."""
        form = (op, len(left), left[0].shape, like.shape, like.dtype, like.device)
        if form not in self._plans:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            self._plans[form] = op.plan(left, like)
        return self._plans[form]

    def _look_up(
        self, key: Hashable, op: Bilinear, plan: Plan, right: Sequence[Parts], device: torch.device
    ) -> Prepared | list[Tensor]:
        """Returns the operands as they are kept; at their first use, or over budget, the sums."""
        self._clock += 1
        if entry := self._kept.get(key):
            self._kept.move_to_end(key)
            entry.last_use = self._clock
            if self.pins is not None:
                self.pins.append(entry.operand)
            return _with_parts(entry.operand, right)
        sums = [sum_parts(parts).to(device) for parts in right]
        if entry := self._seen.pop(key, None):
            entry.num_bytes = plan.num_bytes or _num_bytes(_without_parts(sums, right))
            previous, entry.last_use = entry.last_use, self._clock
            if self._make_room(entry.num_bytes, previous):
                encode = plan.num_bytes > 0
                entry.operand = op.prepare(sums, plan) if encode else _without_parts(sums, right)
                self.num_bytes += entry.num_bytes
                self._kept[key] = entry
                return _with_parts(entry.operand, right)
        else:
            storages = [StorageWeakRef(part.untyped_storage()) for parts in right for part in parts]
            entry = Entry(storages, self._clock)
            self._drop(key for key, old in self._kept.items() if old.is_dead)
        self._seen[key] = entry
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return sums

    def _make_room(self, num_bytes: int, since: int) -> bool:
        """Whether so many bytes fit, after dropping operands that were not used after `since`."""
        self._drop(key for key, entry in self._kept.items() if entry.is_dead)
        excess = self.num_bytes + num_bytes - self.budget
        stale = []
        for key, entry in self._kept.items():
            if excess <= 0 or entry.last_use > since:
                break
            stale.append(key)
            excess -= entry.num_bytes
        if excess > 0:
            return False
        self._drop(stale)
        return True

    def _drop(self, keys: Iterable[Hashable]) -> None:
        for key in list(keys):
            self.num_bytes -= self._kept.pop(key).num_bytes


def _identity(part: Tensor) -> Hashable:
    """What no other tensor has while a reference to the storage is held, weak or not."""
    version = 0 if part.is_inference() else part._version
    storage = part.untyped_storage()._cdata
    return storage, part.storage_offset(), part.shape, part.stride(), part.dtype, version


def default_budget(device: torch.device = CPU, members: int = 1) -> int:
    """Returns the bytes that the environment allows, or the default for the device.

    members: how many members of a session keep operands in the same memory.
    """
    if text := os.environ.get(BUDGET_VARIABLE, ""):
        if not text.isdecimal():
            raise ConfigError(
                f"{BUDGET_VARIABLE}={text!r}", limit="a number of MiB is needed, 0 to keep nothing"
            )
        return int(text) << 20
    each = DEFAULT_MIB << 20
    if device.type == "cuda":
        each = torch.cuda.get_device_properties(device).total_memory // 8
    return each * min(members, MOST_SHARES) // members


def _without_parts(sums: Sequence[Tensor], right: Sequence[Parts]) -> list[Tensor | None]:
    """The sums, without those that are a part: keeping them would keep the part alive."""
    return [total if len(parts) > 1 else None for total, parts in zip(sums, right, strict=True)]


def _with_parts(
    operand: Prepared | list[Tensor | None] | None, right: Sequence[Parts]
) -> Prepared | list[Tensor]:
    assert operand is not None
    if isinstance(operand, Prepared):
        return operand
    pairs = zip(operand, right, strict=True)
    return [parts[0] if total is None else total for total, parts in pairs]


def _num_bytes(tensors: Iterable[Tensor | None]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)
