"""Public numbers meet values whose division is pending, at every number of fraction bits.

A norm leaves the division of its last product pending. Numbers that are then put beside it, added
to it or compared with it must fit the ring together with that division.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, note
from hypothesis import strategies as st
from tests.tiers import draws
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit.errors import PartyFailed
from tacit.fixedpoint import value

INF = float("inf")
BIG = 12000.0  # less than what stands for infinity, with 22 fraction bits
BITS = (12, 16, 18, 20, 22)
EVEN = torch.arange(4) % 2 == 0
X = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(3))


def trained() -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(3).eval()
    norm.running_var.copy_(torch.tensor([0.5, 2.0, 1.1]))
    norm.running_mean.copy_(torch.tensor([-1.0, 0.2, 0.7]))
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([0.5, 2.0, -1.0]))
        norm.bias.copy_(torch.tensor([-9.0, -1.0, 4.0]))
    return norm


NORMS = {
    "batch norm": trained(),
    "batch norm in training": nn.BatchNorm2d(3, track_running_stats=False),
    "instance norm": nn.InstanceNorm2d(3),
    "group norm": nn.GroupNorm(3, 3, affine=False),
    "layer norm": nn.LayerNorm(4, elementwise_affine=False),
    "layer norm with weights": nn.LayerNorm(4),
}


def full(y: Tensor, number: float) -> Tensor:
    return torch.full((2, 3, 4, 4), number, dtype=torch.float64)


def written(y: Tensor, number: float) -> Tensor:
    y = y.clone()
    y[..., 0] = number
    return y


# What puts a large number beside a value, and what then reads both.
PLACED: dict[str, Callable[[Tensor], Tensor]] = {
    "pad": lambda y: F.pad(y, (1, 1, 1, 1), value=-INF),
    "pad by 1e30": lambda y: F.pad(y, (1, 1, 1, 1), value=-1e30),
    "pad by a number": lambda y: F.pad(y, (1, 1, 1, 1), value=-BIG),
    "cat": lambda y: torch.cat([y, full(y, -BIG)], -1),
    "cat of a secret": lambda y: torch.cat([y, y.new_full((2, 3, 4, 4), -BIG)], -1),
    "stack": lambda y: torch.stack([y, full(y, -BIG)], -1).flatten(-2),
    "where": lambda y: torch.where(EVEN, y, torch.tensor(-INF)),
    "secret where": lambda y: torch.where(y > 0, y, torch.tensor(-BIG)),
    "masked_fill": lambda y: y.masked_fill(EVEN, -1e9),
    "index_put": lambda y: y.index_put((torch.tensor([0]),), torch.tensor(-BIG).to(y.dtype)),
    "index_fill": lambda y: y.index_fill(-1, torch.tensor([0]), -BIG),
    "scatter": lambda y: y.scatter(-1, torch.zeros(2, 3, 4, 1, dtype=torch.int64), -BIG),
    "write": lambda y: written(y, -INF),
    "full_like": lambda y: y + torch.full_like(y, BIG),
    "add": lambda y: y + BIG,
    "divide and add": lambda y: y / 8 - BIG,
    "residual": lambda y: y + 3 * y,
    "lerp": lambda y: torch.lerp(y, torch.full((), BIG, dtype=y.dtype), 0.5),
    "nothing": lambda y: y,
}
READ: dict[str, Callable[[Tensor], Tensor]] = {
    "max_pool2d": lambda y: F.max_pool2d(y, 2, 2),
    "relu": F.relu,
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "compare": lambda y: (y < -BIG / 2).float(),
    "maximum": lambda y: torch.maximum(y, torch.full((), -BIG)),
    "clamp": lambda y: y.clamp(-BIG, BIG),
    "clamp from below": lambda y: y.clamp(min=-BIG),
    "threshold": lambda y: F.threshold(y, 0.1, -BIG),
    "amax": lambda y: y.amax(-1),
    "sort": lambda y: y.sort(-1).values,
    "softmax": lambda y: y.softmax(-1),
    "mean": lambda y: y.clamp(min=-4).mean((-1, -2)),
}
Case = tuple[str, str, str]


def wanted(case: Case) -> Tensor:
    norm, place, read = case
    with torch.no_grad():
        return READ[read](PLACED[place](copy.deepcopy(NORMS[norm]).double()(X.double())))


def run(cases: list[Case], **settings: Any) -> list[Tensor]:
    """The results on secrets, all in one session."""

    def main(session: tacit.Session) -> list[Tensor]:
        norms = {name: session.share(copy.deepcopy(NORMS[name]), owner=0) for name, *_ in cases}
        found = []
        for norm, place, read in cases:
            x = session.share(X, owner=1 % session.parties)
            with torch.no_grad():
                found.append(session.reveal(READ[read](PLACED[place](norms[norm](x)))))
        return found

    return tacit.run(main, **settings)[0]


def check(cases: list[Case], fraction_bits: int, **settings: Any) -> None:
    """Results are off by a few units, and by the relative error of public factors, 2^-13.

    -inf stays the smallest number of all, but is another one on secrets: it is not compared.
    """
    for case, found in zip(cases, run(cases, fraction_bits=fraction_bits, **settings), strict=True):
        want = wanted(case)
        seen = torch.isfinite(want) & (want.abs() < 1e8)
        allowed = 24 * 2.0**-fraction_bits + 2.0**-13 * (1 + want[seen].abs())
        off = (found.double()[seen] - want[seen]).abs() - allowed
        worst = float(off.max()) if off.numel() else 0.0
        assert worst <= 0, f"{case} with {fraction_bits} fraction bits is off by {worst}"


QUICK = [("batch norm", place, "max_pool2d") for place in ("pad", "pad by 1e30", "cat", "where")]
QUICK += [("instance norm", "pad", "max_pool2d"), ("layer norm", "masked_fill", "softmax")]
QUICK += [("instance norm", "nothing", "clamp"), ("batch norm", "full_like", "relu")]


@pytest.mark.parametrize("fraction_bits", [18, 20, 22])
def test_padding_after_a_norm(fraction_bits):
    check(QUICK, fraction_bits)


@given(data=st.data())
@draws(12)
def test_any_sequence(data):
    """A norm, a large number beside its result, and what reads both: debug mode agrees, too."""
    names = st.tuples(st.sampled_from([*NORMS]), st.sampled_from([*PLACED]))
    case = (*data.draw(names), data.draw(st.sampled_from([*READ])))
    bits = data.draw(st.sampled_from(BITS))
    protocol = data.draw(st.sampled_from(["trio", "replicated", "cleartext"]))
    note(f"{case}, {bits} fraction bits, {protocol}")
    check([case], bits, protocol=protocol, debug=protocol == "cleartext")


@pytest.mark.full("every pair of norm and place, and of place and reader; test_any_sequence draws")
@pytest.mark.parametrize("fraction_bits", [BITS[0], BITS[-1]])
def test_every_pair(fraction_bits):
    cases = [(norm, place, "max_pool2d") for norm in NORMS for place in PLACED]
    cases += [("batch norm", place, read) for place in PLACED for read in READ]
    check(cases, fraction_bits)


def test_debug_mode_sees_a_number_that_wraps(monkeypatch):
    """With the division left pending where the sum does not fit, as before."""
    monkeypatch.setattr(value, "most_pending", lambda n: 64)
    with pytest.raises(PartyFailed, match="RangeError"):
        run([QUICK[0]], fraction_bits=20, protocol="cleartext", debug=True)


# Long sums ---------------------------------------------------------------------------------------

IMAGES = torch.randn(2, 3, 48, 48, generator=torch.Generator().manual_seed(4)) * 6 + 3
ROWS = torch.randn(3, 2048, generator=torch.Generator().manual_seed(5)) * 20
KERNEL = torch.tensor([[1.0, -0.5, 2.0], [0.3, 1.5, -1.0], [-2.0, 0.2, 0.7]]).view(3, 3, 1, 1)
LONG: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "instance norm": lambda x, rows, kernel: F.instance_norm(x),
    "batch norm": lambda x, rows, kernel: F.batch_norm(x, None, None, training=True),
    "layer norm": lambda x, rows, kernel: F.layer_norm(rows, (2048,)),
    "rms norm": lambda x, rows, kernel: rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1),
    "mean": lambda x, rows, kernel: x.mean((2, 3)),
    "mean of products": lambda x, rows, kernel: F.conv2d(x, kernel).mean((2, 3)),
    "pooled products": lambda x, rows, kernel: F.adaptive_avg_pool2d(F.conv2d(x, kernel), 1),
    "variance": lambda x, rows, kernel: x.var((2, 3)),
}


@pytest.mark.parametrize("fraction_bits", [16, 22])
def test_statistics_of_many_elements(fraction_bits):
    """The sum of the squares of 2048 numbers around 20 is 2^20: with 22 bits it leaves the ring."""
    operands = (IMAGES, ROWS, KERNEL)

    def main(session: tacit.Session) -> list[Tensor]:
        secrets = [session.share(x, owner=0) for x in operands]
        return [session.reveal(compute(*secrets)) for compute in LONG.values()]

    found = tacit.run(main, fraction_bits=fraction_bits)[0]
    for (name, compute), got in zip(LONG.items(), found, strict=True):
        want = compute(*(x.double() for x in operands))
        allowed = 4 * 2.0**-fraction_bits + 2.0**-16 * float(want.abs().max())
        worst = float((got.double() - want).abs().max())
        assert worst <= allowed, f"{name} is off by {worst}, more than {allowed}"
