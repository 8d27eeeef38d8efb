"""Outsourced products are exact in every mode, and failures name the worker."""

from __future__ import annotations

import threading
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.enclave.products import CASES, cases, integers
from tests.enclave.workers import KEY, OUTSOURCED, Crew, changing, outsourcer, two_enclaves
from tests.tiers import draws

from tacit.config import VISIBLE_WEIGHTS
from tacit.enclave.trusted import quantise
from tacit.enclave.trusted.outsourcing import Outsourcer
from tacit.errors import CheatingDetected, ConfigError, RangeError, WorkerFailed
from tacit.protocols.products.bilinear import MATMUL, MUL, Conv, ConvGradWeight, Einsum
from tacit.protocols.products.floats import in_floats
from tacit.ring import Window
from tacit.transport import Limits

BITS = {"swalp": 8, "fixed": 22}
LOWEST = torch.tensor(-128.0 + 2.0**-40, dtype=torch.float64)  # is rounded to -128
EACH_MODE = pytest.mark.parametrize("mode", [*OUTSOURCED, "none"])
EACH_PRECISION = pytest.mark.parametrize("precision", BITS)


def operands(case, bits, seed=1):
    op, *shapes = case
    return op, *(integers(shape, bits, seed + i) for i, shape in enumerate(shapes))


def exact(op, a, b):
    """The product by the reference of the ring, in integers."""
    return op(a.long(), b.long()).double()


@EACH_MODE
@EACH_PRECISION
def test_every_product_is_exact(mode, precision):
    with outsourcer(mode, precision=precision) as enclave:
        for case in CASES.values():
            op, a, b = operands(case, BITS[precision])
            assert torch.equal(enclave.product(op, a, b), exact(op, a, b))


def test_one_product_against_big_integers():
    with outsourcer("three-server", precision="fixed") as enclave:
        a, b = integers((3, 40), 22, 1), integers((40, 2), 22, 2)
        found = enclave.product(MATMUL, a, b)
    left, right = a.long().tolist(), b.long().T.tolist()
    wanted = [[sum(x * y for x, y in zip(r, c, strict=True)) for c in right] for r in left]
    assert found.tolist() == wanted


@pytest.fixture(scope="module")
def enclaves():
    with outsourcer("three-server") as small, outsourcer("three-server", precision="fixed") as wide:
        yield {"swalp": small, "fixed": wide}


@draws(200)
@given(cases(), st.sampled_from(list(BITS)), st.integers(0, 1000))
def test_windows_and_batches_of_any_form(enclaves, case, precision, seed):
    op, a, b = operands(case, BITS[precision], seed)
    assert torch.equal(enclaves[precision].product(op, a, b), exact(op, a, b))


@pytest.mark.parametrize("mode", ["three-server", "two-server"])
def test_two_enclaves_get_the_same(mode):
    torch.manual_seed(3)
    floats = [(op, torch.randn(a), torch.randn(b)) for op, a, b in CASES.values()]

    def program(enclave):
        return [enclave.product(*case) for case in floats]

    both = two_enclaves(mode, program)
    with outsourcer(mode) as enclave:
        alone = program(enclave)
    for found in both:
        assert all(torch.equal(x, y) for x, y in zip(found, alone, strict=True))


def test_modes_differ_in_no_bit():
    """Stochastic rounding is a function of the key and the calls, not of the mode."""
    torch.manual_seed(4)
    op, *shapes = CASES["conv"]
    a, b = (torch.randn(shape) for shape in shapes)
    found = []
    for mode in OUTSOURCED:
        with outsourcer(mode, kept_bytes=0) as enclave:
            found.append([enclave.product(op, a, b) for _ in range(2)])
    assert all(torch.equal(x, y) for one in found for x, y in zip(one, found[0], strict=True))
    assert not torch.equal(*found[0])  # each call rounds anew


@EACH_MODE
def test_products_of_floats_are_near(mode):
    """Each term errs by 2^-6 or 2^-20 of the largest product: that is what 8 and 22 bits give."""
    torch.manual_seed(5)
    for precision, error in (("swalp", 2**-6), ("fixed", 2**-20)):
        with outsourcer(mode, precision=precision) as enclave:
            for op, *shapes in CASES.values():
                a, b = (torch.randn(shape) for shape in shapes)
                bound = op.terms(*shapes) * a.abs().max() * b.abs().max() * error * 2
                wanted = in_floats(op, a.double(), b.double())
                assert (enclave.product(op, a, b) - wanted).abs().max() < bound


