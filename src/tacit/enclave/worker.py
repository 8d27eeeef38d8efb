"""A worker: computes products of numbers that look uniform to it, until the enclave ends.

It holds no secret but the keys of its own random operands. An answer is correct or is noticed by
the enclave, so that a worker needs no trust but that it tells no other worker what it sees.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import FrameRejected
from ..transport import CPU, Mesh
from .mask_keys import MaskKeys
from .messages import End, Operand, Task, parse
from .worker_roles import DUTIES, Parts

ENCLAVE, WORKER = 0, 1  # the ranks of the two members of a link


def serve(mesh: Mesh, device: torch.device = CPU) -> None:
    """Answers the tasks of the enclave at the other end of the link, until it ends or fails.

    Operands are received, drawn, kept and multiplied on `device`. Malformed messages raise
    FrameRejected, and the enclave learns that the worker has failed.
    """
    with mesh:
        mesh.place(device)
        worker = Worker(device)
        while True:
            message = parse(mesh.exchange_bytes({}, [ENCLAVE])[ENCLAVE])
            if isinstance(message, End):
                return
            if isinstance(message, MaskKeys):
                worker.keys = message
                continue
            answer = worker.answer(message, _received(mesh, message))
            mesh.exchange({ENCLAVE: [answer]}, {}, operation=message.number)


def _received(mesh: Mesh, task: Task) -> list[Tensor]:
    """Returns the operands that the enclave sends with a task."""
    if not task.received:
        return []
    return mesh.exchange({}, {ENCLAVE: task.received}, operation=task.number)[ENCLAVE]


class Worker:
    """The state of a worker: its keys, the masked operands that it keeps, and its last masks."""

    def __init__(self, device: torch.device = CPU, keys: MaskKeys | None = None) -> None:
        self.keys = keys
        self._device = device
        self._kept: dict[int, Tensor] = {}
        self._masks: dict[int, Tensor] = {}  # of the last task: pieces have the same operands

    def answer(self, task: Task, received: list[Tensor]) -> Tensor:
        """Returns the answer to a task whose sent operands are `received`."""
        for operand, tensor in zip(task.sent, received, strict=True):
            if operand.number in self._kept:
                raise FrameRejected(f"operand {operand.number} was sent twice")
            self._kept[operand.number] = tensor
        a, b = (self._parts(task, operand) for operand in (task.a, task.b))
        self._masks = {task.a.number: a.mask, task.b.number: b.mask}
        answer = DUTIES[task.role].answer(task.op, a, b)
        for number in task.forgotten:
            self._kept.pop(number, None)
        return answer

    def _parts(self, task: Task, operand: Operand) -> Parts:
        """Returns what this worker has of an operand."""
        duty, dtype = DUTIES[task.role], task.ring.dtype
        masked = torch.empty(0, dtype=dtype, device=self._device)
        if duty.receives:
            masked = self._kept.get(operand.number, masked)
            if masked.shape != operand.shape or masked.dtype != dtype:
                raise FrameRejected(f"there is no operand {operand.number} of {operand.shape}")
        if self.keys is None or len(self.keys.keys) != len(duty.mask_parts):
            raise FrameRejected(f"the task {task.role.name} needs other keys than this worker has")
        mask = self._masks.get(operand.number)
        if mask is None or mask.shape != operand.shape or mask.dtype != dtype:
            mask = self.keys.mask(operand.number, operand.shape, dtype, self._device)
        return Parts(mask, masked)
