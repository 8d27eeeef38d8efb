"""Products at every level that this installation has and this processor runs.

`make wheel-smoke` runs all tests of the kernels at every level; other installations have one.
"""

import pytest
import torch
from tests.kernels.draws import ring_tensor
from tests.kernels.test_matmul import big_matmul

from tacit import kernels
from tacit.errors import ConfigError
from tacit.kernels import backend, levels
from tacit.ring import RING32, RING64, Window
from tacit.ring.reference import arithmetic

LEVELS = levels.usable_levels()
# One to 33 rows take every kind of block; depths and columns end beside the sizes of tiles.
SHAPES = [(m, 67, 35) for m in (1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33)]
SHAPES += [(40, k, 130) for k in (1, 4, 63, 64, 65, 129)] + [(65, 576, n) for n in (1, 31, 33, 257)]


@pytest.fixture(params=LEVELS)
def level(request, choose):
    choose(request.param)
    yield request.param
    choose("auto")
    backend.load_native()  # AMX is on or off for the whole process


def test_the_fastest_is_chosen(choose):
    choose("auto")
    assert backend.level() == LEVELS[0]
    assert levels.known_levels()[LEVELS[0]]


def test_the_choice_is_heard(level):
    assert backend.level() == level
    assert backend.load_native().__name__.endswith(levels.BUILDS.get(level, level))
    assert ("AMX" in backend.features()) == (level == "amx")


def test_a_level_that_the_processor_lacks_is_refused(choose, monkeypatch):
    """Also if it is installed: its first instruction would end the process."""
    name = LEVELS[-1]
    monkeypatch.setattr(levels, "known_levels", lambda: {name: False})
    choose("auto")
    with pytest.raises(ImportError, match=f"built for {name}, which this processor lacks"):
        levels.best_level()
    with pytest.raises(ConfigError, match=f"this processor cannot run the kernels of level {name}"):
        levels.check_level(name)


def test_a_level_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr(levels, "known_levels", lambda: {"other": True})
    with pytest.raises(ConfigError, match="no kernels of level other"):
        levels.check_level("other")


def test_levels_of_other_architectures_are_unknown(choose):
    choose("dotprod" if "sse4" in levels.known_levels() else "vnni")
    with pytest.raises(ConfigError, match="allowed are auto, reference, triton"):
        backend.choice()


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_blocks_of_all_sizes(level, ring):
    for seed, (m, k, n) in enumerate(SHAPES):
        a, b = ring_tensor(ring, (m, k), seed), ring_tensor(ring, (k, n), seed + 1)
        expected = torch.from_numpy(a.numpy() @ b.numpy())  # wraps mod 2^k
        for right in (b, b.T.contiguous().T, torch.stack([b, b], -1)[..., 0]):  # any strides
            for method in ("encoded", "plain"):
                assert torch.equal(kernels.matmul(a, right, method=method), expected)


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("depth", [512, 2048, 8192, 8193])
def test_extreme_sums(level, ring, depth):
    """Rows and columns of one extreme value each, so that all sums are as large as they can be."""
    values = torch.tensor([ring.low, ring.high, -1, ring.low + 1, 0], dtype=ring.dtype)
    a, b = values[:, None].expand(-1, depth), values.expand(depth, -1)
    expected = [[ring.wrap(int(x) * int(y) * depth) for y in values] for x in values]
    found = kernels.matmul(a, b, method="encoded")
    assert found.tolist() == expected


def test_every_residue_of_a_byte(level):
    """Words whose residue is each number from 0 to m - 1, of each modulus m."""
    x = torch.arange(256).reshape(-1, 1)
    for offset in (0, RING64.low, RING64.high - 255, 1 << 40):
        found = kernels.matmul(x + offset, torch.full((1, 40), -(1 << 62) + 3), method="encoded")
        assert torch.equal(
            found, big_matmul(x + offset, torch.full((1, 40), -(1 << 62) + 3), RING64)
        )


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_convolutions(level, ring):
    for x_shape, w_shape, window in (
        ((2, 64, 9, 7), (40, 64, 3, 3), {"padding": 1}),
        ((1, 24, 12, 12), (5, 24, 5, 5), {}),
        ((1, 128, 8, 8), (33, 128, 1, 1), {}),
        ((1, 64, 9, 9), (8, 64, 3, 3), {"stride": 2, "padding": 1}),
        ((1, 900, 3, 3), (3, 900, 3, 3), {"padding": 1}),
        ((1, 3, 34, 33), (26, 3, 3, 3), {"padding": 1}),  # many positions
        ((1, 40, 2, 1), (21, 40, 3, 3), {"padding": 1}),  # few positions
    ):
        x, weight = ring_tensor(ring, x_shape, 1), ring_tensor(ring, w_shape, 2)
        expected = arithmetic.conv(x, weight, Window.make(2, **window))
        for method in ("encoded", "winograd", "plain"):
            assert torch.equal(kernels.conv2d(x, weight, **window, method=method), expected)


@pytest.mark.skipif("amx" not in LEVELS, reason="both need AMX")
def test_an_operand_prepared_without_amx_serves_with_it_and_back(choose):
    a, b = ring_tensor(RING64, (20, 100), 1), ring_tensor(RING64, (100, 70), 2)
    for prepared, used in (("vnni", "amx"), ("amx", "vnni")):
        choose(prepared)
        made = kernels.prepare_matmul(b, kernels.plan_matmul(20, b.shape, b, method="encoded"))
        choose(used)
        assert torch.equal(kernels.matmul(a, made), arithmetic.matmul(a, b))
