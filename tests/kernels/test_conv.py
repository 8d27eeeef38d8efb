"""Exact convolutions and their gradients against torch's float64 on small values, the reference on
full-range ones, and each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, ring_tensors, rings
from tests.tiers import draws

from tacit import kernels
from tacit.errors import ConfigError
from tacit.kernels import backend
from tacit.ring import RING32, RING64, Window
from tacit.ring.reference import arithmetic

METHODS = ("choose", "plain", "encoded", "winograd")
FORWARD = {1: kernels.conv1d, 2: kernels.conv2d, 3: kernels.conv3d}
GRAD_INPUT = {
    1: kernels.conv1d_grad_input,
    2: kernels.conv2d_grad_input,
    3: kernels.conv3d_grad_input,
}
GRAD_WEIGHT = {
    1: kernels.conv1d_grad_weight,
    2: kernels.conv2d_grad_weight,
    3: kernels.conv3d_grad_weight,
}


@st.composite
def cases(draw):
    """Shapes of input and weight, and a window, that fit."""
    dims = draw(st.integers(1, 3))
    per_dim = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(dims))  # noqa: E731
    kernel, stride = per_dim(1, 4), per_dim(1, 3)
    padding, dilation = per_dim(0, 3), per_dim(1, 3)
    needed = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
    sizes = tuple(max(1, n) + draw(st.integers(0, 6)) for n in needed)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels, columns = draw(st.integers(1, 9)), draw(st.integers(1, 17))
    batch = draw(st.sampled_from([0, 1, 2, 3]))
    window = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (batch, groups * channels, *sizes), (groups * columns, channels, *kernel), window


def made(window):
    return Window.make(len(window["stride"]), **window)


def torch_conv(x, weight, **window):
    return getattr(torch.nn.functional, f"conv{x.dim() - 2}d")(x, weight, **window)


@draws(120)
@given(ring=rings, case=cases(), method=st.sampled_from(METHODS), data=st.data())
def test_forward(ring, case, method, data):
    x_shape, w_shape, window = case
    x = data.draw(ring_tensors(ring, x_shape))
    weight = data.draw(ring_tensors(ring, w_shape))
    found = FORWARD[x.dim() - 2](x, weight, **window, method=method)
    assert torch.equal(found, arithmetic.conv(x, weight, made(window)))


@draws(120)
@given(ring=rings, case=cases(), method=st.sampled_from(METHODS), data=st.data())
def test_gradients(ring, case, method, data):
    x_shape, w_shape, window = case
    dims = len(x_shape) - 2
    x, weight = data.draw(ring_tensors(ring, x_shape)), data.draw(ring_tensors(ring, w_shape))
    sizes = made(window).output_sizes(x_shape[2:], w_shape[2:])
    grad = data.draw(ring_tensors(ring, (x_shape[0], w_shape[0], *sizes)))
    by_input = GRAD_INPUT[dims](x_shape, weight, grad, **window, method=method)
    assert torch.equal(
        by_input, arithmetic.conv_grad_input(x_shape[2:], weight, grad, made(window))
    )
    by_weight = GRAD_WEIGHT[dims](x, w_shape, grad, **window)
    assert torch.equal(by_weight, arithmetic.conv_grad_weight(x, w_shape[2:], grad, made(window)))


@draws(60)
@given(case=cases(), seed=st.integers(0, 2**32))
def test_reference_equals_torch(case, seed):
    """Small integers, so that float64 is exact and autograd gives the gradients."""
    x_shape, w_shape, window = case
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-99, 99, x_shape, generator=generator)
    weight = torch.randint(-99, 99, w_shape, generator=generator)
    xf, wf = x.double().requires_grad_(), weight.double().requires_grad_()
    out = torch_conv(xf, wf, **window)
    assert torch.equal(arithmetic.conv(x, weight, made(window)), out.long())
    grad = torch.randint(-99, 99, tuple(out.shape), generator=generator)
    out.backward(grad.double())
    assert torch.equal(
        arithmetic.conv_grad_input(x_shape[2:], weight, grad, made(window)), xf.grad.long()
    )
    assert torch.equal(
        arithmetic.conv_grad_weight(x, w_shape[2:], grad, made(window)), wf.grad.long()
    )


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "window"),
    [
        ((2, 64, 14, 14), (32, 64, 3, 3), {"padding": 1}),
        ((1, 3, 40, 40), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((2, 48, 9, 9), (40, 48, 1, 1), {}),
        ((2, 48, 9, 9), (40, 48, 1, 1), {"stride": 2}),
        ((2, 32, 11, 11), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
        ((1, 1030, 4, 4), (9, 1030, 3, 3), {"padding": 1}),
        ((1, 1, 100, 100), (2, 1, 95, 95), {}),
        ((40, 16, 2, 2), (24, 16, 2, 2), {}),
        ((1, 128, 2, 2), (96, 128, 3, 3), {"padding": 1}),
        ((3, 128, 4, 4), (96, 64, 3, 3), {"padding": 1, "groups": 2}),
        ((2, 64, 9, 9), (40, 64, 3, 3), {"stride": 2}),
    ],
)
@pytest.mark.parametrize("method", ["choose", "plain", "encoded", "winograd"])
def test_real_layers(ring, x_shape, w_shape, window, method):
    """Shapes of real networks, and depths over the exact bound of one pass (9270, 9025)."""
    generator = torch.Generator().manual_seed(3)
    low, high = ring.low, ring.high
    x = torch.randint(low, high, x_shape, dtype=ring.dtype, generator=generator)
    weight = torch.randint(low, high, w_shape, dtype=ring.dtype, generator=generator)
    x[0], weight[0] = low, low
    expected = arithmetic.conv(x, weight, Window.make(2, **window))
    assert torch.equal(kernels.conv2d(x, weight, **window, method=method), expected)


@st.composite
def winograd_cases(draw):
    """3x3 kernels with stride 1, in two dimensions, or three of which one is trivial."""
    sizes, padding = draw(st.tuples(*[st.integers(1, 14)] * 2)), draw(st.integers(0, 3))
    sizes = tuple(max(size, 3 - 2 * padding) for size in sizes)
    deep = draw(st.sampled_from([(), (), (1,), (3,)]))
    groups, batch = draw(st.sampled_from([1, 1, 2])), draw(st.integers(1, 3))
    channels = draw(st.sampled_from([1, 4, 15, 16, 17, 33, 64]))
    columns = draw(st.sampled_from([1, 7, 8, 9, 24, 40]))
    x_shape = (batch, groups * channels, *deep, *sizes)
    w_shape = (groups * columns, channels, *(1 for _ in deep), 3, 3)
    return x_shape, w_shape, {"padding": (*(0 for _ in deep), padding, padding), "groups": groups}


@draws(80)
@given(case=winograd_cases(), data=st.data())
def test_winograd(case, data):
    x_shape, w_shape, window = case
    dims = len(x_shape) - 2
    x, weight = (data.draw(ring_tensors(RING64, shape)) for shape in (x_shape, w_shape))
    made = Window.make(dims, **window)
    expected = arithmetic.conv(x, weight, made)
    assert torch.equal(FORWARD[dims](x, weight, **window, method="winograd"), expected)
    grad = data.draw(ring_tensors(RING64, tuple(expected.shape)))
    by_input = GRAD_INPUT[dims](x_shape, weight, grad, **window, method="winograd")
    assert torch.equal(by_input, arithmetic.conv_grad_input(x_shape[-dims:], weight, grad, made))


@pytest.mark.parametrize("channels", [320, 321, 700])
@pytest.mark.parametrize("value", [RING64.low, RING64.high, None])
def test_winograd_at_its_bounds(channels, value):
    """The longest sums of one pass, and longer ones. All channels are equal: to extremes, for the
    largest integers, or to uniform words, for sums of residues that all have one sign."""
    for seed in range(4):
        x, weight = (
            ring_tensor(RING64, shape, seed) if value is None else torch.full(shape, value)
            for shape in ((2, 1, 6, 7), (8, 1, 3, 3))
        )
        weight[seed:] ^= -1
        x, weight = (tensor.expand(-1, channels, -1, -1) for tensor in (x, weight))
        expected = arithmetic.conv(x, weight, Window.make(2, padding=1))
        assert torch.equal(kernels.conv2d(x, weight, padding=1, method="winograd"), expected)


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_winograd_chosen(num_threads):
    """Winograd's method is chosen for such sizes, but not with a stride or dilation."""
    before = kernels.num_threads()
    kernels.set_num_threads(num_threads)
    # Without dot products of bytes it never is, and encoded products take a minute.
    shape = (2, 64, 30, 29) if {"DotProd", "VNNI"} & {*backend.features()} else (1, 64, 8, 7)
    try:
        x, weight = ring_tensor(RING64, shape, 1), ring_tensor(RING64, (72, 64, 3, 3), 2)
        for window in ({"padding": 1}, {"padding": (0, 2)}, {"stride": 2}, {"dilation": 2}):
            expected = kernels.conv2d(x, weight, **window, method="encoded")
            assert torch.equal(kernels.conv2d(x, weight, **window), expected)
            found, other = (
                kernels.conv2d_grad_input(x.shape, weight, expected, **window, method=method)
                for method in ("choose", "encoded")
            )
            assert torch.equal(found, other)
    finally:
        kernels.set_num_threads(before)


