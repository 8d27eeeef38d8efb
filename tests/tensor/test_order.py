"""Largest elements, sorting and their gradients, against torch."""

import pytest
import torch
from tests.tensor.comparison import check, on_secrets, tensor

import tacit
from tacit.tensor.ops.reductions.sort_by import SORT_BY

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


def test_equal_edges_of_buckets_stay_equal():
    """No number lies between two equal ones, wherever the divisions of products round."""
    edges, x = torch.tensor([-0.5, 0.5, 0.5, 0.5, 0.75]), torch.linspace(-1, 1, 100_001)

    def main(session):
        half = session.share(torch.tensor(0.5003), owner=1)
        near = session.share(x, owner=0) * half
        secret = session.share(edges, owner=0) * half
        places = torch.cat([torch.searchsorted(secret, near), torch.bucketize(near, edges / 2)])
        return session.reveal(places)

    places = tacit.run(main, protocol="trio", parties=3)[0]
    assert places.bincount(minlength=6)[[2, 3]].tolist() == [0, 0]


@BOTH
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_by_another_tensor(settings, dim, descending):
    """As one operation: reals, integers and bits move with their keys, equal ones in any order."""
    key, x = tensor(5, 4), torch.arange(20).view(5, 4)

    def program(key, x):
        keys, moved = SORT_BY(key, x, dim, descending)
        return [keys, moved, *SORT_BY(x, key, dim), SORT_BY(key, x > 7, dim, descending)[1]]

    check(program, key, x, **settings)
    check(lambda x: SORT_BY(key, x, dim, descending), x, **settings)  # a public key
    check(lambda key: SORT_BY(key, x, dim, descending), key, **settings)


def test_rows_of_equal_keys_stay_whole():
    def program(key, x):
        keys, moved = SORT_BY(key, x)
        return keys, SORT_BY(moved, keys)

    check(program, torch.tensor([2.0, 1.0, 2.0, 1.0]), torch.tensor([1, 2, 3, 4]))


def test_a_sort_that_is_replayed():
    batches = [(tensor(5, seed=seed), torch.arange(5) * seed) for seed in range(4)]

    def main(session):
        sort_by = session.repeated(SORT_BY)
        pairs = [[session.share(x, owner=0) for x in batch] for batch in batches]
        return [session.reveal(sort_by(*pair)) for pair in pairs], sort_by.summary()

    found, summary = tacit.run(main)[1]
    for (keys, moved), (key, x) in zip(found, batches, strict=True):
        torch.testing.assert_close(keys, key.sort()[0], atol=2**-16, rtol=0)
        assert torch.equal(moved, x[key.argsort()])
    assert "replayed" in summary


def test_a_debugged_sort_takes_equal_keys_in_any_order():
    key, x = torch.tensor([1.0, 1.0 + 2**-20, 0.0, 1.0]), torch.tensor([4.0, 3.0, 2.0, 1.0])

    def program(key, x):
        return SORT_BY(key, x)[0]

    assert on_secrets(program, key, x, debug=True).tolist() == [0, 1, 1, 1]


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
