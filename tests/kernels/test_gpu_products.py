"""Products and convolutions for GPUs against big integers and the reference, bit for bit.

Without a GPU they run in Triton's interpreter, where every program takes milliseconds: examples are
few and small. With one there are more and larger ones.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton")

from tests import tiers
from tests.kernels.conftest import forget
from tests.kernels.draws import edges, ring_tensor, rings, seeds
from tests.kernels.test_matmul import big_matmul
from tests.tiers import draws

from tacit import kernels
from tacit.kernels import backend
from tacit.kernels.conv import conv, conv_grad_input, conv_grad_weight
from tacit.kernels.gpu import gemm, residue_system, residues, weight_gradient
from tacit.ring import RING32, RING64, Window
from tacit.ring.reference import arithmetic

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
some = draws(100) if GPU else draws(4, derandomize=True)
size = st.sampled_from([1, 2, 7, 16, 17, 33, 65, 130, 300] if GPU else [1, 3, 17, 33])
on_gpu = pytest.mark.skipif(not GPU, reason="takes too long in the interpreter")


@pytest.fixture(autouse=True, scope="module")
def triton_kernels():
    """The kernels for GPUs, also on CPU tensors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(backend.VARIABLE, "triton")
        forget()
        yield
    forget()


def there(*tensors):
    return tuple(tensor.to(DEVICE) for tensor in tensors)


def same(found, expected):
    return found.shape == expected.shape and torch.equal(found.cpu(), expected)


# ---- residues -----------------------------------------------------------------------------------


