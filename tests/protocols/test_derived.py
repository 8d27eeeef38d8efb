"""Selection by secret bits against plain integers: every protocol, every role, both rings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import tacit
from tacit.errors import PartyFailed, ProtocolError

from .plaintexts import EVERYWHERE, RINGS, close, evaluate, integers

SHIFT = 5
NARROW, WIDE = 1000, 1 << 20  # windows of at most 16 bits, and of more


def choices(p: Any, x: Any, y: Any) -> list[Any]:
    bit = p.less(x, y)
    positive, kept = p.relu_with_bit(x)
    return [
        bit,
        p.to_arith(bit),
        p.select(bit, x, y),
        p.relu(x),
        positive,
        kept,
        p.relu_backward(kept, y),
        p.absolute(x),
        p.clip(x, -7, 300),
        p.clip(x, 5, 5),
        p.less_public(x, 3),
        p.equal(x, y),
        p.maximum(x, y),
        p.minimum(x, y),
    ]


def plain_choices(x: Tensor, y: Tensor) -> list[Tensor]:
    return [
        x < y,
        (x < y).to(x.dtype),
        torch.where(x < y, x, y),
        x.relu(),
        x.relu(),
        x >= 0,
        torch.where(x >= 0, y, 0),
        x.abs(),
        x.clip(-7, 300),
        x.clip(5, 5),
        x < 3,
        x == y,
        torch.maximum(x, y),
        torch.minimum(x, y),
    ]


@EVERYWHERE
@RINGS
def test_selection(protocol, by, ring):
    limit = (1 << (ring - 2)) - 1
    x, y = integers((3, 5, 7), limit, 1), integers((3, 5, 7), limit, 2)
    dtype = torch.int32 if ring == 32 else torch.int64
    found, _ = evaluate(choices, x, y, protocol=protocol, by=by, ring=ring, limit=limit)
    for a, b in zip(found, plain_choices(x.to(dtype), y.to(dtype)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (64,), (2, 0, 3)])
def test_shapes(shape):
    x, y = integers(shape, NARROW, 3), integers(shape, NARROW, 4)
    found, _ = evaluate(choices, x, y, limit=NARROW)
    for a, b in zip(found, plain_choices(x, y), strict=True):
        assert torch.equal(a, b)


@EVERYWHERE
def test_broadcasting(protocol, by):
    x, y, z = integers((4, 1, 5), 99, 5), integers((3, 1), 99, 6), integers((4, 3, 1), 99, 7)

    def program(p: Any, x: Any, y: Any, z: Any) -> list[Any]:
        bit = p.less_public(z, torch.tensor([[3], [-50], [0]]))
        return [p.maximum(x, y), p.minimum(x, y), p.less(x, y), p.select(bit, x, y)]

    found, _ = evaluate(program, x, y, z, protocol=protocol, by=by, limit=99)
    bit = z < torch.tensor([[3], [-50], [0]])
    wanted = [torch.maximum(x, y), torch.minimum(x, y), x < y, torch.where(bit, x, y)]
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)


# Pending divisions -------------------------------------------------------------------------------


def quotients(p: Any, x: Any, y: Any) -> list[Any]:
    """Each operation on products of its own, whose divisions are still to be made."""

    def new() -> Any:
        return p.mul(x, y, shift=SHIFT)

    bit = p.less(x, y)
    return [
        p.relu(new()),
        p.absolute(new()),
        p.clip(new(), -40, 50),
        p.maximum(new(), y),
        p.maximum(y, new()),
        p.minimum(new(), p.mul(y, y, shift=SHIFT)),
        p.select(bit, new(), x),
        p.select(bit, x, new()),
        p.select(bit, new(), p.mul(y, y, shift=SHIFT)),
        p.relu(new().permute(1, 0)),
        p.relu_backward(bit, new()),
    ]


@EVERYWHERE
@RINGS
def test_pending_divisions_are_a_unit_off(protocol, by, ring):
    x, y = integers((9, 15), NARROW, 8), integers((9, 15), NARROW, 9)
    found, _ = evaluate(quotients, x, y, protocol=protocol, by=by, ring=ring, limit=NARROW)
    q, r = (x * y) / 2**SHIFT, (y * y) / 2**SHIFT
    wanted = [
        q.relu(),
        q.abs(),
        q.clip(-40, 50),
        torch.maximum(q, y),
        torch.maximum(q, y),
        torch.minimum(q, r),
        torch.where(x < y, q, x),
        torch.where(x < y, x, q),
        torch.where(x < y, q, r),
        q.T.relu(),
        torch.where(x < y, q, 0),
    ]
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        close(a, b, 2 if i == 5 else 1)  # 5: which of two quotients is smaller is a unit unclear
    assert (found[0] >= 0).all()
    assert (found[1] >= 0).all()


def test_what_passes_is_settled_and_bounded():
    """Results carry limits as narrow as their operands': later comparisons stay cheap."""

    def program(p: Any, x: Any, y: Any) -> list[Any]:
        results = [p.relu(x), p.absolute(x), p.maximum(x, y), p.select(p.less(x, y), x, y)]
        results += [p.max(x.reshape(3, -1), 0), p.sort(x.reshape(3, -1), 0)]
        assert all(r.limit <= NARROW and not r.pending for r in results)
        assert p.clip(x, -3, 2).limit == 3
        assert p.relu(p.mul(x, y, shift=10)).limit <= NARROW * NARROW // 1024 + 2
        return results

    evaluate(program, integers((9,), NARROW), integers((9,), NARROW), limit=NARROW)


