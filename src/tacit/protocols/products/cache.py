"""Right operands of products that a party keeps prepared: the weights of a model that only infers.

A right operand is a sum of parts, and parts are never written to after they are made. So the
storage that a part lies in, and where in it, say which part it is, also through views that are
made anew in every call (the transpose in a dense layer). A weak reference to the storage keeps its
number from being given to another one.

The first product with an operand only notes it: what is multiplied with once, as in training,
costs nothing. The second prepares it, if the budget allows.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ...errors import ConfigError
from ...kernels import Plan, Prepared
from ...transport import CPU, fetched
from .bilinear import MUL, Bilinear
from .chunks import Term, cut_sum

VARIABLE = "TACIT_KEEP_MIB"
DEFAULT_MIB = 1024
PLANS = 4096  # for as many forms of operands
NOTED = 1024  # operands that were multiplied with once, and are remembered


@dataclass
class Entry:
    """A right operand that was used: when last, and what is kept of it."""

    storages: list[StorageWeakRef]
    used: int
    kept: Prepared | list[Tensor | None] | None = None  # None in a list: the only part is the sum
    num_bytes: int = 0

    @property
    def is_dead(self) -> bool:
        return any(storage.expired() for storage in self.storages)


@dataclass
class Memo:
    """What one party keeps. `budget` is in bytes; 0 keeps nothing.

    TACIT_KEEP_MIB in the environment sets it, in MiB; without, it is 1024, or an eighth of a GPU.
    Each party has its own: what is kept changes no message. When the budget is spent, an operand
    takes the place of those that were not used since its own last use; so a model that does not
    fit is kept in part, and not prepared over and over.
    """

    budget: int = field(default_factory=lambda: default_budget())
    limit: int | None = None  # of the bytes that a product takes where it is made
    away: torch.device | None = None  # where products are made, if not on the CPU, as the rest
    num_bytes: int = 0
    holder: list[Any] | None = None  # gets what is used, as long as it is there
    _clock: int = 0
    _noted: OrderedDict[Hashable, Entry] = field(default_factory=OrderedDict, repr=False)
    _plans: dict[Hashable, Plan | None] = field(default_factory=dict, repr=False)
    _kept: OrderedDict[Hashable, Entry] = field(default_factory=OrderedDict, repr=False)

    def sum(self, op: Bilinear, terms: Sequence[Term]) -> Tensor:
        """The sum of op(left, sum of parts) over the terms, whose shapes are equal.

        On a CPU a weight is at most copied, and what is kept of it serves all rows: not cut.
        """
        if self.away is None or op == MUL:
            return cut_sum(op, terms, self.limit, self._sum, columns=terms[0][0].is_cuda)

        def there(op: Bilinear, terms: Sequence[Term]) -> Tensor:
            moved = [(a.to(self.away, non_blocking=True), parts) for a, parts in terms]
            return fetched(self._sum(op, moved))

        return cut_sum(op, terms, self.limit, there)

    def _sum(self, op: Bilinear, terms: Sequence[Term]) -> Tensor:
        left, right = zip(*terms, strict=True)
        like = right[0][0]
        if like.device != left[0].device:  # a tensor of that form, without its memory
            like = left[0].new_empty(()).expand(like.shape)
        plan = self._plan(op, left, like) if self.budget else None
        if plan is None or not (plan.num_bytes or any(len(parts) > 1 for parts in right)):
            return op.sum([(a, added(parts).to(a.device)) for a, parts in terms])
        parts = [part for some in right for part in some]
        key = (op, plan, tuple(map(len, right)), tuple(map(identity, parts)))
        kept = self._get(key, op, plan, right)
        if isinstance(kept, Prepared):
            return op.prepared_sum(left, kept)
        return op.sum([(a, b.to(a.device)) for a, b in zip(left, kept, strict=True)])

    def _plan(self, op: Bilinear, left: Sequence[Tensor], like: Tensor) -> Plan | None:
        """The operation's plan for operands of these forms, asked for once."""
        form = (op, len(left), left[0].shape, like.shape, like.dtype, like.device)
        if form not in self._plans:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[form] = op.plan(left, like)
        return self._plans[form]

    def _get(
        self, key: Hashable, op: Bilinear, plan: Plan, right: Sequence[Sequence[Tensor]]
    ) -> Prepared | list[Tensor]:
        """The right operands as they are kept, or just their sums."""
        self._clock += 1
        if entry := self._kept.get(key):
            self._kept.move_to_end(key)
            entry.used = self._clock
            if self.holder is not None:
                self.holder.append(entry.kept)
            return _with_parts(entry.kept, right)
        sums = [added(parts).to(self.away or parts[0].device) for parts in right]
        if entry := self._noted.pop(key, None):
            entry.num_bytes = plan.num_bytes or _num_bytes(_made(sums, right))
            last, entry.used = entry.used, self._clock
            if self._make_room(entry.num_bytes, last):
                entry.kept = op.prepare(sums, plan) if plan.num_bytes else _made(sums, right)
                self.num_bytes += entry.num_bytes
                self._kept[key] = entry
                return _with_parts(entry.kept, right)
        else:
            storages = [StorageWeakRef(part.untyped_storage()) for some in right for part in some]
            entry = Entry(storages, self._clock)
            self._drop(key for key, old in self._kept.items() if old.is_dead)
        self._noted[key] = entry
        if len(self._noted) > NOTED:
            self._noted.popitem(last=False)
        return sums

    def _make_room(self, num_bytes: int, last: int) -> bool:
        """Whether so many bytes fit, after dropping what was not used since `last`."""
        self._drop(key for key, entry in self._kept.items() if entry.is_dead)
        excess = self.num_bytes + num_bytes - self.budget
        stale = []
        for key, entry in self._kept.items():
            if excess <= 0 or entry.used > last:
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


def added(parts: Sequence[Tensor]) -> Tensor:
    """The sum of parts; of one, itself."""
    first, *others = parts
    return sum(others, first)


def identity(part: Tensor) -> Hashable:
    """What no other tensor has as long as a reference to the storage is held, weak or not."""
    version = 0 if part.is_inference() else part._version
    storage = part.untyped_storage()._cdata
    return storage, part.storage_offset(), part.shape, part.stride(), part.dtype, version


def default_budget(device: torch.device = CPU) -> int:
    """The bytes that the environment allows, or that suit the device."""
    if device.type == "cuda" and VARIABLE not in os.environ:
        return torch.cuda.get_device_properties(device).total_memory // 8
    text = os.environ.get(VARIABLE, str(DEFAULT_MIB))
    if not text.isdecimal():
        raise ConfigError(f"{VARIABLE}={text!r}: a number of MiB is needed, 0 to keep nothing")
    return int(text) << 20


def _made(sums: Sequence[Tensor], right: Sequence[Sequence[Tensor]]) -> list[Tensor | None]:
    """The sums that are not a part, which would stay alive as long as it is kept."""
    return [total if len(parts) > 1 else None for total, parts in zip(sums, right, strict=True)]


def _with_parts(
    kept: Prepared | list[Tensor | None] | None, right: Sequence[Sequence[Tensor]]
) -> Prepared | list[Tensor]:
    assert kept is not None
    if isinstance(kept, Prepared):
        return kept
    return [parts[0] if total is None else total for total, parts in zip(kept, right, strict=True)]


def _num_bytes(tensors: Iterable[Tensor | None]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)
