"""Largest elements, sorting and their gradients, against torch."""

import pytest
import torch
from tests.tensor.comparison import check, tensor

BOTH = pytest.mark.parametrize(
    "settings", [{}, {"protocol": "trio", "parties": 3}], ids=["cleartext", "trio"]
)


@BOTH
def test_largest_and_smallest(settings):
    def program(x):
        return (
            [x.amax(), x.amin(1), x.amax((0, 2), keepdim=True), x.max(), x.min()],
            [*x.max(1), *x.min(2, keepdim=True), x.argmax(), x.argmin(0), x.argmax(-1, True)],
            x.aminmax(dim=1),
        )

    check(program, tensor(2, 3, 5), **settings)


@BOTH
def test_sorting(settings):
    def program(x):
        return (
            [*x.sort(), *x.sort(0, descending=True), x.argsort(), x.msort()],
            [*x.topk(2), *x.topk(3, dim=0, largest=False), *x.kthvalue(2), x.median()],
            [*x.median(0), *x.kthvalue(1, 0, keepdim=True)],
        )

    check(program, tensor(4, 5), **settings)


def test_equals_keep_their_order():
    def program(x):
        return [*x.sort(stable=True), *x.sort(dim=0, stable=True, descending=True), *x.max(1)]

    check(program, torch.tensor([[1.0, 0, 1, 0, 1], [2, 2, 1, 1, 0]]))
    check(program, torch.tensor([[3, 1, 1, 0, 3], [0, 0, 0, 5, 5]]))


@BOTH
def test_integers_and_bits(settings):
    def program(x):
        bits = x > 0
        return (
            [*x.sort(1), *x.topk(2), x.max(), *x.min(0), x.median()],
            [bits.amax(1), bits.amin(), bits.sort()[0], bits.any(0), bits.all(1)],
        )

    check(program, torch.tensor([[5, -3, 9], [-100, 2, 40]]), **settings)


def test_edges():
    def program(x, one):
        return [
            *one.sort(),
            one.max(),
            *one.max(0),
            *x[:, :1].sort(),
            *x[:, :1].topk(1),
            x.amax(()),
        ]

    check(program, tensor(3, 2), torch.tensor(1.5))


def test_gradients():
    def program(x):
        loss = x.max(1)[0].sum() + x.sort()[0][:, 1].sum() * 2 + x.topk(2)[0].sum() * 3
        loss = loss + x.median(0)[0].sum() + x.kthvalue(2)[0].sum()
        loss.backward()
        return x.grad

    check(program, tensor(3, 4).requires_grad_())


def test_gradients_of_what_is_largest_of_all():
    def program(x):
        (x.amax(1).sum() + x.max() * 2 + x.amin((0, 1)) * 3).backward()
        return x.grad

    check(program, tensor(3, 4).requires_grad_())
