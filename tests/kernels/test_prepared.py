"""Products with prepared right operands equal those without, bit for bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, ring_tensors, rings
from tests.kernels.test_conv import cases, winograd_cases
from tests.tiers import draws

from tacit import kernels
from tacit.errors import ConfigError
from tacit.kernels.backend import features
from tacit.kernels.conv import conv
from tacit.kernels.matmul import PLAIN
from tacit.ring import RING32, RING64, Window
from tacit.ring.reference import arithmetic

# Without such instructions operands are never encoded, unless a test asks for it.
MULTIPLIES_BYTES = not {"DotProd", "VNNI"}.isdisjoint(features())
size = st.sampled_from([0, 1, 2, 7, 8, 9, 16, 17, 33, 65])


def prepared_conv(x_shape, weight, window, method="choose"):
    plan = kernels.plan_conv(x_shape, weight.shape, window, weight, method=method)
    return kernels.prepare_conv(weight, window, plan)


def check_conv(ring, case, method, data):
    x_shape, w_shape, settings = case
    x, weight = (data.draw(ring_tensors(ring, shape)) for shape in (x_shape, w_shape))
    window = Window.make(len(x_shape) - 2, **settings)
    made = prepared_conv(x_shape, weight, window, method)
    expected = arithmetic.conv(x, weight, window)
    for _ in range(2):
        assert torch.equal(conv(x.dim() - 2, x, made, **settings), expected)
    wide = torch.cat([x, x, x]).flip(-1)  # another input than it was prepared for
    expected = arithmetic.conv(wide, weight, window)
    assert torch.equal(conv(x.dim() - 2, wide, made, **settings), expected)


@draws(100)
@given(
    ring=rings,
    case=cases(),
    method=st.sampled_from(["choose", "plain", "encoded", "winograd"]),
    data=st.data(),
)
def test_conv(ring, case, method, data):
    check_conv(ring, case, method, data)


@draws(60)
@given(case=winograd_cases(), data=st.data())
def test_winograd(case, data):
    check_conv(RING64, case, "winograd", data)


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "window", "method"),
    [
        ((1, 1030, 4, 4), (9, 1030, 3, 3), {"padding": 1}, "encoded"),  # in two parts
        ((1, 700, 6, 7), (9, 700, 3, 3), {"padding": 1}, "winograd"),  # in three
        ((1, 1, 100, 100), (2, 1, 95, 95), {}, "encoded"),  # parts of the taps
        ((2, 96, 9, 9), (80, 48, 3, 3), {"padding": 1, "groups": 2}, "choose"),
        ((1, 64, 30, 30), (64, 64, 3, 3), {"padding": 1}, "choose"),
        ((1, 256, 2, 2), (64, 256, 3, 3), {"padding": 1}, "encoded"),
        ((1, 256, 2, 2), (64, 256, 3, 3), {"padding": 1}, "plain"),
    ],
)
def test_real_layers(x_shape, w_shape, window, method, num_threads):
    before = kernels.num_threads()
    kernels.set_num_threads(num_threads)
    try:
        x, weight = ring_tensor(RING64, x_shape, 1), ring_tensor(RING64, w_shape, 2)
        made = prepared_conv(x_shape, weight, Window.make(2, **window), method)
        is_plain = method == "plain" or (method == "choose" and not MULTIPLIES_BYTES)
        assert made.is_plain == is_plain
        expected = kernels.conv2d(x, weight, **window)
        assert torch.equal(kernels.conv2d(x, made, **window), expected)
    finally:
        kernels.set_num_threads(before)


@draws(60)
@given(
    ring=rings,
    rows=st.lists(size, max_size=3),
    k=size,
    n=size,
    method=st.sampled_from(["choose", "plain", "encoded"]),
    data=st.data(),
)
def test_matmul(ring, rows, k, n, method, data):
    a = data.draw(ring_tensors(ring, (*rows, k)))
    b = data.draw(ring_tensors(ring, (k, n)))
    plan = kernels.plan_matmul(a.shape[:-1].numel(), b.shape, b, method=method)
    made = kernels.prepare_matmul(b, plan)
    expected = arithmetic.matmul(a, b)
    for _ in range(2):
        assert torch.equal(kernels.matmul(a, made), expected)
    twice = torch.stack([a, a])
    assert torch.equal(kernels.matmul(twice, made), arithmetic.matmul(twice, b))


@pytest.mark.parametrize("shape", [(2100, 30), (30, 2100), (5000, 24)])
def test_matmul_in_blocks(shape):
    a, b = ring_tensor(RING64, (9, shape[0]), 1), ring_tensor(RING64, shape[::-1], 2).t()
    made = kernels.prepare_matmul(b, kernels.plan_matmul(9, shape, b, method="encoded"))
    assert torch.equal(kernels.matmul(a, made), kernels.matmul(a, b))


def test_one_row_is_plain():
    """With one row each element is multiplied once: encoding never pays."""
    b = ring_tensor(RING64, (256, 256), 1)
    assert kernels.plan_matmul(1, b.shape, b) == PLAIN
    assert (kernels.plan_matmul(64, b.shape, b) != PLAIN) == MULTIPLIES_BYTES


def test_nothing_of_the_operand_is_read_again():
    x, weight = ring_tensor(RING64, (1, 64, 8, 8), 1), ring_tensor(RING64, (64, 64, 3, 3), 2)
    made = prepared_conv(x.shape, weight, Window.make(2, padding=1), "encoded")
    expected = kernels.conv2d(x, weight, padding=1)
    weight.zero_()
    assert torch.equal(kernels.conv2d(x, made, padding=1), expected)
    assert made.num_bytes == made.plan.num_bytes


def test_bad_input():
    x, weight = ring_tensor(RING64, (1, 64, 8, 8), 1), ring_tensor(RING64, (64, 64, 3, 3), 2)
    made = prepared_conv(x.shape, weight, Window.make(2, padding=1), "encoded")
    with pytest.raises(ConfigError, match="prepared for"):
        kernels.conv2d(x, made, stride=2, padding=1)
    with pytest.raises(ConfigError, match="prepared for"):
        kernels.conv2d(x.to(RING32.dtype), made, padding=1)
    with pytest.raises(ConfigError, match="channels"):
        kernels.conv2d(x[:, :32], made, padding=1)
    b = weight.reshape(64, -1)
    product = kernels.prepare_matmul(b, kernels.plan_matmul(64, b.shape, b, method="encoded"))
    with pytest.raises(ConfigError, match="prepared for"):
        kernels.matmul(b, product)
    with pytest.raises(ConfigError, match="method"):
        kernels.plan_matmul(64, b.shape, b, method="winograd")


def test_forced_reference(force_reference):
    force_reference()
    x, weight = ring_tensor(RING64, (1, 64, 4, 4), 1), ring_tensor(RING64, (8, 64, 3, 3), 2)
    made = prepared_conv(x.shape, weight, Window.make(2))
    assert made.is_plain
    assert torch.equal(kernels.conv2d(x, made), kernels.conv2d(x, weight))
