"""Which existing tensors a function of secrets reads and writes, and whether it can be replayed.

A function whose operations are recorded and replayed without running its code must depend on
secrets only, and change only secrets: public values are fixed when it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.optim import Optimizer

from ..fixedpoint import Numbers, Value
from ..kernels.dispatch_mode import DispatchMode, leaves
from .secret import Cell, SecretTensor
from .seen_memory import SeenMemory

aten = torch.ops.aten

WRITTEN = -1  # a version that no cell has


class Used(NamedTuple):
    """An existing leaf tensor (a parameter), as it was when it was used."""

    tensor: SecretTensor
    cell: Cell
    requires_grad: bool

    def is_same(self) -> bool:
        """Whether the tensor still has its cell and still requires a gradient or not."""
        return self.tensor._cell is self.cell and self.tensor.requires_grad == self.requires_grad


class Trace(DispatchMode):
    """Watches the operations of one thread.

    cells: the cells of existing tensors that were used, with their versions. values: the values in
    them. leaves: existing tensors that may have received gradients.
    obstacle: why the function cannot be replayed, or None. public_state: existing public tensors
    that were written, by storage; only a subclass allows any.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cells: dict[int, tuple[Cell, int]] = {}
        self.values: dict[int, Value] = {}
        self.leaves: dict[int, Used] = {}
        self._public: dict[int, SeenMemory] = {}  # by storage
        self.public_state: dict[int, Tensor] = {}
        self.obstacle: str | None = None
        self._numbers: Numbers | None = None
        # Identities of new cells and storages. One may be reused, but never for an existing tensor.
        self._new: set[int] = set()

    @contextmanager
    def on(self, numbers: Numbers) -> Iterator[None]:
        """Watches the secrets of this session, and all other tensors."""
        numbers.trace, self._numbers = self, numbers
        try:
            with self:
                yield
        finally:
            numbers.trace = None

    def note_new(self, cell: Cell) -> None:
        """Notes that a cell is new."""
        self._new.add(id(cell))

    def note_use(self, tensor: SecretTensor) -> None:
        """Notes that a tensor is read or written; an existing one is kept with its version."""
        cell = tensor._cell
        if id(cell) in self._new:
            return
        if id(cell) not in self.cells:
            self.cells[id(cell)] = cell, cell.version
            self.values[id(cell)] = cell.value
        if id(tensor) not in self.leaves and tensor.is_leaf:
            self.leaves[id(tensor)] = Used(tensor, cell, tensor.requires_grad)

    def note_write(self, tensor: SecretTensor) -> None:
        """Notes that a tensor is about to be written."""
        self.note_use(tensor)

    def note_call(self, func: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Notes a call of the program on secrets; returns the arguments to compute with."""
        return args, kwargs

    def begin_step(self, optimizer: Optimizer) -> None:
        """Notes that an optimizer begins its step."""

    def begin_closure(self) -> None:
        """Notes that a step calls its closure: the program's code."""

    def end_closure(self) -> None:
        """Notes that the closure has ended, and that the step goes on."""

    def end_step(self) -> None:
        """Notes that the step of an optimizer has ended."""

    @property
    def followed_optimizers(self) -> Set[int]:
        """The identities of optimizers whose settings may change without a new recording."""
        return frozenset()

    def note_arguments(self, others: Sequence[Any], varying: Set[int]) -> None:
        """Tells of the function's arguments that are not secret; the contents of some vary."""

    @property
    def shared_arguments(self) -> Set[int]:
        """The places of those that are shared, if that is allowed."""
        return frozenset()

    @property
    def used_arguments(self) -> Set[int]:
        """The places of those whose contents decide or are operands, if some may be shared."""
        return frozenset()

    def note_results(self, secrets: Sequence[SecretTensor]) -> None:
        """Notes that the function has returned, and the secrets among its results."""

    def note_shared(self, value: Any) -> None:
        """Notes that plain numbers are about to be shared."""
        self.refuse("it shares plain numbers, which may be others the next time")

    def check_input(self, check: Callable[[Tensor], None], values: Tensor) -> None:
        """Calls a function that checks the owner's numbers, in every replay too."""
        check(values)

    def bounded(self, x: Tensor) -> Tensor:
        """Returns public numbers, with a bound of them that holds in replays, if they may differ.

        By such a bound a rule decides, and not by the numbers of one call.
        """
        return x

    def note_revealed(self, tensor: Tensor) -> None:
        """Notes a public tensor that holds what was revealed."""

    def refuse(self, obstacle: str) -> None:
        """Notes why the function cannot be replayed; the first reason counts."""
        self.obstacle = self.obstacle or obstacle

    def is_new_secret(self, tensor: SecretTensor) -> bool:
        """Whether the secret tensor is not an alias of an existing one."""
        return id(tensor._cell) in self._new

    def forget(self, tensors: Sequence[SecretTensor] = ()) -> None:
        """Releases the values that were used, and forgets these tensors."""
        self.values.clear()
        for tensor in tensors:
            self.cells.pop(id(tensor._cell), None)
            self.leaves.pop(id(tensor), None)

    def replace(self, old: Cell, new: Cell) -> None:
        """Notes that a cell is written, and that another one may have taken its place."""
        if self.cells.pop(id(old), None) is not None:
            self.cells[id(new)] = new, WRITTEN
        if new is not old:
            self.leaves = {i: used for i, used in self.leaves.items() if used.cell is not old}

    def is_same(self) -> bool:
        """Whether parameters and public tensors are unchanged; secret values may differ.

        Public tensors that the function writes may differ too.
        """
        public = all(
            seen.is_same()
            for storage, seen in self._public.items()
            if storage not in self.public_state
        )
        return public and all(used.is_same() for used in self.leaves.values())

    def written(self) -> list[Cell]:
        """The cells of existing tensors that have a new value."""
        return [cell for cell, version in self.cells.values() if cell.version != version]

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = leaves((args, kwargs))
        found = self._with_memory(x for x in given if not isinstance(x, SecretTensor))
        self._note(found)
        if any(isinstance(x, SecretTensor) for x in given):
            return NotImplemented
        self._look(func, args, kwargs or {}, found)
        result = self.run(func, args, kwargs or {}, found)
        from_before = {_storage(x) for x in found} - self._new
        made = {_storage(x) for x in self._with_memory(leaves(result))}
        self._new |= made - from_before  # a view is as old as its base
        return result

    def _with_memory(self, found: Iterable[Any]) -> list[Tensor]:
        """Returns the tensors among these; sparse ones have several memories, and are refused."""
        tensors = [x for x in found if isinstance(x, Tensor)]
        strided = [x for x in tensors if x.layout is torch.strided]
        if len(strided) < len(tensors):
            self.refuse("it computes with a sparse tensor")
        return strided

    def _note(self, found: list[Tensor]) -> None:
        """Notes existing public tensors. Tensors on a GPU are parts of shares."""
        for x in found:
            if not x.is_cpu or x.is_inference() or self.is_new(x) or _storage(x) in self._public:
                continue
            seen = self._public[_storage(x)] = SeenMemory(x, not self._is_in_operation)
            if not seen.is_comparable:
                self.refuse("it computes with a large public tensor that an array of numpy shares")

    @property
    def _is_in_operation(self) -> bool:
        """Whether an operation on secrets is running: its public tensors may be parts of shares."""
        return self._numbers is not None and self._numbers.protocol.context.in_recorded_call

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        """Runs a public operation; subclasses may record it."""
        return func(*args, **kwargs)

    def is_new(self, tensor: Tensor) -> bool:
        """Whether the tensor's memory was allocated during the trace."""
        return _storage(tensor) in self._new

    def _look(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> None:
        if self.obstacle is None:
            self.obstacle = self._obstacle(func, args, kwargs, found)

    def _obstacle(
        self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]
    ) -> str | None:
        on_gpu = any(x.is_cuda for x in found)
        if torch.Tag.nondeterministic_seeded in func.tags:
            return f"{func} draws public random numbers"
        if on_gpu and (func is aten._local_scalar_dense.default or is_download(func, args, kwargs)):
            return f"{func} reads numbers back from the GPU (a reveal, or public random numbers)"
        for target in targets(func, args, kwargs):
            if not self.is_new(target):
                return f"{func} writes to a public tensor that existed before"
        return None


def is_upload(func: OpOverload, args: Any, kwargs: Any) -> bool:
    """Returns whether the operation copies a tensor from the host to a GPU."""
    return bool(_goes_to(func, args, kwargs) == "cuda" and args[0].is_cpu)


def is_download(func: OpOverload, args: Any, kwargs: Any) -> bool:
    """Returns whether the operation copies a tensor from a GPU to the host."""
    if func is aten.copy_.default:
        return bool(args[0].is_cpu and args[1].is_cuda)
    return bool(_goes_to(func, args, kwargs) == "cpu" and args[0].is_cuda)


def _goes_to(func: OpOverload, args: Any, kwargs: Any) -> str | None:
    """The type of device that a copying operation moves its tensor to, else None."""
    if func.overloadpacket not in (aten.to, aten._to_copy):
        return None
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    device = given["other"].device if "other" in given else given.get("device")
    return None if device is None else torch.device(device).type


def targets(func: OpOverload, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """Yields the tensors that an operation writes to."""
    if func is aten.record_stream.default:  # it tells torch who uses the memory, and writes nothing
        return
    for place, name in _written(func):
        given = kwargs.get(name, args[place] if place < len(args) else None)
        yield from (x for x in leaves(given) if isinstance(x, Tensor))


@cache
def _written(func: OpOverload) -> list[tuple[int, str]]:
    """The places and names of the arguments that an operation writes to."""
    arguments = enumerate(func._schema.arguments)
    return [(i, one.name) for i, one in arguments if one.alias_info and one.alias_info.is_write]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
