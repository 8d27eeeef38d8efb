"""Would a ring of 16 bits pay? Trained networks in fixed point, simulated in plain torch.

Every layer adds up its products modulo 2^16, as a party's shares do, and the division that follows
is exact. For each layer the fraction bits of the sum are as many as the largest sum of the
calibration pictures leaves, with one bit to spare or none; the way in which they are divided
between operand and weights is the one with the smallest error. The same in 32 and in 64 bits.
A wrap is a sum that left the ring: it is wrong by a multiple of 2^16.
Then what the ring would save: bytes of a convolution's output with its ReLU by the declared costs,
and byte products of a multiplication.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, one_thread, words
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.kernels import matmul
from tacit.nn import fold_batch_norm
from tacit.protocols import Quad, Trio
from tacit.zoo import mlp

from . import trained, vision

PICTURES, CALIBRATION = 1_000, 64
BYTE_PRODUCTS = {64: 18, 32: 10, 16: 3}  # residues; digits of a byte, of which the low ones count
SIZE = 512
RINGS = ((32, torch.int32), (64, torch.int64))
RANGE_BITS = 5


@dataclass(frozen=True)
class Form:
    """A ring, and how many of its bits the calibrated sums leave free.

    `fraction_bits`: of operands and weights alike, instead of calibrating them.
    """

    ring: int
    spare: int = 0
    fraction_bits: int | None = None

    @property
    def title(self) -> str:
        if self.fraction_bits is not None:
            return f"{self.ring} bits, {self.fraction_bits} of them fraction bits"
        return f"{self.ring} bits, calibrated, {self.spare} to spare"


SETTINGS = {form.ring: form for form in (Form(16, 0, 5), Form(32, 0, 10), Form(64, 0, 16))}
FORMS = [Form(16, 0), Form(16, 1), Form(32, 1), Form(64, fraction_bits=16)]


class FixedPoint(nn.Module):
    """A linear layer, a convolution or a batch normalisation, on numbers of a ring."""

    def __init__(self, layer: nn.Module, form: Form) -> None:
        super().__init__()
        self.layer, self.form = copy.deepcopy(layer).double(), form
        self.normalises = isinstance(layer, nn.BatchNorm2d)
        self.bits: tuple[int, int] | None = None  # of the fraction of operand and weights
        self.sums = self.wraps = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.bits is None:
            self.bits = self.calibrated(x)
        result, wrapped = self.computed(x, *self.bits)
        self.sums += wrapped.numel()
        self.wraps += int(wrapped.sum())
        return result

    def calibrated(self, x: Tensor) -> tuple[int, int]:
        """The fraction bits with the smallest error for these operands."""
        if self.form.fraction_bits is not None:
            return self.form.fraction_bits, self.form.fraction_bits
        weight, bias = self.weights()
        plain = self.product(x, weight) + bias
        room = self.form.ring - 1 - self.form.spare
        total = room - magnitude(plain)
        most = room - magnitude(x)
        options = [(operand, total - operand) for operand in range(-4, min(most, total) + 1)]
        return min(options, key=lambda bits: self.error(x, plain, bits))

    def error(self, x: Tensor, plain: Tensor, bits: tuple[int, int]) -> float:
        return float((self.computed(x, *bits)[0] - plain).square().mean())

    def computed(self, x: Tensor, operand_bits: int, weight_bits: int) -> tuple[Tensor, Tensor]:
        """The result of the ring, and which sums left it. float64 holds all integers here."""
        weight, bias = self.weights()
        exact = self.product(
            torch.floor(x * 2.0**operand_bits), torch.round(weight * 2.0**weight_bits)
        ) + torch.round(bias * 2.0 ** (operand_bits + weight_bits))
        half = 2.0 ** (self.form.ring - 1)
        wrapped = (exact >= half) | (exact < -half)
        inside = torch.where(wrapped, torch.remainder(exact + half, 2 * half) - half, exact)
        return inside / 2.0 ** (operand_bits + weight_bits), wrapped

    def weights(self) -> tuple[Tensor, Tensor]:
        """The weights, and the bias in the shape of a result."""
        layer: Any = self.layer
        if self.normalises:
            weight = layer.weight / torch.sqrt(layer.running_var + layer.eps)
            bias = layer.bias - layer.running_mean * weight
        else:
            weight, bias = layer.weight, layer.bias
        shape = (-1,) if isinstance(layer, nn.Linear) else (-1, 1, 1)
        return weight, torch.zeros(()) if bias is None else bias.reshape(shape)

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        layer: Any = self.layer
        if self.normalises:
            return x * weight.reshape(-1, 1, 1)
        if isinstance(layer, nn.Linear):
            return F.linear(x, weight)
        return F.conv2d(x, weight, None, layer.stride, layer.padding)


def magnitude(x: Tensor) -> int:
    """The bits before the point that the largest needs."""
    return math.ceil(math.log2(max(float(x.abs().max()), 1e-9)))


def fixed_point(model: nn.Module, form: Form) -> nn.Module:
    """A copy of the network with every layer that multiplies in fixed point."""
    made = copy.deepcopy(model)
    for parent in list(made.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Conv2d | nn.Linear | nn.BatchNorm2d):
                setattr(parent, name, FixedPoint(child, form))
    return made


def accuracy_rows(name: str, model: nn.Module, sample: Tensor, x: Tensor, y: Tensor) -> list[Row]:
    """How many pictures a network names rightly in each form, beside plain torch."""
    with torch.no_grad():
        plain = torch.cat([model(part) for part in x.split(50)]).argmax(1)
        right = float((plain == y).double().mean())
        made = []
        for form in FORMS:
            network = fixed_point(model, form)
            network(sample.double())
            layers = [layer for layer in network.modules() if isinstance(layer, FixedPoint)]
            for layer in layers:
                layer.sums = layer.wraps = 0
            scores = torch.cat([network(part.double()) for part in x.split(50)])
            made.append(accuracy_row(name, form, scores.argmax(1), plain, y, right, layers))
            print(f"  {made[-1].name}: {made[-1].value:.1f} %; {made[-1].note}", flush=True)
    return made


def accuracy_row(
    name: str,
    form: Form,
    got: Tensor,
    plain: Tensor,
    y: Tensor,
    right: float,
    layers: list[FixedPoint],
) -> Row:
    sums, wraps = sum(one.sums for one in layers), sum(one.wraps for one in layers)
    bits = [one.bits for one in layers if one.bits is not None]
    operands, weights = ([one[i] for one in bits] for i in (0, 1))
    return Row(
        name=f"{name}, {form.title}",
        value=100 * float((got == y).double().mean()),
        unit="% right",
        baseline="plain torch",
        baseline_value=100 * right,
        note=f"{len(y)} pictures, same class as plain torch {(got == plain).double().mean():.1%}; "
        f"{wraps:,} of {sums:,} sums leave the ring; fraction bits of operands "
        f"{min(operands)} to {max(operands)}, of weights {min(weights)} to {max(weights)}",
    )


def digits_network() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A small network trained on digits; pictures to calibrate and to test with, and classes."""
    data = vision.needed("sklearn.datasets", "scikit-learn").load_digits()
    x, y = torch.tensor(data.data).float() / 16, torch.tensor(data.target)
    torch.manual_seed(0)
    model = mlp(64, 64, 32, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(x[:-500]), y[:-500]).backward()
        optimizer.step()
    return model.eval(), x[:CALIBRATION], x[-500:], y[-500:]


