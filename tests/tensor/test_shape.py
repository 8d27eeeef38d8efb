"""Changes of shape, borders, windows, copies and creations, against torch."""

import pytest
import torch
import torch.nn.functional as F
from tests.tensor.comparison import check, tensor

import tacit

BOTH = pytest.mark.parametrize(
    "settings", [{}, {"protocol": "trio", "parties": 3}], ids=["cleartext", "trio"]
)


def views(x):
    return (
        [x.view(4, 6), x.reshape(-1), x.permute(2, 0, 1), x.transpose(0, 2), x.movedim(0, 1)],
        [x[1], x[:, 1:], x[..., ::2], x.narrow(1, 1, 2), x[None], x.unsqueeze(1), x.flatten(1)],
        [x.expand(3, 2, 3, 4), *x.split(2, 2), *x.split([1, 2], 1), *x.chunk(2, 2), *x.unbind(0)],
        [x.unfold(2, 2, 1), x.diagonal(0, 1, 2), x.squeeze(), x[:1].squeeze(0), x.swapaxes(0, 1)],
    )


def moves(x):
    return (
        [x.flip(0, 2), x.roll(1, 1), x.roll((1, 2), (0, 2)), x.rot90(1, (1, 2)), x.repeat(2, 1, 1)],
        [x.tile(2), x.tril(), x.triu(1), torch.diag_embed(x[0]), x.repeat_interleave(2, 1)],
        [torch.cat([x, x * 2], 1), torch.stack([x, x + 1], 3), torch.block_diag(x[0], x[1])],
        [torch.hstack([x, x]), torch.atleast_3d(x[0, 0]), torch.diag(x[0, 0]), x[0].trace()],
        [torch.select_scatter(x, x[0], 0, 1), torch.slice_scatter(x, x[:, :1], 1, 1, 2)],
    )


@BOTH
def test_views_and_moves(settings):
    def program(x):
        return views(x), moves(x)

    check(program, tensor(2, 3, 4), **settings)


def test_bits_and_integers_move_alike():
    def program(x):
        bits, whole = x > 0, (x * 8).long()
        return views(bits), views(whole), bits.flip(0), bits.roll(1, 2), whole.cumsum(1)

    check(program, tensor(2, 3, 4))


def test_borders_and_windows():
    def program(x):
        found = [F.pad(x, (1, 2, 0, 1)), F.pad(x, (1, 2), value=3.5), F.pad(x, (-1, 1))]
        modes = ("reflect", "replicate", "circular")
        found += [F.pad(x, (1, 2, 1, 0), mode=mode) for mode in modes]
        columns = F.unfold(x, (2, 2), padding=1, stride=2)
        found += [columns, F.fold(columns, (4, 5), (2, 2), padding=1, stride=2)]
        found += [
            F.pixel_unshuffle(x[..., :4], 2),
            F.pixel_shuffle(F.pad(x, (0, 0) * 2 + (0, 2)), 2),
        ]
        loss = sum((one * one).sum() for one in found)
        loss.backward()
        return found, x.grad

    check(program, tensor(2, 2, 4, 5).requires_grad_(), absolute=2**-8)


def test_gradients_of_moves():
    def program(x):
        parts = [
            x[0, 1:],
            x.diagonal(0, 1, 2),
            x.unfold(2, 2, 1),
            x.flip(1),
            x.tril(),
            x.repeat(1, 2, 1),
        ]
        parts += [
            *x.split(2, 2),
            x.roll(1, 0),
            torch.cat([x, x * x], 1),
            x.t() if x.dim() == 2 else x,
        ]
        sum((one * one).sum() for one in parts).backward()
        return x.grad

    check(program, tensor(2, 3, 4).requires_grad_())


def test_conversions():
    def program(x, whole):
        return (
            [x.double(), x.long(), x.bool(), x.to(torch.int32), (x > 0).float(), (x > 0).long()],
            [whole.float(), whole.bool(), whole.double() / 4, x.type_as(whole), whole * 1.5],
        )

    x = torch.tensor([-2.75, -1.0, -0.25, 0.0, 0.5, 1.0, 3.999])
    check(program, x, torch.tensor([-3, 0, 7]))
    check(program, x, torch.tensor([-3, 0, 7]), protocol="trio", parties=3)


def test_creations():
    def program(x):
        made = [torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64), x.new_full((2,), 2.5)]
        made += [torch.full_like(x, -1), x.new_zeros(3), x.new_ones((1, 2))]
        made[0].add_(x)
        return (
            made,
            x * made[2][0] + made[1],
            torch.empty_like(x).copy_(x),
            torch.empty_like(x).fill_(2),
        )

    check(program, tensor(2, 3))


def test_random_numbers_are_the_same_at_all_parties():
    def main(session):
        x = session.share(torch.zeros(400), owner=0)
        made = [
            torch.rand_like(x),
            torch.randn_like(x),
            torch.bernoulli(x + 0.25),
            x.clone().uniform_(2, 3),
        ]
        made += [x.clone().bernoulli_(0.75), torch.randint_like(x, 5), F.dropout(x + 1, 0.5)]
        made += [x.to(kind).bernoulli_(0.75) for kind in (torch.int64, torch.bool)]
        return [session.reveal(one) for one in made]

    results = tacit.run(main)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
    uniform, normal, quarter, shifted, most, whole, dropped, integers, truths = results[0]
    assert (integers.dtype, truths.dtype) == (torch.int64, torch.bool)
    assert set(integers.tolist()) == {0, 1} == set(truths.int().tolist())
    # Of 400 elements; each bound is at least 5.6 standard deviations away.
    assert 0.4 < uniform.mean() < 0.6
    assert abs(float(normal.mean())) < 0.3
    assert 0.8 < float(normal.std()) < 1.2
    assert set(quarter.tolist()) == {0, 1}
    assert 0.1 < quarter.mean() < 0.4
    assert shifted.min() >= 2
    assert shifted.max() <= 3
    assert 0.6 < most.mean() < 0.9
    assert set(whole.tolist()) == {0, 1, 2, 3, 4}
    assert set(dropped.tolist()) == {0, 2}


def test_what_is_public_at_first_costs_no_product():
    def main(session):
        x = session.share(torch.ones(100), owner=0)
        before = session.stats.rounds
        y = F.dropout(x, 0.5) * torch.ones_like(x) + torch.zeros_like(x)
        return session.stats.rounds - before, session.reveal(y)

    rounds, y = tacit.run(main)[0]
    assert rounds == 0
    assert set(y.tolist()) == {0, 2}
