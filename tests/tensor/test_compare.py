"""Comparisons, logic, choices and bounds, against torch."""

import pytest
import torch
from tests.tensor.comparison import check, on_secrets, tensor

from tacit.errors import PartyFailed

BOTH = pytest.mark.parametrize(
    "settings", [{}, {"protocol": "trio", "parties": 3}], ids=["cleartext", "trio"]
)
HALVES = torch.tensor([[-1.5, 0.0, 0.5, 2.0], [1.0, -1.0, 0.5, -2.0]])
OTHERS = torch.tensor([[-1.5, 0.5, 0.5, -2.0], [1.0, 1.0, 0.0, -2.0]])


@BOTH
def test_comparisons(settings):
    def program(x, y):
        return (
            [x < y, x <= y, x > y, x >= y, x == y, x != y, x < 0.5, x >= 0.5, x == 0.5],
            [x < OTHERS, x >= OTHERS, x != OTHERS, x.long() > 0, x.long() == 1.0, x.long() < 0.5],
            [x < float("inf"), x > float("-inf"), x == float("inf"), x < 1e20, x.isclose(y)],
            [x < y[0], (x > 0) == (y > 0), (x > 0) < (y > 0), (x > 0) != OTHERS.bool()],
        )

    check(program, HALVES, OTHERS, **settings)


@BOTH
def test_logic(settings):
    def program(x, y):
        a, b, p = x > 0, y > 0, OTHERS > 0
        return (
            [a & b, a | b, a ^ b, ~a, a & p, p | b, a ^ True, a.logical_and(y), x.logical_or(b)],
            [x.logical_xor(y), x.logical_not(), a * b, a + b, a * 2.5, a * x, a.sum() + 1, x * p],
        )

    check(program, HALVES, OTHERS, **settings)


@BOTH
def test_choices(settings):
    def program(x, y):
        mask, public = x > y, OTHERS > 0
        return (
            [torch.where(mask, x, y), torch.where(mask, 1.0, x), torch.where(public, x, y)],
            [
                torch.where(mask, 2.0, 3.0),
                torch.where(mask, mask, y > 0),
                torch.where(public, x, 0),
            ],
            [x.masked_fill(mask, -7), x.masked_fill(public, 2.5), torch.where(mask, x * y, y)],
            [
                torch.where(mask[:1], x, y),
                torch.where(mask, x.long(), 5),
                x.masked_fill(mask, y[0, 0]),
            ],
        )

    check(program, HALVES, OTHERS, **settings)


@BOTH
def test_bounds(settings):
    def program(x, y):
        return (
            [x.clamp(-1, 1), x.clamp(min=0.25), x.clamp(max=-0.5), x.clamp(y, y + 1), x.clip(0)],
            [
                torch.maximum(x, y),
                torch.minimum(x, OTHERS),
                torch.fmax(x, y),
                torch.fmin(OTHERS, y),
            ],
            [x.clamp(1, -1), x.clamp(-float("inf"), 0.5), x.long().clamp(0, 1), x.clamp(max=y)],
            [torch.maximum(x.long(), y.long()), torch.maximum(x > 0, y > 0), x.long().clamp(0.5)],
        )

    check(program, HALVES, OTHERS, **settings)


def test_gradients():
    def program(x, y):
        loss = torch.where(x > y, x * x, y).sum() + x.clamp(-1, 1).sum() * 2
        loss = loss + torch.maximum(x, y).sum() * 3 + x.masked_fill(y > 0, 0).sum()
        (loss + torch.minimum(x, y + 0.1).sum()).backward()
        return x.grad, y.grad

    check(program, tensor(3, 4).requires_grad_(), tensor(3, 4, seed=1).requires_grad_())


def test_bits_of_integers_are_refused():
    with pytest.raises(PartyFailed, match="bitwise_and of secret integers"):
        on_secrets(lambda x: x & 3, torch.arange(4))
