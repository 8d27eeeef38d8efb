"""Elements at public and at secret places, against torch."""

import pytest
import torch
import torch.nn.functional as F
from tests.tensor.comparison import check, on_secrets, tensor

import tacit
from tacit.errors import PartyFailed
from tacit.fixedpoint.lookup import grid_columns

BOTH = pytest.mark.parametrize(
    "settings", [{}, {"protocol": "trio", "parties": 3}], ids=["cleartext", "trio"]
)
PLACES = torch.tensor([2, 0, 2, 1])
GRID = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 0]])


def test_public_places():
    def program(x, y):
        columns = torch.tensor([0, 3])
        return (
            [x[PLACES], x[:, columns], x[PLACES, PLACES]],
            [
                x.index_select(1, columns),
                x.gather(0, GRID),
                x.take(GRID),
                x[torch.tensor([1, 0, 1]) > 0],
            ],
            [x.scatter(0, GRID, y), x.scatter(0, GRID, 7.0), x.scatter_add(0, GRID, y)],
            [x.index_add(0, PLACES, y[:1].expand(4, 4), alpha=2), x.index_fill(1, columns, 3)],
            [x.index_copy(1, columns, y[:, :2]), torch.take_along_dim(x, GRID, 0)],
            [x.index_put((PLACES,), y[0], accumulate=True), x.put(PLACES, y[0, :4])],
        )

    check(program, tensor(3, 4), tensor(3, 4, seed=1))


@BOTH
@pytest.mark.parametrize("count", [50, 100_000])  # many: torch writes with several threads
def test_of_several_elements_for_one_place_the_last_counts(settings, count):
    places = torch.randint(0, 40, (count,), generator=torch.Generator().manual_seed(3))
    last = torch.full((40,), -1).scatter_reduce(0, places, torch.arange(count), "amax")
    x, y = torch.arange(40.0), torch.linspace(-3, 3, count)

    def main(session):
        a, b = session.share(x, owner=0), session.share(y, owner=0)
        made = [a.scatter(0, places, b), a.put(places, b), a.index_put((places,), b)]
        made += [a.index_copy(0, places, b), (a > 3).index_put((places,), b > 0)]
        return [session.reveal(one) for one in made]

    *found, bits = tacit.run(main, **settings)[0]
    wanted = torch.where(last >= 0, y[last.clamp_min(0)], x)
    for one in found:
        torch.testing.assert_close(one, wanted, atol=2**-14, rtol=0)
    assert bits.equal(torch.where(last >= 0, wanted > 0, x > 3))


FITTING = {
    "scatter at a place without dimensions": lambda x, y: x[0].scatter(0, torch.tensor(1), y[0]),
    "scatter of a number": lambda x, y: x[0].scatter(0, torch.tensor([1]), y[0, 0]),
    "scatter of a corner": lambda x, y: x.scatter(1, torch.tensor([[1, 0], [2, 3]]), y),
    "index_copy to a number": lambda x, y: x[0, 0].index_copy(0, torch.tensor([0]), y[0, :1]),
    "index_put of a row for all": lambda x, y: x.index_put((PLACES[:2],), y[:1]),
    "index_put by a mask": lambda x, y: x.index_put((torch.tensor([True, False, True]),), y[:2]),
    "index_put of pairs": lambda x, y: x.index_put((PLACES, PLACES.flip(0)), y[0]),
    "negative places": lambda x, y: x.index_put((torch.tensor([-1, 0]),), y[:2]),
    "no place": lambda x, y: x.index_put((torch.tensor([], dtype=torch.int64),), y[:0]),
    "put of a matrix": lambda x, y: x.put(torch.tensor([[5, 1], [-1, 2]]), y[:2, :2]),
}


@pytest.mark.parametrize("name", FITTING)
@BOTH
def test_what_fits_is_written(settings, name):
    check(FITTING[name], tensor(3, 4), tensor(3, 4, seed=1), **settings)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda x: x.index_copy(0, torch.tensor([0, 2]), x[:1]),
        lambda x: x.index_copy(0, torch.tensor([0, 2]), x[:2, :1]),
        lambda x: x.index_copy(0, torch.tensor([0, 2]), x[0]),
        lambda x: x.scatter(0, torch.tensor([[0, 1], [1, 2]]), x[:1]),
        lambda x: x.index_put((torch.tensor([0, 2]),), x[:, :3]),
        lambda x: x.put(torch.tensor([0, 2]), x[0]),
    ],
)
def test_what_does_not_fit_is_refused(attempt):
    x = tensor(3, 4)
    with pytest.raises((RuntimeError, IndexError)):
        attempt(x)
    with pytest.raises(PartyFailed, match=r"failed: (RuntimeError|IndexError)"):
        on_secrets(attempt, x)


def test_writes_to_public_places():
    def program(x, y):
        x[PLACES[:2]] = y[:2]
        x[:, torch.tensor([1, 2])] += 1
        x[torch.tensor([True, False, True])] = 0.5
        plain = torch.zeros(3, 4)
        return x, torch.where(plain == 0, x, plain)

    check(program, tensor(3, 4), tensor(3, 4, seed=1))