def test_einsum_vectors_and_elementwise_products():
    with outsourcer("three-server") as enclave:
        a, b, v = integers((2, 3, 4), 8, 1), integers((4, 5), 8, 2), integers((4,), 8, 3)
        found = enclave.product(Einsum("xyz,zw->wxy"), a, b)
        assert torch.equal(found, torch.einsum("xyz,zw->wxy", a, b))
        assert torch.equal(enclave.product(MATMUL, a, v), a @ v)
        assert torch.equal(enclave.product(MATMUL, v, b), v @ b)
        assert torch.equal(enclave.product(MATMUL, v, v), v @ v)
        assert torch.equal(enclave.product(MUL, a, v), a * v)


def test_empty_products_are_zeros_and_send_nothing():
    with outsourcer("three-server") as enclave:
        assert enclave.product(MATMUL, torch.ones(0, 3), torch.ones(3, 2)).shape == (0, 2)
        assert torch.equal(
            enclave.product(MATMUL, torch.ones(2, 0), torch.ones(0, 2)), torch.zeros(2, 2)
        )
        assert enclave.counters.total.calls == 0


def test_the_result_has_the_dtype_of_the_left_operand():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for precision in BITS:
            with outsourcer("three-server", precision=precision) as enclave:
                found = enclave.product(MATMUL, torch.ones(2, 3, dtype=dtype), torch.ones(3, 2))
            assert found.dtype == dtype
            assert (found == 3).all()


def test_zeros_and_strided_operands():
    with outsourcer("three-server") as enclave:
        assert not enclave.product(MATMUL, torch.zeros(3, 4), torch.randn(4, 2)).any()
        a, b = integers((6, 4), 8, 1).T, integers((12, 5), 8, 2)[::2]
        assert torch.equal(enclave.product(MATMUL, a, b), a @ b)


def test_long_sums_are_cut(monkeypatch):
    """The largest values, so many that one ring element could not hold the sum."""
    monkeypatch.setattr(quantise, "PRECISIONS", SMALL)
    window = Window.make(1, 1, 1)
    with outsourcer("three-server") as enclave:
        a, b = LOWEST.expand(2, 70), LOWEST.expand(70, 3)
        assert torch.equal(enclave.product(MATMUL, a, b), (a @ b).round())
        assert enclave.counters.total.bytes_sent == 2 * 4 * (2 * 70 + 70 * 3)  # once
        x, grad = LOWEST.expand(9, 2, 4), LOWEST.expand(9, 3, 4)
        op = ConvGradWeight(window, (3, 2, 3))
        assert torch.equal(enclave.product(op, x, grad), exact(op, x.floor(), grad.floor()))
        with pytest.raises(RangeError, match=r"adds up 30 products.*the ring holds 15"):
            enclave.product(Conv(window), torch.ones(1, 10, 4), torch.ones(2, 10, 3))
        assert enclave.counters.total.calls == 3


SMALL = {"swalp": quantise.Precision(8, torch.int8, quantise.RING32, True, 1 << 18)}


def test_the_largest_sums_are_exact():
    """128 * 128 * 131071 is below 2^31, and one term more is cut."""
    with outsourcer("three-server") as enclave:
        for terms in (131071, 131072):
            a, b = LOWEST.expand(1, terms), LOWEST.expand(terms, 1)
            assert int(enclave.product(MATMUL, a, b)) == terms << 14


@pytest.mark.parametrize("mode", ["three-server", VISIBLE_WEIGHTS, "none"])
def test_the_modulus_of_goten_wraps_where_ours_does_not(mode):
    """63 products of -128 and -128, the largest, are below q / 2; 64 are not."""
    q = (1 << 21) - 9
    with outsourcer(mode, precision="goten") as enclave:
        for terms in (63, 64):
            wanted = terms << 14
            found = enclave.product(MATMUL, LOWEST.expand(1, terms), LOWEST.expand(terms, 1))
            assert int(found) == (wanted if wanted < q / 2 else wanted - q)
        assert (enclave.counters.total.sums, enclave.counters.total.wrapped) == (2, 1)


