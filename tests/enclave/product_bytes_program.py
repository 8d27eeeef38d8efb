"""Prints, for many products, by how much the process grows, and what they are said to take.

Arguments: ways of outsourcing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product

import torch
from tests.enclave.grown import growth
from tests.enclave.workers import KEY
from torch import Tensor

from tacit.enclave.trusted import outsourcing
from tacit.enclave.trusted.masking import MODES, MaskedProduct
from tacit.enclave.trusted.outsourcing import Outsourcer
from tacit.enclave.trusted.product_bytes import product_bytes
from tacit.enclave.trusted.quantise import PRECISIONS
from tacit.enclave.trusted.sealed_memory import open_memory
from tacit.enclave.worker_roles import Role
from tacit.protocols.products.bilinear import MATMUL, Bilinear, Conv, ConvGradInput, ConvGradWeight
from tacit.ring import Window

Case = tuple[Bilinear, tuple[int, ...], tuple[int, ...]]


def convolutions(images: int, channels: int, outputs: int, size: int, **window: int) -> list[Case]:
    """A convolution and its gradients."""
    made = Window.make(
        2, window.get("stride", 1), window["kernel"] // 2, 1, window.get("groups", 1)
    )
    image = (images, channels, size, size)
    weight = (outputs, channels // made.groups, window["kernel"], window["kernel"])
    output = made.output_shape(image, weight)
    return [
        (Conv(made), image, weight),
        (ConvGradInput(made, image), weight, output),
        (ConvGradWeight(made, weight), image, output),
    ]


CASES = [
    *convolutions(8, 32, 32, 32, kernel=3),
    *convolutions(16, 128, 128, 8, kernel=3),
    *convolutions(8, 16, 16, 32, kernel=5),
    *convolutions(8, 16, 32, 33, kernel=3, stride=2),
    *convolutions(16, 32, 32, 24, kernel=3, groups=32),
    (MATMUL, (1000, 300), (300, 300)),
    (MATMUL, (100, 3000), (3000, 100)),
    (MATMUL, (40, 80, 80), (40, 80, 80)),
]


class Answers:
    """In the place of the links to workers: the first returns the product, the others zeros."""

    product: Tensor

    def __init__(self, links: dict[int, object]) -> None:
        self._workers = list(links)

    def tell(self, *_: object) -> None: ...

    def begin(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def answers(self) -> dict[int, Tensor]:
        found = [self.product.clone(), *(torch.zeros_like(self.product) for _ in self._workers[1:])]
        return dict(zip(self._workers, found, strict=True))


def measure(mode: str, precision: str, case: Case) -> None:
    op, *shapes = case
    memory = open_memory(1 << 30, bytes(32))
    roles, kind = MODES[mode], PRECISIONS[precision]
    most = (1 << kind.bits - 1) - 1
    a, b = (torch.randint(-most, most + 1, shape).float() for shape in shapes)
    for x in (a, b):
        x.view(-1)[0] = most
        memory.adopt(x, "a test")
    Answers.product = op(*(x.to(kind.ring.dtype) for x in (a, b))).contiguous()
    enclave = Outsourcer([None for _ in roles], mode, precision=precision, key=KEY, memory=memory)
    operands = [enclave._operands.get("a test", x) for x in (a, b)]
    with growth() as grown:
        enclave._in_blocks("a test", op, *operands, torch.float32)
        found = grown()
    said = product_bytes(kind, roles, op, *shapes)
    print(found, said, mode, precision, type(op).__name__, *shapes, sep="|", flush=True)


if __name__ == "__main__":
    outsourcing.WorkerLinks = Answers
    inside = MaskedProduct.computed_inside

    def no_terms(self: MaskedProduct, roles: Sequence[Role]) -> Tensor | None:
        made = inside(self, roles)
        return None if made is None else made.zero_()

    MaskedProduct.computed_inside = no_terms  # type: ignore[method-assign]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    measure("three-server", "swalp", (MATMUL, (2, 2), (2, 2)))  # loads what is loaded late
    for mode, precision in product(sys.argv[1:], PRECISIONS):
        if precision != "goten":
            for case in CASES:
                measure(mode, precision, case)
