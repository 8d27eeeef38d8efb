"""A worker: computes products of numbers that look uniform to it, until the enclave ends.

It holds no secret but the keys of its own random operands. An answer is correct or is noticed by
the enclave, so that a worker needs no trust but that it tells no other worker what it sees.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import FrameRejected
from ..transport import CPU, Mesh
from .mask_keys import MaskKey
from .messages import End, Task, parse
from .worker_roles import DUTIES, Pair

ENCLAVE, WORKER = 0, 1  # the ranks of the two members of a link


def serve(mesh: Mesh, device: torch.device = CPU) -> None:
    """Answers the tasks of the enclave at the other end of the link, until it ends or fails.

    Operands are received, drawn and multiplied on `device`. Malformed messages raise FrameRejected,
    and the enclave learns that the worker has failed.
    """
    key: MaskKey | None = None
    with mesh:
        mesh.place(device)
        while True:
            message = parse(mesh.exchange_bytes({}, [ENCLAVE])[ENCLAVE])
            if isinstance(message, End):
                return
            if isinstance(message, MaskKey):
                key = message
            else:
                _work(mesh, message, key)


def _work(mesh: Mesh, task: Task, key: MaskKey | None) -> None:
    """Receives the operands of a task and sends the answer."""
    received: list[Tensor] = []
    if task.received:
        incoming = {ENCLAVE: task.received}
        received = mesh.exchange({}, incoming, operation=task.number)[ENCLAVE]
    answer = answered(task, received, key, mesh.device)
    mesh.exchange({ENCLAVE: [answer]}, {}, operation=task.number)


def answered(
    task: Task, received: list[Tensor], key: MaskKey | None, device: torch.device
) -> Tensor:
    """Returns the answer to a task: the sum of products that its role names."""
    duty, pairs = DUTIES[task.role], list[Pair]()
    if duty.num_drawn:
        if key is None:
            raise FrameRejected(f"the task {task.role.name} came before the key that it needs")
        pairs.append(key.pair(task.number, (task.a, task.b), task.ring.dtype, device))
    pairs += zip(received[::2], received[1::2], strict=True)
    return duty.answer(task.op, pairs)