def test_counters():
    with outsourcer("three-server", kept_bytes=0) as enclave:
        op, a, b = operands(CASES["conv"], 8)
        for _ in range(2):
            enclave.product(op, a, b)
        total, [(name, effort)] = enclave.counters.total, enclave.counters.products.items()
    size, out = 4 * (a.numel() + b.numel()), 4 * prod(op.shape(a.shape, b.shape))
    assert name == "Conv (3, 4, 7, 6) (6, 2, 3, 3)"
    assert total == effort
    assert (total.calls, total.bytes_sent, total.bytes_received) == (2, 2 * 2 * size, 2 * 3 * out)
    phases = {"quantise", "mask", "send", "inside", "wait", "unmask", "check", "dequantise"}
    assert total.seconds.keys() == phases
    assert all(seconds > 0 for seconds in total.seconds.values())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(value):
    with outsourcer("three-server") as enclave:
        a = torch.ones(3, 4)
        a[1, 2] = value
        with pytest.raises(RangeError, match="not finite"):
            enclave.product(MATMUL, a, torch.ones(4, 2))
        assert torch.equal(
            enclave.product(MATMUL, torch.ones(3, 4), torch.ones(4, 2)), 4 * torch.ones(3, 2)
        )


@pytest.mark.parametrize(
    ("mode", "links", "settings"),
    [
        ("four-server", 0, {}),
        ("three-server", 2, {}),
        ("none", 0, {"precision": "float8"}),
        ("none", 0, {"check_bits": -1}),
        ("none", 0, {"cipher": "rot13"}),
        ("none", 0, {"key": bytes(32)}),
        ("none", 0, {"key": b"short"}),
    ],
)
def test_bad_settings_are_refused(mode, links, settings):
    crew = Crew()
    meshes = [crew.link(i) for i in range(links)]
    with pytest.raises(ConfigError):
        Outsourcer(meshes, mode, **{"key": KEY, **settings})
    crew.end()


# Failures -----------------------------------------------------------------------------------------


def dying(_answer):
    raise RuntimeError


def test_a_worker_that_dies_is_named():
    op, a, b = operands(CASES["matmul"], 8)
    for number in range(3):
        with (
            outsourcer("three-server", serve={number: changing(dying)}) as enclave,
            pytest.raises(WorkerFailed) as caught,
        ):
            enclave.product(op, a, b)
        assert caught.value.subject == f"worker {number}"
        assert caught.value.party is None


@pytest.mark.parametrize("kind", ["memory", "tls"])
def test_a_worker_that_is_late_is_named(kind):
    released = threading.Event()

    def late(answer):
        released.wait(30.0)
        return answer

    crew = Crew(kind, Limits(deadline=0.2, patience=0.4))
    op, a, b = operands(CASES["matmul"], 8)
    with outsourcer("three-server", serve={1: changing(late)}, crew=crew) as enclave:
        with pytest.raises(WorkerFailed, match=r"worker 1.*PeerTimeout") as caught:
            enclave.product(op, a, b)
        released.set()
    assert caught.value.subject == "worker 1"


def test_an_answer_of_another_shape_is_refused():
    serve = {0: changing(lambda answer: answer.flatten())}
    op, a, b = operands(CASES["matmul"], 8)
    with (
        outsourcer("three-server", serve=serve) as enclave,
        pytest.raises(WorkerFailed, match=r"worker 0.*ProtocolDesync"),
    ):
        enclave.product(op, a, b)


def test_no_call_after_a_failure():
    serve = {2: changing(lambda answer: answer + 1)}
    op, a, b = operands(CASES["matmul"], 8)
    with outsourcer("three-server", serve=serve) as enclave:
        with pytest.raises(CheatingDetected):
            enclave.product(op, a, b)
        with pytest.raises(WorkerFailed):
            enclave.product(op, a, b)


def test_over_tls():
    with outsourcer("three-server", crew=Crew("tls")) as enclave:
        for case in CASES.values():
            op, a, b = operands(case, 8)
            assert torch.equal(enclave.product(op, a, b), exact(op, a, b))


def test_workers_end_with_the_enclave():
    crew = Crew()
    with outsourcer("three-server", crew=crew) as enclave:
        enclave.product(*operands(CASES["matmul"], 8))
    assert crew.errors == {}
