"""What a function does while its work on a GPU is captured: on the GPU, and beside it on the host.

Work on the host is done at once and recorded as a plan: public numbers that differ from call to
call are computed and copied to the GPU before the graph that reads them is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_map

from ...fixedpoint import Numbers
from ...kernels.backend import load_native, native_replaced
from ...kernels.launches import launches_noted
from ...tensor import SecretTensor
from ...tensor.secret import Cell
from ...tensor.trace import is_download, is_upload, targets
from .optimizer_observer import OptimizerObserver
from .optimizer_steps import OptimizerSteps
from .plan import Work
from .plan_observer import READING, PlanObserver, shaping
from .plan_recorder import PlanRecorder, RecordedKernels

if TYPE_CHECKING:
    from ...protocols.context import Context

aten = torch.ops.aten
# Of torch.optim.Optimizer, by its names in different versions.
HEALTH_CHECKS = ("_cuda_graph_capture_health_check", "_accelerator_graph_capture_health_check")


class GraphObserver(PlanObserver):
    """Finds whether a function can be recorded as a graph.

    Nothing is computed while a graph is captured. So the function must not keep what it makes, but
    in results, in tensors that it writes, and as gradients.
    can_resume: whether work of the GPU may follow from what it has copied to the host.
    """

    can_resume = False

    def __init__(self) -> None:
        super().__init__()
        self._has_downloaded = False

    def note_new(self, cell: Cell) -> None:
        super().note_new(cell)
        self._made.append(ref(cell))

    def note_results(self, secrets: Sequence[SecretTensor]) -> None:
        gradients = [used.tensor.grad for used in self.leaves.values()]
        returned = [x for x in (*secrets, *gradients) if isinstance(x, SecretTensor)]
        known = {id(x._cell) for x in returned}
        if any((cell := made()) is not None and id(cell) not in known for made in self._made):
            self.refuse("it keeps a secret that it does not return")
        self._made.clear()

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        result = super().run(func, args, kwargs, found)
        if is_download(func, args, kwargs):
            self._has_downloaded = True
            self.note_late(result)
        return result

    def _obstacle(
        self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]
    ) -> str | None:
        if any(x.is_cuda for x in found):
            return self._obstacle_on_gpu(func, args, kwargs, found)
        if is_upload(func, args, kwargs) and self._is_resumed(found):
            return RESUMES
        return super()._obstacle(func, args, kwargs, found)

    def _obstacle_on_gpu(
        self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]
    ) -> str | None:
        if func.overloadpacket in READING or any(x.is_cuda for x in shaping(func, args, found)):
            return f"{func} reads numbers back from the GPU"
        if torch.Tag.nondeterministic_seeded in func.tags:
            return f"{func} draws public random numbers on the GPU"
        if is_download(func, args, kwargs):
            return None
        if self._is_resumed([x for x in found if not x.is_cuda]):
            return RESUMES
        if any(not self.is_new(target) for target in targets(func, args, kwargs)):
            return f"{func} writes to a public tensor that existed before"
        return None

    def _is_resumed(self, host: Sequence[Tensor]) -> bool:
        """Whether work of the GPU may follow from what was copied to the host, but must not."""
        if not self._has_downloaded or self.can_resume:
            return False
        return any(self._changes(x) or self.arguments.of(x) for x in host)


def on_gpu(nest: Any) -> list[Tensor]:
    """Returns the tensors of a GPU in a nest."""
    return [x for x in tree_leaves(nest) if isinstance(x, Tensor) and x.is_cuda]


RESUMES = "it computes with public numbers after it has revealed some"


class SegmentObserver(GraphObserver):
    """Finds whether a function can be recorded as graphs between which the host works."""

    can_resume = True


class Capture(PlanRecorder):
    """Traces a thread while a graph is captured.

    Constant tensors are copied from the host at once, on another stream: that is not part of the
    graph. `held` keeps their memory, and all older memory that the graph reads, alive as long as
    the graph. before_download: is called before the host takes what the GPU has computed.
    may_upload: whether the GPU has still to be started, or will be once more.
    """

    def __init__(
        self, context: Context, seen: OptimizerObserver, before_download: Callable[[], None]
    ) -> None:
        """seen: the trace of the call before."""
        super().__init__(context, seen)
        self._device, self._before_download = context.device, before_download
        self.steps = OptimizerSteps(before=seen.steps, device=self._device)
        self.held: dict[int, Any] = {}
        self.may_upload = True
        self._unchecked: list[Optimizer] = []
        # torch hands out 32 streams of each priority in turn: another priority is another stream.
        self._upload_stream = torch.cuda.Stream(self._device, priority=-1)

    @contextmanager
    def on(self, numbers: Numbers) -> Iterator[None]:
        native = load_native()
        kernels = (
            nullcontext() if native is None else native_replaced(RecordedKernels(native, self))
        )
        try:
            with super().on(numbers), kernels, launches_noted(self):
                yield
        finally:
            for optimizer in self._unchecked:
                for name in HEALTH_CHECKS:
                    vars(optimizer).pop(name, None)

    def begin_step(self, optimizer: Optimizer) -> None:
        super().begin_step(optimizer)
        if self.steps.running is not None:
            # torch forbids steps that count on the host in a graph. That part runs in each replay.
            vars(optimizer).update(dict.fromkeys(HEALTH_CHECKS, lambda: None))
            self._unchecked.append(optimizer)

    def note_reveal(self, admit: Callable[[int], None], number: int) -> None:
        """Records that a reveal is admitted; a capture reveals nothing."""
        self._note_admission(admit, number)

    @property
    def num_calls(self) -> int:
        """How many calls of operations the function has made."""
        return self._context.streams.number - self._first

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        if is_upload(func, args, kwargs):
            return self._uploaded(partial(func, *args, **kwargs), args[0])
        if is_download(func, args, kwargs):
            return self._downloaded(func, args, kwargs)
        given = [x for x in found if x.is_cuda]
        if not given and torch.device(kwargs.get("device") or "cpu").type == "cpu":
            return super().run(func, args, kwargs, found)
        for x in given:
            if not self.is_new(x):
                self._hold(x)
        if given:
            place = self._placed if func is aten.copy_.default else self._on_gpu
            args, kwargs = tree_map(place, (args, kwargs))
        return self._run_on_gpu(func, args, kwargs)

    def _run_on_gpu(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Runs an operation of which at least the results are on the GPU."""
        return func(*args, **kwargs)

    def _uploaded(self, upload: Callable[[], Tensor], source: Tensor) -> Tensor:
        """Copies a tensor to the GPU: once, or before each replay if it may differ then."""
        with torch.cuda.stream(self._upload_stream):
            made = upload()
        self._upload_stream.synchronize()
        self._hold(made)
        if self._changes(source):
            if not self.may_upload:
                self.refuse(RESUMES)
            self._append(Work(Tensor.copy_, (made, self.arena.alias(source)), {}), [made])
        return made

    def _downloaded(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        """Returns memory of the host that a replay copies a tensor of the GPU to."""
        is_copy = func is aten.copy_.default
        source = args[1] if is_copy else args[0]
        dtype = kwargs.get("dtype") or source.dtype
        place = (
            args[0]
            if is_copy
            else self.arena.empty_like(torch.empty_like(source, dtype=dtype, device="cpu"))
        )
        self._hold(source)  # its memory is used for nothing else in the graph
        self.note_late(place)
        self._before_download()
        self._append(Work(Tensor.copy_, (self.arena.alias(place), source), {}), [place])
        return place

    def _on_gpu(self, x: Any) -> Any:
        """Returns a public tensor of the host on the GPU; the graph would read freed memory.

        A single number that does not change becomes an argument of the kernel.
        """
        if isinstance(x, Tensor) and x.is_cpu and not x.dim() and not self._changes(x):
            return x
        return self._placed(x)

    def _placed(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_cpu:
            return x
        return self._uploaded(lambda: x.to(self._device), x)

    def hold(self, tensor: Tensor) -> None:
        """Keeps memory of the host; that of a GPU is known by the launches of its kernels."""
        if not tensor.is_cuda:
            super().hold(tensor)

    def note_launch(
        self, start: Callable[..., None], args: tuple[Any, ...], written: Sequence[Tensor]
    ) -> None:
        """Keeps the older memory that a kernel of a GPU uses: no call of torch may have it."""
        for x in on_gpu(args):
            if not self.is_new(x):
                self._hold(x)

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.held[storage._cdata] = storage

    def drop_constant_work(self) -> None:
        """Drops the steps of the host that nothing depends on but constants of the graph."""
        uses, before = self.memory.uses, self.memory.predecessors()
        results = self.arena.used_blocks()
        waiting = [
            i
            for i, use in enumerate(uses)
            if use.is_on_gpu
            or use.written_outside
            or use.ordered
            or not results.isdisjoint(use.written)
        ]
        needed = set(waiting)
        while waiting:
            new = set(before[waiting.pop()]) - needed
            needed |= new
            waiting += new
        dropped = {id(use.step) for i, use in enumerate(uses) if i not in needed}
        self.plan.steps = [step for step in self.plan.steps if id(step) not in dropped]
        self.memory.uses = [use for use in uses if id(use.step) not in dropped]
