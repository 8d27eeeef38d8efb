"""Operations that do not fit into an enclave's memory are computed by rows, as torch does."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import tacit

LIMIT = 1 << 20
ROWS = 96
SHAPE = (ROWS, 4, 32, 32)  # 1.5 MiB of float32

# The rows of the result are those of torch, bit by bit.
EQUAL = {
    "x + y": lambda x, y: x + y,
    "x * 3": lambda x, y: x * 3,
    "broadcast": lambda x, y: x * y[:1] + y[:, :1],
    "relu": lambda x, y: F.relu(x),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "gelu": lambda x, y: F.gelu(x),
    "max_pool": lambda x, y: F.max_pool2d(x, 2),
    "avg_pool": lambda x, y: F.avg_pool2d(x, 2),
    "adaptive_pool": lambda x, y: F.adaptive_avg_pool2d(x, 4),
    "softmax": lambda x, y: F.softmax(x, 1),
    "log_softmax": lambda x, y: F.log_softmax(x, -1),
    "amax": lambda x, y: x.amax((2, 3)),
    "sum of rows": lambda x, y: x.sum((1, 2)),
    "mean of rows": lambda x, y: x.mean(-1),
    "double": lambda x, y: x.double(),
    "clone": lambda x, y: x.clone(),
    "dropout": lambda x, y: F.dropout(x, 0.0) * 2,
}
# Sums over rows are added up piece by piece.
CLOSE = {
    "sum": lambda x, y: x.sum(),
    "sum of columns": lambda x, y: x.sum((0, 2, 3)),
    "batch norm": lambda x, y: F.batch_norm(x, None, None, training=True),
    "convolution": lambda x, y: F.conv2d(x, y[:8, :, :3, :3], padding=1),
    "matrices": lambda x, y: x.flatten(1) @ y.flatten(1)[:8].t(),
}


def computed(session, function):
    """The result and the gradient by x of the sum of its squares, in the enclave and in plain."""
    generator = torch.Generator().manual_seed(1)
    plain = [torch.randn(SHAPE, generator=generator) for _ in range(2)]
    secret = [session.share(one, owner=0) for one in plain]
    found = []
    for x, y in (secret, plain):
        x = x.detach().requires_grad_()
        result = function(x, y)
        (result * result.detach()).sum().backward()
        found.append((result.detach(), x.grad))
    return [[session.reveal(one) for one in found[0]], found[1]]


def run(function, **settings):
    settings = {"memory_limit": LIMIT, "outsourcing": "none", **settings}
    [made] = tacit.run(computed, function, parties=1, protocol="enclave", **settings)
    return made


@pytest.mark.parametrize("name", EQUAL)
def test_rows_are_those_of_torch(name):
    (result, grad), (wanted, wanted_grad) = run(EQUAL[name])
    assert torch.equal(result, wanted)
    assert torch.allclose(grad, wanted_grad, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CLOSE)
def test_sums_are_close_to_those_of_torch(name):
    (result, grad), (wanted, wanted_grad) = run(CLOSE[name])
    for one, other in ((result, wanted), (grad, wanted_grad)):
        assert (one - other).abs().max() <= 1e-5 * other.abs().max() + 1e-4
