"""Freivalds' check: no false alarm, and every wrong answer is caught, with the liar's name."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, cycle, islice, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.enclave.products import CASES, cases, integers
from tests.enclave.workers import OUTSOURCED, changing, outsourcer, two_enclaves
from tests.tiers import FULL, draws
from torch import Tensor

from tacit import kernels
from tacit.enclave.trusted import freivalds
from tacit.enclave.trusted.freivalds import PRIME, agrees
from tacit.enclave.trusted.quantise import PRECISIONS
from tacit.errors import CheatingDetected
from tacit.protocols.products.bilinear import MATMUL

BITS = {"swalp": 8, "fixed": 22}
_numbers = count()


def draw(words: Tensor) -> Tensor:
    """Fresh words for each check."""
    return kernels.stream(bytes(16), words, operation=next(_numbers))


def made(case, precision: str, seed: int):
    """An operation, its operands and its result in the ring."""
    op, *shapes = case
    dtype, ring = PRECISIONS[precision].dtype, PRECISIONS[precision].ring
    a, b = (integers(s, BITS[precision], seed + i).to(dtype) for i, s in enumerate(shapes))
    return op, a, b, op(a.to(ring.dtype), b.to(ring.dtype)).contiguous()


def passes(op, a, b, c) -> bool:
    precision = "swalp" if c.dtype == torch.int32 else "fixed"
    return agrees(op, a, b, c, PRECISIONS[precision].bound, draw)


# The check itself ---------------------------------------------------------------------------------


@draws(400)
@given(cases(), st.sampled_from(list(BITS)), st.integers(0, 10**6))
def test_right_products_pass(case, precision, seed):
    assert passes(*made(case, precision, seed))


@draws(400)
@given(cases(), st.sampled_from(list(BITS)), st.integers(0, 10**6), st.data())
def test_any_changed_element_is_caught(case, precision, seed, data):
    op, a, b, c = made(case, precision, seed)
    place = data.draw(st.integers(0, c.numel() - 1))
    c.view(-1)[place] ^= 1 << data.draw(st.integers(0, 8 * c.itemsize - 2))
    assert not passes(op, a, b, c)


@pytest.mark.parametrize("precision", BITS)
def test_powers_of_two_and_multiples_of_the_prime_are_caught(precision):
    """What a check mod 2^64 or mod p alone would miss."""
    op, a, b, c = made(CASES["matmul"], precision, 1)
    errors = [1 << i for i in range(8 * c.itemsize - 1)]
    errors += [n * PRIME for n in (-4, -2, -1, 1, 2, 3) if c.itemsize == 8]
    for error in errors:
        for sign in (1, -1):
            wrong = c.clone()
            wrong[2, 1] += sign * error
            assert not passes(op, a, b, wrong), error


def test_errors_that_cancel_along_the_axis_are_caught():
    op, a, b, c = made(CASES["matmul"], "swalp", 1)
    for dim in (0, 1):
        assert not passes(op, a, b, c.roll(1, dim))
        wrong = c.clone()
        wrong.select(dim, 0)[1] += 5
        wrong.select(dim, 1)[1] -= 5
        assert not passes(op, a, b, wrong)


def test_sums_over_long_axes_are_exact(monkeypatch):
    """More rows than are added up at a time, with the largest numbers."""
    a = torch.full((3000, 1), -128, dtype=torch.int32)
    c = a @ torch.full((1, 1), -128, dtype=torch.int32)
    assert passes(MATMUL, a, torch.full((1, 1), -128, dtype=torch.int32), c)
    c[2500] += 1
    assert not passes(MATMUL, a, torch.full((1, 1), -128, dtype=torch.int32), c)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("precision", BITS)
def test_sums_in_slices(name, precision, monkeypatch):
    """Many sums mod p, of which few would fit into 64 bits together, and few elements at a time."""
    monkeypatch.setattr(freivalds, "MOST_ROWS", 1)
    monkeypatch.setattr(freivalds, "SLICE_ELEMENTS", 2)
    for seed in range(4):
        op, a, b, c = made(CASES[name], precision, seed)
        assert passes(op, a, b, c)
        c.view(-1)[-1] += 1
        assert not passes(op, a, b, c)


@draws(200)
@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=6), st.integers(0, 100))
def test_contractions_against_big_integers(values, seed):
    words = torch.empty(3, len(values), dtype=torch.int32)
    limbs = kernels.stream(bytes(16), words, operation=seed) & 0x7FFF
    s = [x + (y << 15) + (z << 30) for x, y, z in limbs.T.tolist()]
    for dtype, bits in ((torch.int64, 62), (torch.int32, 32), (torch.int8, 8)):
        x = torch.tensor([value >> 62 - bits for value in values]).to(dtype)
        wanted = sum(u * v for u, v in zip(x.tolist(), s, strict=True)) % PRIME
        assert int(freivalds._contracted(x, (0, 1), limbs)) == wanted


def test_a_product_of_zeros_is_checked():
    op, a, b, c = made(CASES["conv"], "swalp", 1)
    assert passes(op, a * 0, b, c * 0)
    assert not passes(op, a * 0, b, c)


# Lying workers ------------------------------------------------------------------------------------


def flipped(bit: int) -> Callable[[Tensor], Tensor]:
    def change(answer: Tensor) -> Tensor:
        wrong = answer.clone()
        place = 31 * bit % wrong.numel()
        wrong.view(-1)[place] ^= torch.tensor(1).bitwise_left_shift(bit).to(wrong.dtype)
        return wrong

    return change


def increased(bit: int) -> Callable[[Tensor], Tensor]:
    def change(answer: Tensor) -> Tensor:
        return answer + torch.tensor(1).bitwise_left_shift(bit).to(answer.dtype)

    return change


class Stale:
    """Answers with the answer before."""

    def __init__(self) -> None:
        self.last = torch.zeros(())

    def __call__(self, answer: Tensor) -> Tensor:
        wrong, self.last = self.last, answer
        return wrong if wrong.shape == answer.shape else answer


def lies(bits: int) -> list[Callable[[], Callable[[Tensor], Tensor]]]:
    return [
        *(lambda bit=bit: flipped(bit) for bit in range(bits)),
        *(lambda bit=bit: increased(bit) for bit in range(bits)),
        lambda: lambda answer: answer.roll(1, -2),  # rows
        lambda: torch.zeros_like,
        lambda: torch.neg,
        lambda: lambda answer: answer.flip(-1),
        Stale,
    ]


TAMPERED = 2000 if FULL else 60


def test_lying_workers_are_named():
    """2,000 tampered answers in the full tier: each is caught, and its worker is named."""
    settings = list(product(OUTSOURCED[:2], BITS, CASES))
    plans = zip(cycle(settings), count(), strict=False)
    for (mode, precision, name), i in islice(plans, TAMPERED):
        chosen = lies(32 if precision == "swalp" else 64)
        lie, liar = chosen[i * 7 % len(chosen)](), i % (3 if mode == "three-server" else 2)
        op, *shapes = CASES[name]
        a, b = (integers(s, BITS[precision], i + j) for j, s in enumerate(shapes))
        with outsourcer(mode, precision=precision, serve={liar: changing(lie)}) as enclave:
            if isinstance(lie, Stale):  # the same numbers in other tensors have other masks
                enclave.product(op, a.clone(), b.clone())
            with pytest.raises(CheatingDetected) as caught:
                enclave.product(op, a, b)
        assert caught.value.subject == f"worker {liar}", (mode, precision, name, i)
        assert caught.value.party is None


def test_honest_workers_are_never_accused():
    for precision in BITS:
        with outsourcer("three-server", precision=precision) as enclave:
            for i in range(TAMPERED // 2):
                op, *shapes = list(CASES.values())[i % len(CASES)]
                enclave.product(op, *(torch.randn(s) * 2.0 ** (i % 9 - 4) for s in shapes))


def test_one_worker_that_lies():
    for name in CASES:
        with outsourcer("one-worker", serve={0: changing(flipped(31))}) as enclave:
            op, *shapes = CASES[name]
            with pytest.raises(CheatingDetected, match="worker 0"):
                enclave.product(op, *(torch.randn(s) for s in shapes))


def test_several_liars_are_named():
    serve = {0: changing(increased(3)), 2: changing(increased(4))}
    op, *shapes = CASES["matmul"]
    with (
        outsourcer("three-server", serve=serve) as enclave,
        pytest.raises(CheatingDetected, match="worker 0 and worker 2"),
    ):
        enclave.product(op, *(torch.randn(s) for s in shapes))


@pytest.mark.parametrize("liar", range(3))
def test_both_enclaves_name_the_liar(liar):
    op, *shapes = CASES["conv"]
    a, b = (torch.randn(s) for s in shapes)
    serve = {liar: changing(increased(9))}
    for error in two_enclaves("three-server", lambda e: e.product(op, a, b), serve=serve):
        assert isinstance(error, CheatingDetected)
        assert error.subject == f"worker {liar}"


def test_without_check_bits_nothing_is_checked():
    op, a, b, c = made(CASES["matmul"], "swalp", 1)
    with outsourcer("three-server", serve={1: changing(increased(3))}, check_bits=0) as enclave:
        assert torch.equal(enclave.product(op, a.double(), b.double()), c.double() + 8)


@pytest.mark.parametrize(("bits", "vectors"), [(1, 1), (40, 1), (44, 1), (45, 2), (128, 3)])
def test_the_bound_decides_the_number_of_vectors(bits, vectors):
    with outsourcer("none", check_bits=bits) as enclave:
        assert enclave._checks.num_checks == vectors
