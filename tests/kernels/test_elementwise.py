import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, ring_tensors, rings
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import backend
from tacit.kernels import elementwise as kernels
from tacit.ring import RING32, RING64
from tacit.ring.reference import elementwise as reference

# The exact answer, on Python integers.
EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "mul_add": lambda a, b, c: a * b + c,
}
ARITY = {"add": 2, "sub": 2, "mul": 2, "neg": 1, "mul_add": 3}


def exactly(ring, name, *operands):
    shape = torch.broadcast_shapes(*(x.shape for x in operands))
    columns = (x.expand(shape).flatten().tolist() for x in operands)
    values = [ring.wrap(EXACT[name](*row)) for row in zip(*columns, strict=True)]
    return torch.tensor(values, dtype=ring.dtype).view(shape)


@st.composite
def calls(draw):
    """An operation with operands of shapes that broadcast together."""
    ring, name = draw(rings), draw(st.sampled_from(list(EXACT)))
    shape = draw(st.lists(st.integers(0, 7), max_size=3).map(tuple))
    operands = []
    for _ in range(ARITY[name]):
        kind = draw(st.sampled_from(["same", "same", "one", "dropped"]))
        start = draw(st.integers(0, len(shape))) if kind == "dropped" else 0
        keep = [kind != "one" or draw(st.booleans()) for _ in shape]
        own = tuple(n if k else 1 for n, k in zip(shape, keep, strict=True))[start:]
        operands.append(draw(ring_tensors(ring, own)))
    return ring, name, operands


@pytest.fixture(scope="module", autouse=True)
def every_size_is_worth_a_call():
    """So that the small tensors of these tests reach the compiled loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "WORTH_A_CALL", 0)
        yield


@draws(300)
@given(calls())
def test_exact(call):
    ring, name, operands = call
    expected = exactly(ring, name, *operands)
    assert torch.equal(getattr(kernels, name)(*operands), expected)
    assert torch.equal(getattr(reference, name)(*operands), expected)


@draws(100)
@given(rings.flatmap(lambda r: st.tuples(ring_tensors(r), st.integers(0, r.bits - 1))))
def test_truncation_is_the_floor(case):
    x, bits = case
    floors = torch.tensor([v >> bits for v in x.flatten().tolist()], dtype=x.dtype).view(x.shape)
    assert torch.equal(kernels.truncate(x, bits), floors)
    assert torch.equal(reference.truncate(x, bits), floors)


@pytest.mark.parametrize("ring", [RING32, RING64], ids=["int32", "int64"])
@pytest.mark.parametrize("seed", [0, 1])
def test_large_mul_add_with_any_thread_count(ring, seed):
    print(f"seed {seed}")
    full = [ring_tensor(ring, (100_003,), seed=3 * seed + i) for i in range(3)]
    one = [x[5].clone() for x in full]
    before = backend.num_threads()
    try:
        for threads, choice in itertools.product((1, 3), itertools.product((0, 1), repeat=3)):
            backend.set_num_threads(threads)
            a, b, c = (pair[i] for pair, i in zip(zip(full, one, strict=True), choice, strict=True))
            assert torch.equal(kernels.mul_add(a, b, c), reference.mul_add(a, b, c))
    finally:
        backend.set_num_threads(before)


def test_results_are_new_tensors():
    x = ring_tensor(RING64, (10,), seed=9)
    kept = x.clone()
    for result in (kernels.mul(x, x), kernels.mul_add(x, x, x), kernels.truncate(x, 0)):
        result.zero_()
    assert torch.equal(x, kept)


def test_forced_reference(force_reference):
    a, b, c = (ring_tensor(RING64, (500, 30), seed=i) for i in range(3))
    fast = kernels.mul_add(a, b, c)
    force_reference()
    assert torch.equal(kernels.mul_add(a, b, c), fast)


@pytest.mark.parametrize("name", list(EXACT))
def test_mixed_and_foreign_dtypes_are_refused(name):
    narrow, wide = torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ConfigError, match="dtype"):
        getattr(kernels, name)(*[torch.zeros(2)] * ARITY[name])
    if ARITY[name] > 1:
        with pytest.raises(ConfigError, match="dtype"):
            getattr(kernels, name)(narrow, *[wide] * (ARITY[name] - 1))


@pytest.mark.parametrize(("ring", "bits"), [(RING32, 32), (RING64, 64), (RING64, -1)])
def test_truncation_range(ring, bits):
    with pytest.raises(ConfigError, match=f"bits={bits}"):
        kernels.truncate(torch.zeros(1, dtype=ring.dtype), bits)
