"""What a party's GPU does while it is captured, as steps that can be captured in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from ...tensor.trace import targets
from .capture import Capture, on_gpu
from .device_memory import DeviceStep
from .plan import Effect, Exchange, Tensors
from .plan_recorder import ALLOCATING

if TYPE_CHECKING:
    from ...protocols.steps import Round

aten = torch.ops.aten
MOVING = frozenset((aten.set_, aten.resize_, aten.resize_as_))  # they change a tensor's memory


class SegmentCapture(Capture):
    """Traces a thread while its work is captured, and notes that work.

    Calls of torch and launches of kernels are noted with the memory that they read and write. They
    are not kept alive: Forms stand for tensors. Nobody sees the work of blocks without modes; those
    on a GPU make constants, in the calls before, or copy messages.
    """

    def _run_on_gpu(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        given = on_gpu((args, kwargs))
        known = {self.memory.on_gpu.block(x) for x in given}
        form_args, form_kwargs = tree_map(self._form, (tuple(args), kwargs))
        result = super()._run_on_gpu(func, args, kwargs)
        if func is aten.record_stream.default or func.overloadpacket in ALLOCATING:
            return result
        if func.overloadpacket in MOVING:
            self.memory.is_known = False
        made = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        is_new = [x.is_cuda and self.memory.on_gpu.block(x) not in {None, *known} for x in made]
        new = [x for x, is_one in zip(made, is_new, strict=True) if is_one]
        written = [*new, *(x for x in targets(func, args, kwargs) if x.is_cuda)]
        if written:
            results = [
                self.memory.on_gpu.form(x) if is_one else None
                for x, is_one in zip(made, is_new, strict=True)
            ]
            self.memory.note_on_gpu(
                DeviceStep(func, form_args, form_kwargs, results), given, written
            )
        return result

    def note_launch(
        self, start: Callable[..., None], args: tuple[Any, ...], written: Sequence[Tensor]
    ) -> None:
        """Notes that a kernel is launched; `written`: what it writes."""
        super().note_launch(start, args, written)
        step = DeviceStep(start, tree_map(self._form, args), {}, [])
        self.memory.note_on_gpu(step, on_gpu(args), written)

    def note_round(self, one: Round, sent: Tensors, received: Tensors, operation: int) -> None:
        """Notes a round; operation: relative to the first."""
        sent_forms, received_forms = (
            {peer: tree_map(self._form, list(xs)) for peer, xs in tensors.items()}
            for tensors in (sent, received)
        )
        if not all(x.is_cuda or not x.numel() for xs in sent.values() for x in xs):
            self.memory.is_known = False  # memory of the host, which may have moved by then
        step = Exchange(self._context.mesh, one, sent_forms, received_forms, operation)
        self.memory.note_on_gpu(step, on_gpu(sent), on_gpu(received))

    def note_effect(self, step: Effect) -> None:
        """Records that a tensor is shown to a function; a capture shows nothing."""
        self._append(step, [])

    def _form(self, x: Any) -> Any:
        """Returns what stands for a tensor of the GPU, and a copy of a number of the host."""
        if not isinstance(x, Tensor):
            return x
        if x.is_cuda:
            return self.memory.on_gpu.form(x)
        with _disable_current_modes():
            return x.clone()
