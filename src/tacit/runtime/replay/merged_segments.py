"""Captures recorded steps of a GPU in another order, in which rounds are merged.

Each step of the GPU is done once more, in a capture: its memory is allocated by torch, in the new
order, at the first step that uses it, and freed after the last one. Memory that somebody still
holds, such as that of results, stays where it is.

NOTE [memory of graphs]: a graph has addresses and holds no memory. So everything that graphs or the
steps between them read or write is of one of two kinds. Either it is allocated in a capture, hence
from the pool that the graphs of one plan share: nobody else gets memory of that pool as long as one
of these graphs exists. Or somebody holds it as long as the plan. One by one:

- Results of steps, their temporaries, and received messages are allocated in captures. All graphs
  of a pool are captured, and replayed, one after another in one stream. If an allocation gets the
  memory of an earlier one, the last use of that was captured before, and so is replayed before. A
  round reads what it sends when it is begun, and writes what it receives when it is finished. Both
  are queued between the segments around them, and its memory is allocated before it is begun.
- A round that is not short (`SegmentExchange`) holds what it sends and receives. Its pinned copies
  (`into`, `PinnedCopies`) and the pinned memory of short rounds are the round's own. What it copies
  on the way (`device_copies.py`) is no memory of a graph, and is queued in the same stream.
- Memory from before the recording is held by the trace (`Capture.held`): operands of calls of torch
  (`Capture.run`) and of launches (`Capture.note_launch`), which no call of torch shows: settled
  parts of shares, weights that a cache has encoded, keys, numbers of optimizers.
- Public numbers are copied to the GPU outside of a capture, on another stream; the trace holds them
  too (`Capture._uploaded`). What is copied to the host (`Capture._downloaded`), or shown to a
  function (`Effect`), is held by the trace or by its step, so that the graphs use its memory for
  nothing else.
- Buffers of arguments, state and results, and gradients that are set, belong to the recording.
  Users get copies, which are made after the graphs.
- Memory of the first capture that somebody holds stays. If that one dies later, no capture follows
  that could get the memory, and nobody else can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from ...protocols.steps import Round
from .ahead_messages import SegmentRound
from .device_memory import DeviceStep, Form, bytes_of, is_form, placed
from .memory_use import StepUse
from .plan import Exchange, Tensors
from .relocation import Relocation, lifetimes, new_addresses
from .segment_capture import SegmentCapture
from .segments import Segments
from .step_order import RECEIVING, SENDING, Moment


class MergedSegments:
    """The steps of a trace, captured once more."""

    def __init__(self, trace: SegmentCapture, segments: Segments, device: torch.device) -> None:
        self._trace, self._segments, self._device = trace, segments, device
        self._memory: dict[int, Tensor] = {}  # a tensor in each block, by their numbers
        self._views: dict[int, dict[Form, Tensor]] = {}  # tensors in them, made when they are used
        self._sizes: dict[int, int] = {}
        self._held: frozenset[int] = frozenset()  # blocks whose memory stays where it is
        self._begun: tuple[SegmentRound, Tensors] | None = None

    @torch.inference_mode(False)
    @torch.no_grad()
    def capture(self, order: Sequence[Moment]) -> None:
        """Captures the steps in this order, in the place of the recorded ones."""
        with self._segments.recapturing(), _disable_current_modes():
            self._memory = self._trace.memory.on_gpu.held()
            self._held = frozenset(self._memory)
            self._sizes = {block.number: block.size for one in order for block in one.blocks}
            self._host = self._moved_host(order)
            turns, following = lifetimes(order, self._held), [*order[1:], None]
            for moment, after, turn in zip(order, following, turns, strict=True):
                self._capture(moment, after)
                for block in turn.last:
                    self._memory.pop(block.number, None)
                    self._views.pop(block.number, None)
            self._memory.clear()
            self._views.clear()

    def _moved_host(self, order: Sequence[Moment]) -> Relocation:
        """Returns where the memory of the host's steps is in this order."""
        arena = self._trace.arena
        fixed = arena.used_blocks().union(number for number in self._sizes if number < 0)
        return Relocation(arena, new_addresses(arena, order, fixed))

    def _capture(self, moment: Moment, after: Moment | None) -> None:
        kind, uses, operation = moment
        if kind == SENDING:
            assert operation is not None
            is_awaited = after is not None and after.kind == RECEIVING
            self._send([use.step for use in uses], operation, is_awaited)
        elif kind == RECEIVING:
            self._receive()
        elif isinstance(uses[0].step, DeviceStep):
            self._do(uses[0].step)
        else:
            self._add(uses[0])

    def _send(self, parts: Sequence[Any], operation: int, is_awaited: bool) -> None:
        """Adds one round in place of several. is_awaited: nothing is done until it is received."""
        merged = Exchange.merged(parts, operation)
        one = Round(receive=merged.receive, ahead=merged.ahead)
        sent, received = self._tensors(merged.sent), self._tensors(merged.places)
        if is_awaited:
            self._segments.add_round(one, sent, received, operation)
        else:
            made = self._segments.begin_round(one, sent, received, operation)
            self._begun = made, received

    def _receive(self) -> None:
        if self._begun is not None:
            self._segments.finish_round(*self._begun)
            self._begun = None

    def _do(self, step: DeviceStep) -> None:
        """Does a step of the GPU, whose results are the memory of their blocks from now on."""
        self._segments.resume()
        args, kwargs = self._tensors((step.args, step.kwargs))
        made = step.function(*args, **kwargs)
        found = [x for x in tree_leaves(made) if isinstance(x, Tensor)]
        for form, x in zip(step.results, found, strict=True):
            if form is None:
                continue
            if form.block is None or form.block in self._held or not form.is_of(x):
                self._tensor(form).copy_(x)
            else:
                self._memory[form.block], self._views[form.block] = x, {form: x}

    def _add(self, use: StepUse) -> None:
        """Adds a step of the host, after the work of the GPU that it reads the results of."""
        step = self._host.step(use)
        if any(block.number < 0 and block.number not in use.written for block in use.blocks):
            with self._segments.cut():
                self._trace.plan.steps.append(step)
        else:
            self._trace.plan.steps.append(step)

    def _tensors(self, nest: Any) -> Any:
        """Returns a nest with tensors in the place of Forms."""
        return tree_map(lambda x: self._tensor(x) if is_form(x) else x, nest, is_leaf=is_form)

    def _tensor(self, form: Form) -> Tensor:
        if form.block is None:
            return torch.empty(form.shape, dtype=form.dtype, device=self._device)
        if form.block not in self._memory:
            self._segments.resume()  # NOTE [memory of graphs]
            size = self._sizes[form.block]
            self._memory[form.block] = torch.empty(size, dtype=torch.uint8, device=self._device)
        views = self._views.setdefault(form.block, {})
        if form not in views:
            views[form] = placed(form, bytes_of(self._memory[form.block]))
        return views[form]
