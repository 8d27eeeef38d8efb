"""Long dealt values: each of two evaluators receives one half, and the results are as before."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.protocols.halved import halved, short_halves
from tests.runtime import stored_programs as programs
from tests.tiers import draws
from torch.nn import functional as F

import tacit
from tacit.protocols.additive.protocol import additive_roles
from tacit.protocols.masked.deal import HALVED_BITS, ValueSpec, first_half, pad_of, portions, total
from tacit.protocols.trio import trio_roles

__all__ = ["short_halves"]

TWO = [{"protocol": "additive", "parties": 2}, {"protocol": "beaver", "parties": 2}]
DTYPES = [torch.int64, torch.int32, torch.int16]
SHAPES = st.lists(st.integers(1, 9), max_size=3).map(tuple)
SPECS = st.tuples(SHAPES, st.sampled_from(DTYPES), st.booleans()).map(lambda of: ValueSpec(*of))
NARROW = st.integers(1, 200).map(lambda size: ValueSpec((size,), torch.int64, width=5))


@draws(200)
@given(st.lists(SPECS, min_size=1, max_size=5), st.lists(NARROW, max_size=2))
def test_each_element_is_drawn_by_one_evaluator_and_received_by_the_other(specs, narrow):
    dealt, roles = (*specs, *narrow), trio_roles(2, 0, 1)
    bits, few = (sum(spec.num_bits for spec in some) for some in (dealt, narrow))
    with halved():
        found, other = portions(roles, dealt), first_half(bits, few)
    received = {
        e: sum(one.received.num_bits for one in found[e] if one.received) for e in roles.evaluators
    }
    assert received == {0: other, 1: bits - other}
    assert other % 64 == 0
    assert few or bits < 64 or 0 <= bits - 2 * other < 128
    for i, spec in enumerate(dealt):
        value = torch.arange(spec.numel).to(spec.dtype).view(spec.shape)
        column, shares = [], {}
        for e in roles.evaluators:
            one = found[e][i]
            drawn = one.drawn and torch.full(one.drawn.shape, -1 - e, dtype=spec.dtype)
            column.append((one, drawn))
            if not spec.width:
                shares[e] = one.share(one.sent(value), drawn)
        pad = pad_of(column)
        assert pad.shape == value.shape
        if spec.width:
            assert (pad == -1).all()  # drawn by the first evaluator
            continue
        # An evaluator has the value where the other one has the pad.
        assert torch.equal(total(spec, [shares[0], shares[1]]), total(spec, [value, pad]))
        assert all(
            torch.equal((share == value) | (share < 0), value >= 0) for share in shares.values()
        )


def test_short_values_and_more_than_two_evaluators_have_one_receiver():
    long = (ValueSpec((HALVED_BITS // 64,), torch.int64),)
    short = (ValueSpec((HALVED_BITS // 64 - 1,), torch.int64),)
    for roles, dealt in ((trio_roles(0, 1, 2), short), (additive_roles(3), long)):
        found = portions(roles, dealt)
        *others, last = roles.evaluators
        assert found[last][0].drawn is None
        assert all(found[e][0].received is None for e in others)
    assert portions(additive_roles(2), long)[0][0].received.shape == (HALVED_BITS // 128,)


def long_functions(session):
    """Functions of so many elements that halves are dealt, and what each evaluator receives."""
    torch.manual_seed(3)
    x = torch.randn(60_000) * 3
    shared = session.share(x, owner=0)
    with session.stats.scope("all") as cost:
        made = [F.relu(shared), F.gelu(shared), shared * shared.flip(0), (-shared.abs()).exp()]
        made.append(shared.view(60, 1000).softmax(1).flatten())
        found = [session.reveal(one) for one in made]
    plain = [F.relu(x), F.gelu(x), x * x.flip(0), (-x.abs()).exp()]
    plain.append(x.view(60, 1000).softmax(1).flatten())
    error = max(float((a - b).abs().max()) for a, b in zip(found, plain, strict=True))
    return error, cost.bytes_received_ahead


@pytest.mark.parametrize(
    "settings",
    [{}, {"ring": 32, "fraction_bits": 8, "range_bits": 6}, *TWO],
    ids=["trio", "small ring", "additive", "beaver"],
)
def test_functions_of_many_elements(settings):
    found = tacit.run(long_functions, **settings)
    bound = 2e-3 if "ring" not in settings else 6e-2
    assert all(error < bound for error, _ in found)
    first, leader = (received for _, received in found[-2:])
    assert 0.5 * leader < first <= leader


@pytest.mark.parametrize("ring", [64, 32])
def test_operations_are_those_of_one_receiver(ring):
    """Halves of a few words."""
    settings = {"protocol": "trio", "fraction_bits": 8, "ring": ring}
    usual = tacit.run(programs.operations, **settings)[0]
    with halved():
        found = tacit.run(programs.operations, **settings)[0]
    for name in programs.EXACT:
        assert all(map(torch.equal, found[name], usual[name])), name
    for name in programs.ROUNDED:
        off = [(a - b).abs().max() for a, b in zip(found[name], usual[name], strict=True)]
        assert max(off) <= 4, name


@pytest.mark.parametrize("settings", [{"protocol": "trio"}, TWO[0]])
def test_both_halves_are_stored(tmp_path, settings, short_halves):
    tacit.preprocess(programs.lenet, folder=tmp_path, **settings)
    for found, plain in tacit.run(programs.lenet, preprocessed=tmp_path, **settings):
        torch.testing.assert_close(found, plain, rtol=0, atol=2e-3)
