"""Gradients may be as large as other numbers, whatever they pass on their way back.

They carry extra fraction bits (fixedpoint/extended/fine_gradients.py), for which a product has less
room. Every function here gets gradients of small and of large outputs, against float64.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.tiers import FULL
from torch import nn

import tacit

SMALL, LARGE = 4, 18  # gradients of the output are below 2^SMALL or 2^LARGE
MOST_ERROR = {12: 0.01, 16: 1e-3, 18: 1e-3, 20: 1e-3, 22: 1e-3}  # relative, by fraction bits


def picture(x):
    return x.reshape(1, 1, 6, 8)


def targets(x):
    return torch.full(x.shape, 0.5, dtype=x.dtype)


FUNCTIONS = {
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "softplus": F.softplus,
    "relu": F.relu,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "cube": lambda x: x**3,
    "rsqrt": lambda x: torch.rsqrt(x * x + 1),
    "sqrt": lambda x: torch.sqrt(x * x + 0.1),
    "reciprocal": lambda x: 1 / (x * x + 1),
    "quotient": lambda x: x / (x * x + 1),
    "log": lambda x: torch.log(x * x + 1),
    "log1p": lambda x: torch.log1p(x * x),
    "asinh": torch.asinh,
    "atan": torch.atan,
    "sin": torch.sin,
    "erf": torch.erf,
    "hypot": lambda x: torch.hypot(x, torch.ones_like(x)),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1),
    "norm": lambda x: x.norm(dim=-1),
    "norm of order 3": lambda x: torch.linalg.vector_norm(x, 3, dim=-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cosine similarity": lambda x: F.cosine_similarity(x, x.flip(0) + 1, -1),
    "matmul": lambda x: x @ x.T,
    "average": lambda x: F.avg_pool2d(picture(x), 2),
    "largest": lambda x: F.max_pool2d(picture(x), 2),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "rms norm": lambda x: F.rms_norm(x, (8,)),
    "instance norm": lambda x: F.instance_norm(picture(x)),
    "local response": lambda x: F.local_response_norm(picture(x), 2),
    "mse": lambda x: F.mse_loss(x, targets(x), reduction="none"),
    "binary cross entropy": lambda x: F.binary_cross_entropy_with_logits(
        x, targets(x), reduction="none"
    ),
}
MODULES = {
    "batch norm": lambda: nn.BatchNorm1d(8),
    "fixed batch norm": lambda: nn.BatchNorm1d(8).eval(),
    "layer norm": lambda: nn.LayerNorm(8),
    "group norm": lambda: nn.GroupNorm(2, 8),
    "rms norm, with weights": lambda: nn.RMSNorm(8),
}
CASES = [*FUNCTIONS, *MODULES]


def numbers(shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64).float().double() * 4 - 2


def gradient(function, x, bits):
    """By x, of the sum of outputs times numbers below 2^bits."""
    out = function(x)
    factors = (numbers(out.shape, 2) * 2.0 ** (bits - 1)).to(x.dtype)
    [found] = torch.autograd.grad((out * factors).sum(), x)
    return found


def party(session, names, bits):
    """The relative error of each gradient, by name."""
    plain, errors = numbers((6, 8), 1), {}
    for name in names:
        function = FUNCTIONS.get(name) or MODULES[name]()
        x = plain.clone().requires_grad_()
        wanted = gradient(function.double() if name in MODULES else function, x, bits)
        if name in MODULES:
            function = session.share(MODULES[name](), owner=0)
        secret = session.share(plain.float(), owner=0).requires_grad_()
        found = session.reveal(gradient(function, secret, bits)).double()
        errors[name] = float((found - wanted).norm() / wanted.norm())
    return errors


@pytest.fixture(scope="module")
def errors():
    made = {}

    def of(fraction_bits, bits):
        if (fraction_bits, bits) not in made:
            options = {"protocol": "cleartext", "parties": 1, "fraction_bits": fraction_bits}
            made[fraction_bits, bits] = tacit.run(party, CASES, bits, **options)[0]
        return made[fraction_bits, bits]

    return of


@pytest.mark.filterwarnings("ignore:precision")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fraction_bits", MOST_ERROR if FULL else [16])
def test_small_and_large_gradients_are_right(errors, fraction_bits, name):
    large = min(LARGE, 59 - 2 * fraction_bits)  # the largest range is 2^(61 - 2f)
    for bits in (SMALL, large):
        assert errors(fraction_bits, bits)[name] < MOST_ERROR[fraction_bits], f"below 2^{bits}"


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_three_parties(protocol):
    names = ["batch norm", "fixed batch norm", "layer norm", "rms norm", "quotient", "log"]
    for found in tacit.run(party, names, LARGE, protocol=protocol):
        assert all(error < MOST_ERROR[16] for error in found.values()), found
