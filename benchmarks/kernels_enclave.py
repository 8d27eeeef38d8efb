"""The passes of an enclave over an operand of VGG-11's first layer, against torch, one thread.

The last row is all that the enclave does for the products of one step of VGG-11 (a batch of 128
pictures of 32 x 32, forward and backward, three servers), beside the same products in float32
inside it. Workers answer with zeros, and the check is made but not heeded: their time is not
that of the enclave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, one_thread, rate
from torch import Tensor

from tacit import kernels
from tacit.enclave import worker
from tacit.enclave.trusted.outsourcing import Outsourcer
from tacit.kernels import quantisation
from tacit.kernels.contraction import contract
from tacit.protocols.products.bilinear import Bilinear, Conv, ConvGradInput, ConvGradWeight
from tacit.protocols.products.floats import in_floats
from tacit.ring import Window
from tacit.ring.reference import quantisation as reference
from tacit.transport import Mesh, memory_meshes

SHAPE = (128, 64, 32, 32)
BATCH = 128
# Input channels, output channels and width of VGG-11's convolutions on CIFAR-10.
LAYERS = (
    (3, 64, 32),
    (64, 128, 16),
    (128, 256, 8),
    (256, 256, 8),
    (256, 512, 4),
    (512, 512, 4),
    (512, 512, 2),
    (512, 512, 2),
)
KEYS = [bytes(range(n, n + 16)) for n in (1, 2)]
Call = Callable[[], object]
Product = tuple[Bilinear, Tensor, Tensor]


def passes() -> Iterator[tuple[str, Call, Call]]:
    """Each pass by its name, compiled and in torch."""
    x, q = torch.randn(SHAPE), torch.randint(-128, 128, SHAPE).to(torch.int8)
    c, words = q.int(), torch.empty(x.numel() // 2, dtype=torch.int32)
    factors = torch.randint(0, 1 << 15, (3, SHAPE[0]), dtype=torch.int32)

    def rounded() -> Tensor:
        halves = kernels.stream(KEYS[0], words, operation=1).view(torch.int16)
        return reference.quantise8(x, 4, halves.view(SHAPE))

    def masked() -> Tensor:
        made = q.int()
        for key in KEYS:
            kernels.mask(key, made, "sub", operation=1)
        return made

    def contracted(values: Tensor) -> Tensor:
        return kernels.matmul(factors.long(), values.flatten(1).long())

    yield "max|x| and hash", lambda: quantisation.summary(x), lambda: reference.max_abs(x)
    quantise = quantisation.quantise8
    yield "quantise", lambda: quantise(x, 4, KEYS[0], operation=1), rounded
    yield "mask", lambda: quantisation.masked8(q, KEYS, torch.empty_like(c), operation=1), masked
    yield "sum of answers", lambda: quantisation.add_three(c, c, c), lambda: c + c + c
    dequantise = quantisation.dequantise32
    yield "dequantise", lambda: dequantise(c, -9), lambda: reference.dequantise32(c, -9)
    small, wide = (v.view(1, SHAPE[0], -1) for v in (q, c))
    yield "contract 8 bits", lambda: contract(small, factors), lambda: contracted(q)
    yield "contract 32 bits", lambda: contract(wide, factors), lambda: contracted(c)


def pass_rows() -> Iterator[Row]:
    count = torch.Size(SHAPE).numel()
    for name, compiled, plain in passes():
        seconds = interleaved({"ours": compiled, "torch": plain})
        yield rate(name, count, "elements a ns", seconds, ("ours", "torch"))


class Unheeding(Outsourcer):
    """An outsourcer that goes on with wrong answers."""

    def _accuse(self, *_: Any) -> None:
        pass


class Idle(worker.Worker):
    """A worker that answers with zeros."""

    def answer(self, task: Any, received: list[Tensor]) -> Tensor:
        return torch.zeros(task.result.shape, dtype=task.result.dtype)


def idle_link() -> Mesh:
    enclave, other = memory_meshes(2)
    Thread(target=worker.serve, args=(other,), daemon=True).start()
    return enclave


def products() -> list[Product]:
    """All products of one step; the first layer needs no gradient of its input."""
    window, made = Window.make(2, 1, 1), list[Product]()
    for i, (inputs, outputs, width) in enumerate(LAYERS):
        x = torch.randn(BATCH, inputs, width, width)
        weight, grad = torch.randn(outputs, inputs, 3, 3), torch.randn(BATCH, outputs, width, width)
        made.append((Conv(window), x, weight))
        made.append((ConvGradWeight(window, tuple(weight.shape)), x, grad))
        if i:
            made.append((ConvGradInput(window, tuple(x.shape)), weight, grad))
    return made


def step_row() -> Row:
    worker.Worker = Idle  # type: ignore[misc]
    outsourcer = Unheeding([idle_link() for _ in range(3)], "three-server", key=bytes([7]) * 32)
    made = products()

    def outsourced() -> None:
        for _, a, b in made:
            a.add_(0), b.add_(0)  # as in a new step, every tensor is new to the first product
        for product in made:
            outsourcer.product(*product)

    calls: dict[str, Call] = {
        "ours": outsourced,
        "float32 inside": lambda: [in_floats(*product) for product in made],
    }
    seconds = interleaved(calls, repetitions=3)
    spent = outsourcer.counters.total
    note = ", ".join(f"{name} {s / 4 * 1e3:.0f} ms" for name, s in spent.seconds.items())
    outsourcer.close()
    return rate("products of a step of VGG-11", 1e9, "1/s", seconds, tuple(calls), note=note)


def rows() -> list[Row]:
    with one_thread():
        return [*pass_rows(), step_row()]