# Rounds ------------------------------------------------------------------------------------------

ROUNDS = {  # beyond those of the comparison
    "less": (lambda p, x, y: p.less(x, y), 0),
    "less_public": (lambda p, x, y: p.less_public(x, 3), 0),
    "relu": (lambda p, x, y: p.relu(x), 1),
    "relu_with_bit": (lambda p, x, y: p.relu_with_bit(x), 1),
    "absolute": (lambda p, x, y: p.absolute(x), 1),
    "clip": (lambda p, x, y: p.clip(x, -5, 90), 1),
    "maximum": (lambda p, x, y: p.maximum(x, y), 1),
    "minimum": (lambda p, x, y: p.minimum(x, y), 1),
}


@pytest.mark.parametrize("name", ROUNDS)
@pytest.mark.parametrize(
    ("limit", "count", "comparison"), [(NARROW, 5, 2), (WIDE, 5, 2), (WIDE, 20000, 3)]
)
def test_rounds(name, limit, count, comparison):
    """Few elements of any width are compared in two rounds."""
    operation, more = ROUNDS[name]
    x, y = integers((count,), limit, 1), integers((count,), limit, 2)
    assert evaluate(operation, x, y, limit=limit)[1] == comparison + more


@pytest.mark.parametrize("name", ROUNDS)
def test_a_pending_division_costs_no_round(name):
    operation, more = ROUNDS[name]

    def program(p: Any, x: Any, y: Any) -> Any:
        return operation(p, p.mul(x, y, shift=SHIFT), p.mul(y, y, shift=SHIFT))

    x = integers((5,), WIDE, 1)
    assert evaluate(program, x, x, limit=WIDE)[1] == 2 + 2 + more


def test_rounds_of_one():
    def program(p: Any, x: Any, y: Any) -> Any:
        bit = p.pack(torch.ones(5, dtype=torch.bool))
        return [p.select(bit, x, y), p.to_arith(bit)]

    assert evaluate(program, integers((5,), 9), integers((5,), 9))[1] == 2