@pytest.mark.parametrize(("batch", "channels", "columns"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_sizes_of_zero(batch, channels, columns):
    shapes = [(batch, channels, 5, 5), (columns, channels, 3, 3), (batch, columns, 3, 3)]
    x, weight, grad = (torch.ones(shape, dtype=torch.int64) for shape in shapes)
    assert torch.equal(kernels.conv2d(x, weight), torch.zeros_like(grad))
    assert torch.equal(kernels.conv2d_grad_input(x.shape, weight, grad), torch.zeros_like(x))
    assert torch.equal(kernels.conv2d_grad_weight(x, weight.shape, grad), torch.zeros_like(weight))


def test_weight_gradient_in_parts(monkeypatch):
    monkeypatch.setattr("tacit.kernels.conv.UNFOLDED", 500)
    x = torch.arange(3 * 4 * 9 * 8).reshape(3, 4, 9, 8) * 0x9E3779B97F4A7C15 % 2**62
    grad = torch.arange(3 * 5 * 9 * 8).reshape(3, 5, 9, 8) * 0x2545F4914F6CDD1D % 2**62
    found = kernels.conv2d_grad_weight(x, (5, 4, 3, 3), grad, padding=1)
    window = Window.make(2, padding=1)
    assert torch.equal(found, arithmetic.conv_grad_weight(x, (3, 3), grad, window))


def test_forced_reference(force_reference):
    force_reference()
    x, weight = torch.arange(32).reshape(1, 2, 4, 4), torch.arange(16).reshape(2, 2, 2, 2)
    out = kernels.conv2d(x, weight)
    assert torch.equal(out, torch_conv(x.double(), weight.double()).long())
    assert kernels.conv2d_grad_input(x.shape, weight, out).shape == x.shape
    assert kernels.conv2d_grad_weight(x, weight.shape, out).shape == weight.shape


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "window", "message"),
    [
        ((1, 2, 4), (1, 2, 3, 3), {}, "4 dimensions"),
        ((1, 2, 4, 4), (1, 3, 3, 3), {}, "channels"),
        ((1, 2, 4, 4), (3, 1, 3, 3), {"groups": 2}, "channels"),
        ((1, 2, 4, 4), (1, 2, 5, 5), {}, "does not fit"),
        ((1, 2, 4, 4), (1, 2, 3, 3), {"stride": 0}, "stride"),
        ((1, 2, 4, 4), (1, 2, 3, 3), {"padding": (1, 1, 1)}, "padding"),
        ((1, 2, 4, 4), (1, 2, 3, 3), {"groups": 0}, "groups"),
    ],
)
def test_bad_input(x_shape, w_shape, window, message):
    x, weight = torch.zeros(x_shape, dtype=torch.int64), torch.zeros(w_shape, dtype=torch.int64)
    with pytest.raises(ConfigError, match=message):
        kernels.conv2d(x, weight, **window)


def test_bad_gradient_shape():
    grad = torch.zeros(1, 1, 3, 3, dtype=torch.int64)
    weight = torch.zeros(1, 2, 3, 3, dtype=torch.int64)
    with pytest.raises(ConfigError, match="gradient"):
        kernels.conv2d_grad_input((1, 2, 4, 4), weight, grad)
