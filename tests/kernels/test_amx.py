"""The two ways of x86-64 processors to multiply bytes: AMX, and VNNI, which `TACIT_KERNELS` forces.

Without AMX, and on other processors, both are the same and the tests repeat themselves.
"""

import pytest
import torch
from tests.kernels.draws import ring_tensor
from tests.kernels.test_matmul import big_matmul

from tacit import kernels
from tacit.kernels import backend
from tacit.ring import RING32, RING64, Window
from tacit.ring.reference import arithmetic

WAYS = ("auto", "vnni")
# One to 33 rows take every kind of block; depths and columns end beside the sizes of tiles.
SHAPES = [(m, 67, 35) for m in (1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33)]
SHAPES += [(40, k, 130) for k in (1, 4, 63, 64, 65, 129)] + [(65, 576, n) for n in (1, 31, 33, 257)]


@pytest.fixture
def use(choose):
    """A call that chooses a way for what follows."""

    def use(way: str) -> None:
        choose("auto")
        backend.load_native().use_amx(True)
        choose(way)
        backend.load_native()

    yield use
    use("auto")


@pytest.fixture(params=WAYS)
def way(request, use):
    use(request.param)
    return request.param


def test_the_choice_is_heard(way):
    assert way == "auto" or "AMX" not in backend.features()


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_blocks_of_all_sizes(way, ring):
    for seed, (m, k, n) in enumerate(SHAPES):
        a, b = ring_tensor(ring, (m, k), seed), ring_tensor(ring, (k, n), seed + 1)
        expected = torch.from_numpy(a.numpy() @ b.numpy())  # wraps mod 2^k
        for right in (b, b.T.contiguous().T, torch.stack([b, b], -1)[..., 0]):  # any strides
            assert torch.equal(kernels.matmul(a, right, method="encoded"), expected)


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("depth", [512, 2048, 8192, 8193])
def test_extreme_sums(way, ring, depth):
    """Rows and columns of one extreme value each, so that all sums are as large as they can be."""
    values = torch.tensor([ring.low, ring.high, -1, ring.low + 1, 0], dtype=ring.dtype)
    a, b = values[:, None].expand(-1, depth), values.expand(depth, -1)
    expected = [[ring.wrap(int(x) * int(y) * depth) for y in values] for x in values]
    found = kernels.matmul(a, b, method="encoded")
    assert found.tolist() == expected


def test_every_residue_of_a_byte(way):
    """Words whose residue is each number from 0 to m - 1, of each modulus m."""
    x = torch.arange(256).reshape(-1, 1)
    for offset in (0, RING64.low, RING64.high - 255, 1 << 40):
        found = kernels.matmul(x + offset, torch.full((1, 40), -(1 << 62) + 3), method="encoded")
        assert torch.equal(
            found, big_matmul(x + offset, torch.full((1, 40), -(1 << 62) + 3), RING64)
        )


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_convolutions(way, ring):
    for x_shape, w_shape, window in (
        ((2, 64, 9, 7), (40, 64, 3, 3), {"padding": 1}),
        ((1, 24, 12, 12), (5, 24, 5, 5), {}),
        ((1, 128, 8, 8), (33, 128, 1, 1), {}),
        ((1, 64, 9, 9), (8, 64, 3, 3), {"stride": 2, "padding": 1}),
        ((1, 900, 3, 3), (3, 900, 3, 3), {"padding": 1}),
    ):
        x, weight = ring_tensor(ring, x_shape, 1), ring_tensor(ring, w_shape, 2)
        expected = arithmetic.conv(x, weight, Window.make(2, **window))
        for method in ("encoded", "winograd"):
            assert torch.equal(kernels.conv2d(x, weight, **window, method=method), expected)


def test_an_operand_prepared_in_one_way_serves_the_other(use):
    a, b = ring_tensor(RING64, (20, 100), 1), ring_tensor(RING64, (100, 70), 2)
    for prepared, used in (WAYS, WAYS[::-1]):
        use(prepared)
        made = kernels.prepare_matmul(b, kernels.plan_matmul(20, b.shape, b, method="encoded"))
        use(used)
        assert torch.equal(kernels.matmul(a, made), arithmetic.matmul(a, b))
