"""Pieces of products add up to the product, and none adds up more terms than it may."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.enclave.products import CASES, cases
from tests.enclave.workers import OUTSOURCED, changing, outsourcer
from tests.kernels.draws import ring_tensor
from tests.tiers import draws

from tacit.enclave.pieces import Piece, pieces
from tacit.enclave.trusted import quantise
from tacit.errors import CheatingDetected, ConfigError, RangeError
from tacit.protocols.products.bilinear import Conv, ConvGradInput, ConvGradWeight, MatMul
from tacit.ring import RING64

SMALL = {"swalp": quantise.Precision(8, torch.int8, quantise.RING32, True, 1 << 18)}  # 15 terms


@draws(200)
@given(cases(), st.integers(1, 40))
def test_pieces_add_up(case, most):
    op, *shapes = case
    a, b = (ring_tensor(RING64, shape, i) for i, shape in enumerate(shapes))
    try:
        parts = pieces(op, *shapes, most)
    except RangeError:
        assert op.terms(*shapes) > most
        assert not isinstance(op, MatMul)
        return
    assert torch.equal(sum(part(a, b) for part in parts), op(a, b))
    doubled = sum(part.sum([(a, b), (a, b)]) for part in parts)
    assert torch.equal(doubled, 2 * op(a, b))
    assert all(part.terms(*shapes) <= most for part in parts)
    assert all(part.shape(*shapes) == op.shape(*shapes) for part in parts)
    assert sum(part.terms(*shapes) for part in parts) == op.terms(*shapes)


@pytest.mark.parametrize("mode", OUTSOURCED)
@pytest.mark.parametrize("liar", [None, 0])
def test_every_mode_computes_pieces(mode, liar, monkeypatch):
    monkeypatch.setattr(quantise, "PRECISIONS", SMALL)
    a, b = (torch.randint(-127, 128, (40, 40)).double() for _ in range(2))
    a[0, 0] = b[0, 0] = 127
    serve = {} if liar is None else {liar: changing(lambda answer: answer + 1)}
    with outsourcer(mode, serve=serve) as enclave:
        if liar is None:
            assert torch.equal(enclave.product(MatMul(), a, b), a @ b)
            return
        with pytest.raises(CheatingDetected) as caught:
            enclave.product(MatMul(), a, b)
    assert caught.value.subject == "worker 0"


def test_other_operations_have_no_pieces():
    for name, (op, *_) in CASES.items():
        if isinstance(op, Conv | ConvGradInput):
            with pytest.raises(ConfigError):
                Piece(op, 0, 1)
        else:
            assert isinstance(op, MatMul | ConvGradWeight), name