@pytest.mark.parametrize("made", residue_system.SYSTEMS.values())
def test_bounds(made):
    """What NOTE [float residues] and the docstrings of `residue_system` promise."""
    device, limit = torch.device("cpu"), 1 << (2 * made.bits - 2)
    assert 2 * made.depth * limit < (1 - 2 * residue_system.MARGIN) * made.product
    assert made.depth % 128 == 0
    assert made.depth << 14 <= 1 << 29
    assert (
        made.planes * (made.depth << 14) / 2 ** (residue_system.SUM_FRACTION + 1)
        < residue_system.MARGIN
    )
    rows = residue_system.factors(made.bits, device).tolist()[:-1]
    assert sum((made.depth << 14) * row[1] for row in rows) < 1 << 63
    for right in (False, True):
        for row in residue_system.weights(made.bits, right, device).tolist():
            reach = 2**15 * sum(abs(w) for w in row[: made.bits // 16])
            assert reach < 2**24
            assert row[4] == 256 or row[4] / 2 + reach * 2**-23 * (1 + 2**-20) < 128


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("right", [False, True])
def test_residues(ring, right):
    """Edge values, and those around half of every modulus times a power of 2^16."""
    made = residue_system.SYSTEMS[ring.bits]
    near = [m * (1 << s) // 2 + d for m in made.moduli for s in (0, 15, 31, 47) for d in (-1, 0, 1)]
    values = [*edges(ring), *(ring.wrap(v) for v in near), *(ring.wrap(-v) for v in near)]
    values += ring_tensor(ring, (400,), 1).tolist()
    (x,) = there(torch.tensor(values, dtype=ring.dtype))
    found = residues.encode(x, (1, 1, 1, len(x)), (0, 0, 0, 1), -(-len(x) // 32) * 32, right=right)
    for m, row in zip(made.moduli, found[:, : len(x)].tolist(), strict=True):
        factor = made.inverse(m) if right else 1
        assert all((r - v * factor) % m == 0 for r, v in zip(row, values, strict=True))


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
@pytest.mark.parametrize("added", [False, True])
def test_combine(ring, dtype, added):
    """The largest integers, of both signs, from reduced sums and from the largest ones."""
    made = residue_system.SYSTEMS[ring.bits]
    top = made.depth << (2 * ring.bits - 2)
    values = [top, -top, top - 1, 1 - top, 0, 1, -1, 2**ring.bits, ring.low, ring.high, top // 3]
    sums = torch.zeros(made.planes, 16, dtype=dtype)
    for i, value in enumerate(values):
        for p, m in enumerate(made.moduli):
            t = residue_system.centred(value * made.inverse(m), m)
            most = (made.depth << 14) // m * m if dtype == torch.int32 else 0
            sums[p, i] = t + (most if i % 2 else -most)
    sums, out = there(sums, torch.ones(len(values), dtype=ring.dtype))
    residues.combine(sums, out, added=added)
    assert out.tolist() == [ring.wrap(value + added) for value in values]


# ---- matrices -----------------------------------------------------------------------------------


@some
@given(ring=rings, m=size, k=size, n=size, turned=st.booleans(), seed=seeds)
def test_matmul(ring, m, k, n, turned, seed):
    a, b = ring_tensor(ring, (m, k), seed), ring_tensor(ring, (n, k), seed + 1).T
    b = b if turned else b.contiguous()
    expected = big_matmul(a, b, ring)
    a, b = there(a, b)
    for method in ("plain", "encoded"):
        assert same(kernels.matmul(a, b, method=method), expected)


@pytest.mark.full("test_matmul")
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((2, 1, 3, 5), (2, 5, 2)), ((3,), (3, 40)), ((2, 3, 0), (0, 4)), ((0, 2, 3), (0, 3, 1))],
)
def test_batches(a_shape, b_shape):
    a, b = ring_tensor(RING64, a_shape, 1), ring_tensor(RING64, b_shape, 2)
    for method in ("choose", "encoded"):
        assert same(kernels.matmul(*there(a, b), method=method), arithmetic.matmul(a, b))


@pytest.mark.full("test_matmul")
@pytest.mark.parametrize("m", tiers.spread([4, 1, 70, 5], 2))
def test_extreme_sums(m, monkeypatch):
    """All elements at the edge, over more than one part; fewer without a GPU."""
    depth = residue_system.SYSTEMS[64].depth if GPU else 128
    monkeypatch.setitem(residue_system.SYSTEMS, 64, residue_system.ResidueSystem(64, 18, depth))
    a, b = (torch.full(shape, RING64.low) for shape in ((m, 2 * depth + 1), (2 * depth + 1, 2)))
    b[0] = RING64.high
    a[1:], a[:, 3] = -1, 5
    expected = big_matmul(a, b, RING64)
    assert same(kernels.matmul(*there(a, b), method="encoded" if m > 4 else "plain"), expected)


@pytest.mark.parametrize("bits", [32, 64])
def test_products_by_torch(bits, monkeypatch):
    """In blocks of rows and parts of the inner dimension."""
    made = residue_system.SYSTEMS[bits]
    monkeypatch.setattr(gemm, "LARGE_SUMS", 1)
    monkeypatch.setattr(gemm, "LARGE_PRODUCTS", 1)
    monkeypatch.setattr(gemm, "SUMS", 1 << 16)
    monkeypatch.setitem(
        residue_system.SYSTEMS, bits, residue_system.ResidueSystem(bits, made.planes, 128)
    )
    ring = RING32 if bits == 32 else RING64
    a, b = ring_tensor(ring, (60, 130), 1), ring_tensor(ring, (130, 16), 2)
    assert same(kernels.matmul(*there(a, b), method="encoded"), arithmetic.matmul(a, b))


@pytest.mark.parametrize(("rows", "k", "n"), [(6, 40, 9), (1, 9, 4), (0, 9, 4), (2, 0, 5)])
def test_prepared_matmul(rows, k, n):
    a, b = ring_tensor(RING64, (rows, k), 1), ring_tensor(RING64, (k, n), 2)
    there_a, there_b = there(a, b)
    made = kernels.prepare_matmul(there_b, kernels.plan_matmul(rows, b.shape, there_b))
    assert made.is_plain == (rows < 5)
    assert made.num_bytes == (made.plan.num_bytes or b.numel() * 8)
    expected = arithmetic.matmul(a, b)
    if not made.is_plain:
        there_b.zero_()
    assert same(kernels.matmul(there_a, made), expected)


# ---- convolutions -------------------------------------------------------------------------------

CASES = [
    ((1, 3, 5, 4), (4, 3, 3, 3), {"padding": 1}),
    ((2, 33, 3, 3), (5, 33, 2, 2), {"stride": (2, 1), "padding": 1}),
    ((1, 4, 7), (6, 2, 3), {"stride": 2, "dilation": 2, "padding": 2, "groups": 2}),
    ((1, 2, 3, 4, 5), (3, 2, 2, 3, 2), {"stride": (1, 2, 1), "padding": (1, 0, 1)}),
]
LARGE_CASES = [
    ((2, 70, 14, 13), (100, 70, 3, 3), {"padding": 1}),
    ((2, 6, 40, 40), (64, 6, 7, 7), {"stride": 2, "padding": 3}),
    ((1, 1030, 7, 7), (40, 1030, 3, 3), {"padding": 1}),
    ((2, 256, 9, 9), (130, 256, 1, 1), {"stride": 2}),
    ((3, 96, 12, 12), (80, 48, 3, 3), {"padding": 1, "groups": 2, "dilation": 2}),
    ((2, 20, 6, 7, 8), (24, 20, 3, 2, 3), {"stride": (2, 1, 3), "padding": (2, 1, 0)}),
    ((3, 32, 11, 11), (64, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 32}),
]


class Convolution:
    """One convolution, compared with the reference."""

    def __init__(self, ring, case, method):
        self.x_shape, self.w_shape, self.arguments = case
        self.dims, self.method = len(self.x_shape) - 2, method
        self.window = Window.make(self.dims, **self.arguments)
        self.x, self.weight = ring_tensor(ring, self.x_shape, 1), ring_tensor(ring, self.w_shape, 2)
        self.out = arithmetic.conv(self.x, self.weight, self.window)
        self.grad = ring_tensor(ring, tuple(self.out.shape), 3)
        self.there = there(self.x, self.weight, self.grad)

    def check_forward(self):
        x, weight, _ = self.there
        assert same(conv(self.dims, x, weight, **self.arguments, method=self.method), self.out)

    def check_grad_input(self):
        _, weight, grad = self.there
        found = conv_grad_input(
            self.dims, self.x_shape, weight, grad, **self.arguments, method=self.method
        )
        sizes = self.x_shape[2:]
        expected = arithmetic.conv_grad_input(sizes, self.weight, self.grad, self.window)
        assert same(found, expected)

    def check_grad_weight(self):  # which has one method only
        x, _, grad = self.there
        found = conv_grad_weight(self.dims, x, self.w_shape, grad, **self.arguments)
        sizes = self.w_shape[2:]
        expected = arithmetic.conv_grad_weight(self.x, sizes, self.grad, self.window)
        assert same(found, expected)

    def check_prepared(self):
        x, weight, _ = self.there
        plan = kernels.plan_conv(
            self.x_shape, self.w_shape, self.window, weight, method=self.method
        )
        made = kernels.prepare_conv(weight, self.window, plan)
        assert made.num_bytes == plan.num_bytes or made.is_plain
        assert same(conv(self.dims, x, made, **self.arguments), self.out)

    def check(self):
        self.check_forward()
        self.check_grad_input()
        self.check_grad_weight()
        self.check_prepared()


@pytest.mark.parametrize("number", range(len(CASES)))
def test_conv(number):
    """The quick tier checks each gradient, and a prepared weight, on one or two of the cases."""
    convolution = Convolution([RING64, RING32][number % 2], CASES[number], "encoded")
    if tiers.FULL:
        convolution.check()
        return
    convolution.check_forward()
    checks = ["check_prepared", "check_grad_input", "check_grad_weight", "check_grad_input"]
    getattr(convolution, checks[number])()


@pytest.mark.full("test_conv")
@pytest.mark.parametrize("case", CASES[2:])
def test_direct_conv(case):
    convolution = Convolution(RING64, case, "plain")
    convolution.check_forward()
    convolution.check_grad_input()


@pytest.mark.full("test_conv")
def test_depthwise():
    case = ((1, 3, 5, 4), (6, 1, 3, 3), {"groups": 3, "padding": 1, "stride": 2})
    convolution = Convolution(RING64, case, "choose")
    convolution.check_forward()
    convolution.check_grad_input()
    convolution.check_prepared()


@on_gpu
@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("case", LARGE_CASES)
@pytest.mark.parametrize("method", ["choose", "encoded", "plain"])
def test_large_conv(ring, case, method):
    Convolution(ring, case, method).check()


@on_gpu
@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("shape", [(1500, 1024, 1600), (2048, 20000, 512), (300, 3000, 7)])
def test_large_matmul(ring, shape):
    m, k, n = shape
    a, b = ring_tensor(ring, (m, k), 1), ring_tensor(ring, (k, n), 2)
    expected = torch.from_numpy(a.numpy()[:40] @ b.numpy())
    found = kernels.matmul(*there(a, b))
    assert same(found[:40], expected)
    assert same(found[40:], kernels.matmul(*there(a[40:], b), method="encoded").cpu())


@pytest.mark.full("test_conv")
def test_conv_in_parts(monkeypatch):
    """More taps and channels, and more positions, than a pass may sum."""
    monkeypatch.setitem(residue_system.SYSTEMS, 64, residue_system.ResidueSystem(64, 18, 128))
    monkeypatch.setattr(weight_gradient, "UNFOLDED", 1)
    window = Window.make(2)
    x, weight = torch.full((1, 40, 4, 3), RING64.low), torch.full((2, 40, 2, 2), RING64.low)
    x[0, ::2], weight[:, 1] = RING64.high, -1
    expected = arithmetic.conv(x, weight, window)
    assert same(kernels.conv2d(*there(x, weight), method="encoded"), expected)
    x, grad = torch.full((1, 1, 15, 12), RING64.low), torch.full((1, 2, 14, 11), RING64.low)
    x[0, 0, ::2], grad[0, 1] = RING64.high, -1
    found = kernels.conv2d_grad_weight(*there(x), (2, 1, 2, 2), *there(grad))
    assert same(found, arithmetic.conv_grad_weight(x, (2, 2), grad, window))


@pytest.mark.parametrize(("batch", "channels", "columns"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_nothing(batch, channels, columns):
    shapes = [(batch, channels, 5, 5), (columns, channels, 3, 3), (batch, columns, 3, 3)]
    x, weight, grad = there(*(torch.ones(shape, dtype=torch.int64) for shape in shapes))
    assert torch.equal(kernels.conv2d(x, weight), torch.zeros_like(grad))
    assert torch.equal(kernels.conv2d_grad_input(x.shape, weight, grad), torch.zeros_like(x))
    assert torch.equal(kernels.conv2d_grad_weight(x, weight.shape, grad), torch.zeros_like(weight))
