"""Additive shares without a dealer: conformance, costs, views, and products as matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.protocols import views
from tests.protocols.members import run_members
from tests.protocols.test_costs import Case, cases, count, windows
from tests.protocols.test_security import HIGHEST, LOWEST, difference, goodness
from tests.protocols.views import OPERATIONS, Message
from tests.tiers import FULL

import tacit
from tacit import Session, zoo
from tacit.kernels import matmul
from tacit.protocols import Conv, ConvGradInput, ConvGradWeight, Einsum
from tacit.protocols.cost import Cost
from tacit.protocols.oblivious import product_cost
from tacit.protocols.products.bilinear import MATMUL, MUL, Bilinear
from tacit.protocols.products.matrix_forms import matrix_form
from tacit.ring import RING64, OtProduct, Window
from tacit.testing import ProtocolSuite

SETTINGS = {"protocol": "additive", "dealer": "none"}
OTHERS = pytest.mark.full("two parties here, three in test_kinds_of_operations_of_three_parties")
BOTH = [(2, 64), *(pytest.param(*one, marks=OTHERS) for one in [(3, 32)])]
KINDS = ("share_and_reveal", "matmul", "truncate", "thresholds", "inject_sums", "parallel")


@pytest.mark.parametrize(("parties", "ring"), BOTH)
def test_parties_alone_conform(parties, ring):
    outcomes = ProtocolSuite(**SETTINGS, parties=parties, ring=ring).outcomes()
    assert not [error for error in outcomes.values() if error is not None]


def test_kinds_of_operations_of_three_parties():
    ProtocolSuite(**SETTINGS, parties=3, ring=32).run(*KINDS)


@pytest.mark.full("test_parties_alone_conform")
@pytest.mark.parametrize("parties", [2, 3])
def test_probabilistic_truncation(parties):
    names = "truncation_modes", "products", "sums_of_quotients", "signs_of_quotients"
    ProtocolSuite(**SETTINGS, parties=parties, truncation="probabilistic").run(*names)


@pytest.mark.full("three parties in threads, and two of trio in processes")
def test_processes_conform():
    ProtocolSuite(**SETTINGS, parties=2, transport="processes").run(*KINDS)


@pytest.mark.full("three parties; this is five")
def test_five_parties_conform():
    ProtocolSuite(**SETTINGS, parties=5).run(*KINDS)


def lenet(session: Session) -> tuple[torch.Tensor, torch.Tensor]:
    """One party has the network, the other the picture."""
    torch.manual_seed(0)
    model, x = session.share(zoo.lenet5().eval(), owner=0), torch.rand(1, 1, 28, 28)
    with torch.no_grad():
        return session.reveal(model(session.share(x, owner=1))), x


@pytest.mark.full("a network of 10^6 products; conformance has convolutions and comparisons")
def test_lenet_between_two_parties():
    found, x = tacit.run(lenet, parties=2, **SETTINGS)[0]
    torch.manual_seed(0)
    with torch.no_grad():
        torch.testing.assert_close(found, zoo.lenet5().eval()(x), atol=1e-3, rtol=0)


def test_nothing_is_recorded():
    """Replayed transfers would use numbers twice: functions run as they are, on a GPU too."""

    def main(session: Session) -> tuple[bool, list[float]]:
        twice = session.repeated(lambda x: x + x)
        made = [session.reveal(twice(session.share(torch.ones(1), owner=0))) for _ in range(4)]
        return twice._kind is None, torch.cat(made).tolist()

    assert tacit.run(main, parties=2, **SETTINGS) == [(True, [2.0] * 4)] * 2


# Costs -------------------------------------------------------------------------------------------


def set_up(p: Any) -> None:
    """The first call that needs transfers pays for the setup."""
    p.square(p.public(torch.ones(1)))


def counted(session: Session, case: Case) -> tuple[Cost, set[int]]:
    """The bits that this party sends in a call, and the rounds in which it takes part.

    A transfer in one direction takes two rounds, of which each of the two parties waits for one.
    """
    mesh, rounds = session.mesh, set()
    exchange = mesh.exchange

    def watched(*args: Any, operation: int, **kwargs: Any) -> Any:
        rounds.add(operation)
        return exchange(*args, operation=operation, **kwargs)

    mesh.exchange = watched
    try:
        return count(session, case), rounds
    finally:
        mesh.exchange = exchange


def count_all(session: Session, make: Callable[..., Iterator[Case]], n: int) -> list[Any]:
    p = session.protocol
    set_up(p)
    return [(case.name, *counted(session, case), case.declared) for case in make(p, n)]


def compare(make: Callable[..., Iterator[Case]], n: int, **settings: Any) -> None:
    by_party = run_members(count_all, make, n, fraction_bits=8, **settings, **SETTINGS)
    wrong = []
    for seen in zip(*by_party, strict=True):
        name, *_, declared = seen[0]
        rounds = len(set.union(*(one for _, _, one, _ in seen)))
        bits = {link: n for _, cost, _, _ in seen for link, n in cost.bits.items()}
        if (rounds, bits) != (declared.rounds, dict(declared.bits)):
            wrong.append(f"{name}: counted {rounds} {bits}, declared {declared}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("parties", "ring"), [(2, 64), (3, 64), (2, 32)])
def test_declared_is_counted(parties, ring):
    compare(cases, 1, parties=parties, ring=ring)
    compare(cases, 65, parties=parties, ring=ring, truncation="probabilistic")


def test_declared_is_counted_for_windows():
    compare(windows, 65, parties=2)


def first_call(session: Session) -> tuple[Cost, set[int], Cost]:
    p = session.protocol
    x = p.share(torch.arange(3), 0)
    declared = p.costs.setup().then(p.costs.bilinear(3, operands=[3]))
    return *counted(session, Case("first", lambda: p.mul(x, x), declared)), declared


def test_the_first_call_pays_for_the_setup():
    (one, rounds, declared), (other, _, _) = tacit.run(first_call, parties=2, **SETTINGS)
    assert one.bits | other.bits == declared.bits
    assert len(rounds) == declared.rounds == 5


def owned_products(session: Session) -> list[tuple[Cost, torch.Tensor | None]]:
    """Of what party 0 gave with what party 1 gave, with itself, and with what nobody knows."""
    p = session.protocol
    set_up(p)
    x, y, z = (p.share(torch.arange(65) - 9, owner) for owner in (0, 1, 1))
    z = p.add(y, x)
    pairs, found = [(x, y), (x.scaled(2), x[:1]), (z, x.flip(0)), (x, z)], []
    for a, b in pairs:
        cost = count(session, Case("owned", lambda a=a, b=b: p.mul(a, b), Cost()))
        found.append((cost, p.reveal(p.mul(a, b))))
    return found


def test_a_factor_that_its_owner_knows_takes_fewer_transfers():
    plain = torch.arange(65) - 9
    wanted = [plain**2, 2 * plain * plain[:1], 2 * plain * plain.flip(0), 2 * plain**2]
    product, opened = OtProduct(65, 1, 1, 1, 64, RING64), 64 * 130
    one, other = tacit.run(owned_products, parties=2, **SETTINGS)
    choosers = [(0, 1), None, (1, 0), (0, 1)]
    cases = zip(one, other, wanted, choosers, strict=True)
    for (cost, found), (back, _), expected, term in cases:
        assert torch.equal(found, expected)
        cross = product_cost(product, *term).bits if term else {}
        size = opened if term else 64 * 66
        bits = {link: cross.get(link, 0) + size for link in [(0, 1, False), (1, 0, False)]}
        assert {**cost.bits, **back.bits} == bits


def owners(session: Session) -> list[int | None]:
    """Of a share after each operation: only public functions of it leave it known to its owner."""
    p = session.protocol
    x, y = p.share(torch.arange(6), 1), p.share(torch.arange(6), 1)
    kept = [x.reshape(2, 3), x[1:], x.scaled(3), p.neg(x), x.promise(9), p.mul_public(x, 2)]
    lost = [p.add(x, y), p.add_public(x, 1), p.truncate(x.divided(1)), p.refresh(x), p.mul(x, y)]
    lost += [x.divided(1), p.settled(x.divided(2)), p.inject(p.sign(x), x), p.random((3,))]
    assert [share.owner for share in kept] == [1] * len(kept)
    return [share.owner for share in lost]


def test_owners_are_kept_for_what_they_know():
    for found in tacit.run(owners, parties=2, **SETTINGS):
        assert found == [None] * len(found)


def test_calls_of_a_block_set_up_once():
    def main(session: Session) -> list[list[int]]:
        p = session.protocol
        x, bit = p.share(torch.arange(4), 0), p.pack(torch.tensor([1, 0, 1, 0]))
        with p.parallel():
            made = p.square(x), p.bit_and(bit, bit), p.inject(bit, x), p.mul(x, p.neg(x))
        return [p.reveal(one).int().tolist() for one in made]

    for found in tacit.run(main, parties=3, **SETTINGS):
        assert found == [[0, 1, 4, 9], [1, 0, 1, 0], [0, 0, 2, 0], [0, -1, -4, -9]]


# Views -------------------------------------------------------------------------------------------


SEEN = ("mul", "square", "matmul", "truncate", "bit_and", "narrow sign", "is_zero", "inject")


def received(session: Session, value: int) -> dict[str, list[Message]]:
    set_up(session.protocol)
    return views.views(session, list(OPERATIONS) if FULL else SEEN, value, 0, 512)


@pytest.mark.full("messages of transfers; tests/protocols/test_oblivious.py has their kinds")
def test_messages_are_uniform_and_do_not_depend_on_the_secret():
    """Statistics, after the setup, whose points of a curve are no uniform bytes."""
    settings = {"fraction_bits": 8, **SETTINGS}
    some, others = (run_members(received, value, **settings) for value in (0, (1 << 20) - 1))
    for rank, (one, other) in enumerate(zip(some, others, strict=True)):
        for name, messages in one.items():
            if messages:
                what = f"{name} at party {rank}"
                assert LOWEST < goodness(messages) < HIGHEST, what
                assert LOWEST < difference(messages, other[name]) < HIGHEST, what


# Products as matrices ----------------------------------------------------------------------------

WIDE = Window.make(2, (2, 1), (1, 2), (1, 2), 2)
LINE = Window.make(1, 3, 1, 1, 1)
FORMS: list[tuple[Bilinear, tuple[int, ...], tuple[int, ...]]] = [
    (MUL, (3, 1, 4), (2, 1)),
    (MATMUL, (5, 3), (3, 4)),
    (MATMUL, (2, 5, 3), (3, 4)),
    (MATMUL, (2, 1, 5, 3), (4, 3, 2)),
    (MATMUL, (3,), (3,)),
    (MATMUL, (0, 3), (3, 2)),
    (Einsum("abc,cd->bda"), (2, 3, 4), (4, 5)),
    (Einsum("ab,c->ca"), (2, 3), (4,)),
    (Conv(WIDE), (2, 4, 7, 9), (6, 2, 3, 2)),
    (Conv(LINE), (2, 3, 8), (5, 3, 2)),
    (ConvGradInput(WIDE, (2, 4, 7, 9)), (6, 2, 3, 2), (2, 6, 4, 11)),
    (ConvGradWeight(WIDE, (6, 2, 3, 2)), (2, 4, 7, 9), (2, 6, 4, 11)),
    (ConvGradInput(LINE, (2, 3, 8)), (5, 3, 2), (2, 5, 3)),
    (ConvGradWeight(LINE, (5, 3, 2)), (2, 3, 8), (2, 5, 3)),
]


@pytest.mark.parametrize(("op", "a", "b"), FORMS)
def test_every_product_is_one_of_matrices(op, a, b):
    torch.manual_seed(len(a))
    x, y = (torch.randint(-(2**62), 2**62, shape) for shape in (a, b))
    left, right, finish = matrix_form(op, x, y)
    expected = op(x, y)
    assert op.shape(a, b) == expected.shape
    assert torch.equal(finish(matmul(left.contiguous(), right.contiguous())), expected)