def test_side_by_side():
    """Operations in a parallel block take the rounds of the longest."""
    x, y = integers((40,), WIDE, 1), integers((40,), WIDE, 2)

    def program(p: Any, x: Any, y: Any) -> list[Any]:
        product = p.mul(x, y, shift=SHIFT)
        with p.parallel():
            positive, bit = p.relu_with_bit(x)
            results = [p.relu(product), p.absolute(y), p.clip(y, -9, 9), p.maximum(x, y)]
            results += [p.less(x, y), p.equal(x, y), p.max(x.reshape(20, 2))]
        return [positive, bit, *results]

    found, rounds = evaluate(program, x, y, limit=WIDE)
    assert rounds == 1 + 3
    wanted = [x.relu(), x >= 0, None, y.abs(), y.clip(-9, 9), torch.maximum(x, y), x < y, x == y]
    wanted.append(x.reshape(20, 2).amax(-1))
    for a, b in zip(found, wanted, strict=True):
        assert b is None or torch.equal(a, b)
    close(found[2], ((x * y).double() / 2**SHIFT).relu(), 1)


def test_low_bits_may_be_ignored():
    x = torch.arange(-100, 100)
    [found], _ = evaluate(lambda p, x: p.relu(x, low=4), x, limit=100)
    assert torch.equal(found[x >= 0], x[x >= 0])
    assert not found[x < -16].any()
    negative = found[(x >= -16) & (x < 0)]
    assert ((negative == 0) | (negative == x[(x >= -16) & (x < 0)])).all()


@EVERYWHERE
def test_views(protocol, by):
    """Shares that are views of others: transposed, expanded, strided."""
    x = integers((6, 10), NARROW, 3)

    def program(p: Any, x: Any) -> list[Any]:
        views = [x.permute(1, 0), x[::2, 1::3], x[:, :1].expand(6, 4)]
        bits = [p.less_public(view, 0) for view in views]
        injected = [p.inject(bit, view) for bit, view in zip(bits, views, strict=True)]
        clipped = [p.clip(view, -2, 5) for view in views]
        products = [p.settled(p.mul(v, v, shift=3).permute(1, 0)) for v in views]
        return injected + clipped + products

    found, _ = evaluate(program, x, protocol=protocol, by=by, limit=NARROW)
    views = [x.T, x[::2, 1::3], x[:, :1].expand(6, 4)]
    for a, view in zip(found[:3], views, strict=True):
        assert torch.equal(a, view.clip(max=0))
    for a, view in zip(found[3:6], views, strict=True):
        assert torch.equal(a, view.clip(-2, 5))
    for a, view in zip(found[6:], views, strict=True):
        close(a, (view * view / 8).T, 1)


def test_probabilistic_division_too():
    x, y = integers((50,), NARROW, 8), integers((50,), NARROW, 9)

    def program(p: Any, x: Any, y: Any) -> list[Any]:
        return [p.relu(p.mul(x, y, shift=SHIFT)), p.maximum(p.mul(x, y, shift=SHIFT), y)]

    found, _ = evaluate(program, x, y, limit=NARROW, truncation="probabilistic")
    close(found[0], (x * y / 2**SHIFT).relu(), 1)
    close(found[1], torch.maximum(x * y / 2**SHIFT, y), 1)


def test_what_is_refused():
    with pytest.raises(PartyFailed, match="low=3, high=2"):
        evaluate(lambda p, x: p.clip(x, 3, 2), integers((3,), 9))

    def empty_until_the_block_ends(session: Any) -> None:
        p = session.protocol
        x = p.share(torch.arange(3) if session.rank == 0 else None, 0, (3,))
        with p.parallel():
            positive = p.relu(x)
            with pytest.raises(ProtocolError, match="after the block"):
                _ = positive.parts

    tacit.run(empty_until_the_block_ends)


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_both_factors_of_a_product_are_settled_in_one_round(protocol):
    x, y = integers((9,), 1000, 1), integers((9,), 1000, 2)

    def program(p: Any, x: Any, y: Any) -> Any:
        return p.mul(x.scaled(16).divided(4), y.scaled(8).divided(3))

    [found], rounds = evaluate(program, x, y, protocol=protocol, limit=1000)
    close(found, x * y, 0)
    assert rounds == 2