@BOTH
def test_secret_places(settings):
    def program(x, y, places, grid):
        return (
            [x[places], x[:, places], x[places - 3], x.index_select(1, places)],
            [x.gather(0, grid), x.gather(1, grid), x.take(grid), torch.take_along_dim(x, grid, 0)],
            [x.scatter_add(0, grid, y), x.scatter_add(1, grid, y), x.scatter(1, grid[:, :1], y)],
            [x.scatter(0, grid, y), x.scatter(1, grid, y), x.scatter(1, grid, 7.0)],
            [x.index_add(1, places, y), x.index_put((places,), y[0], accumulate=True)],
            [torch.arange(12.0).view(3, 4)[places], F.one_hot(grid, 4)],
        )

    check(program, tensor(3, 4), tensor(3, 4, seed=1), PLACES, GRID, **settings)


def test_secret_masks():
    def program(x):
        mask = x > 0
        x[mask] = 0.25
        x[x[:, 0] < 0.5] = 2
        return x, x.masked_fill(mask, -1), x * mask

    check(program, tensor(3, 4))


@BOTH
def test_embeddings(settings):
    def program(table, places, weight):
        weight = weight.requires_grad_()
        found = [F.embedding(PLACES, table), F.embedding(places, table)]
        found += [F.embedding(places, weight, padding_idx=0), F.embedding(PLACES, weight)]
        total = sum((one * one).sum() for one in found[2:])
        total.backward()
        return found, weight.grad

    check(program, tensor(5, 3), PLACES, tensor(5, 3, seed=2), **settings)


TABLE = tensor(450, 2, seed=4)
ROWS = torch.tensor([[0, 449, 31], [32, 448, 7]])


def looked_up(session, table, rows):
    """Rows of a secret and of a public table; the numbers of the secret one; bytes sent."""
    secret, places = session.share(table, owner=0), session.share(rows, owner=1)
    with session.stats.scope("lookup") as cost:
        found = F.embedding(places, secret)
        session.numbers.settled(found.value)
    made = [found, F.embedding(places, table), secret[places - len(table)], secret]
    return [session.reveal(one) for one in made], cost.bytes_sent


@pytest.mark.parametrize("protocol", ["trio", "replicated", "additive", "beaver", "quad"])
def test_lookups_in_a_long_table_are_exact(protocol):
    assert grid_columns(*TABLE.shape) > 1
    parties = {"additive": 2, "beaver": 2, "quad": 4}.get(protocol, 3)
    (found, by_public, from_the_end, numbers), _ = tacit.run(
        looked_up, TABLE, ROWS, protocol=protocol, parties=parties
    )[0]
    assert found.equal(numbers[ROWS])
    assert from_the_end.equal(numbers[ROWS])
    torch.testing.assert_close(by_public, TABLE[ROWS], atol=2**-15, rtol=0)


def test_lookups_in_a_long_table_cost_its_root():
    def sent(count):
        table, rows = torch.zeros(count, 2), torch.zeros(8, dtype=torch.int64)
        return sum(bytes_sent for _, bytes_sent in tacit.run(looked_up, table, rows))

    assert sent(16 * 1024) < 5 * sent(1024)  # sixteen times the rows


def test_no_row_of_a_long_table_reads_zero():
    outside = torch.tensor([-1, -450, 450, 479, 480, 899])

    def main(session):
        table, places = session.share(TABLE, owner=0), session.share(outside, owner=1)
        return session.reveal(F.embedding(places, table))

    assert not tacit.run(main, protocol="trio")[0].any()


@BOTH
def test_gradients_of_a_long_table(settings):
    def program(table, places):
        table = table.requires_grad_()
        (F.embedding(places, table) ** 2).sum().backward()
        return table.grad

    check(program, TABLE, torch.cat([ROWS, ROWS[:1]]), **settings)


def test_gradients():
    def program(x, places, grid):
        a = x[places].sum(0) * x[0] + x.gather(0, grid).sum(0)
        b = x[PLACES].prod(0) + x.index_select(0, PLACES[:2]).sum(0)
        c = x.scatter(1, GRID[:, :2], x[:2, 1:3]).sum(0)
        (a * b * c).sum().backward()
        return x.grad

    check(program, tensor(3, 4).requires_grad_(), PLACES, GRID)


@pytest.mark.parametrize(
    ("attempt", "hint"),
    [
        (lambda x: x[x > 0], r"torch.where\(mask, x, 0\)"),
        (lambda x: x.masked_select(x > 0), r"torch.where\(mask, x, 0\)"),
        (lambda x: x.nonzero(), "keep the shape"),
        (lambda x: x.unique(), "would reveal"),
        (lambda x: torch.equal(x, x), "session.reveal"),
        (lambda x: x[0, 0].item(), "session.reveal"),
        (lambda x: torch.allclose(x, x), "session.reveal"),
        (lambda x: torch.zeros(3, 4).add_(x), "write secrets into a public tensor"),
    ],
)
def test_what_would_reveal_is_refused(attempt, hint):
    with pytest.raises(PartyFailed, match=hint):
        on_secrets(attempt, tensor(3, 4))