def cifar_network() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    images, labels = vision.cifar10_test()
    model = fold_batch_norm(trained.cifar10_network()).eval()
    return model, images[-CALIBRATION:], images[:PICTURES], labels[:PICTURES]


def resnet_network() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """ResNet-50; calibrated on two of the pictures in the mirror."""
    images, labels = vision.imagenet_pictures()
    model = fold_batch_norm(trained.resnet50()).eval()
    return model, vision.imagenet_pictures(mirrored=True)[0][:2], images, labels


def relu_bytes(protocol: type[Trio | Quad], form: Form) -> dict[int, float]:
    """The bytes that each party sends for an output of a convolution, its division and its ReLU.

    By the formulas of the declared costs, for sums below 2^RANGE_BITS.
    """
    costs, count = protocol.declared_costs(form.ring), 1 << 10
    shift = form.fraction_bits or 0
    sent: dict[int, float] = {}
    for one in (
        costs.bilinear(count, shift=shift),
        costs.signs(count, min(2 * shift + RANGE_BITS + 1, form.ring)),
        costs.inject(count, shift),
    ):
        for (sender, *_), bits in one.bits.items():
            sent[sender] = sent.get(sender, 0.0) + bits / 8 / count
    return sent


def cost_rows() -> list[Row]:
    """The bytes of a convolution's output and its ReLU, and the time of a product, by rings."""
    made = []
    for name, protocol in (("trio", Trio), ("quad", Quad)):
        base = relu_bytes(protocol, SETTINGS[32])
        for form in SETTINGS.values():
            mine = relu_bytes(protocol, form)
            by_party = ", ".join(f"{mine[party]:.1f}" for party in sorted(mine))
            made.append(
                Row(
                    name=f"{name}, {form.title}: an output and its ReLU",
                    value=max(mine.values()),
                    unit="bytes",
                    baseline="32 bits",
                    baseline_value=max(base.values()),
                    lower_is_better=True,
                    note=f"by the busiest party; by each that sends {by_party}; sums below "
                    f"2^{RANGE_BITS}",
                )
            )
    return made + product_rows()


def product_rows() -> list[Row]:
    """The time of a product of matrices: measured in rings that there are, estimated in 16 bits."""
    made = []
    operands = {ring: [words(SIZE, SIZE, dtype=dtype) for _ in range(2)] for ring, dtype in RINGS}
    calls: dict[str, Callable[[], object]] = {
        str(ring): partial(matmul, *pair) for ring, pair in operands.items()
    }
    with one_thread():
        seconds = interleaved(calls)
    estimate = seconds["32"] * BYTE_PRODUCTS[16] / BYTE_PRODUCTS[32]
    for ring, value, how in (
        (16, estimate, "estimated from 32 bits: 3 byte products in place of 10"),
        (64, seconds["64"], "measured: 18 byte products"),
    ):
        made.append(
            Row(
                name=f"matmul {SIZE} x {SIZE} x {SIZE}, {ring} bits",
                value=1e3 * value,
                unit="ms",
                baseline="32 bits, measured",
                baseline_value=1e3 * seconds["32"],
                lower_is_better=True,
                note=how,
            )
        )
    return made


def rows() -> list[Row]:
    return [
        *accuracy_rows("digits", *digits_network()),
        *accuracy_rows("CIFAR-10 network", *cifar_network()),
        *accuracy_rows("ResNet-50", *resnet_network()),
        *cost_rows(),
    ]
