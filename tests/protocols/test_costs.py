"""The declared cost of an operation is what the transport counts, for each link.

Declarations and the golden figures here follow the protocols' definitions. The optimum of the carry
plans is searched again by brute force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, combinations, product
from typing import Any, NamedTuple

import pytest
import torch
from tests.protocols.halved import short_halves
from tests.protocols.members import run_members
from tests.tiers import spread

import tacit
from tacit import Session
from tacit.protocols import BitSum
from tacit.protocols.beaver.protocol import Beaver
from tacit.protocols.cost import Cost
from tacit.protocols.masked.carry_plan import carry_plan
from tacit.protocols.masked.costs import MaskedCosts
from tacit.protocols.masked.deal import HALVED_BITS
from tacit.protocols.share import stack_planes
from tacit.protocols.trio import trio_roles
from tacit.registry import PROTOCOLS

__all__ = ["short_halves"]

SIZES = (1, 64, 65, 1000)
SHIFT = 7
TRIO = MaskedCosts(64, trio_roles(0, 1, 2))


class Case(NamedTuple):
    """A call, and what it is declared to cost."""

    name: str
    call: Callable[[], object]
    declared: Cost


# Declared against counted -----------------------------------------------------------------------


def cases(p: Any, n: int) -> Iterator[Case]:
    """Yields every operation of the protocol on n elements; operands are shared before."""
    costs, exact, ring = p.costs, p.exact, p.ring
    zeros, words = torch.zeros(n, dtype=ring.dtype), -(-n // 64)
    given = [p.share(zeros, owner, limit=1 << 9) for owner in (0, 1)]
    x, y = (p.add_public(one, 0) for one in given)  # what nobody gave costs most
    wide = p.share(zeros, 1)
    bits = [p.share_bits(torch.zeros(3, words).long(), 0, (n,), 3) for _ in range(9)]
    flags = [bit.planes(0, 1) for bit in bits]
    for owner in range(p.parties):
        yield Case(f"share {owner}", lambda o=owner: p.share(zeros, o), costs.share(n, owner))
    for to in (None, *range(p.parties)):
        yield Case(f"reveal {to}", lambda to=to: p.reveal(x, to), costs.reveal(n, to))
    yield Case("mul", lambda: p.mul(x, y), costs.bilinear(n))
    yield Case("square", lambda: p.square(x), costs.bilinear(n, **operands(costs, n)))
    outer, sizes = p.outer(x[:1], y), operands(costs, 1, n)
    yield Case("outer", lambda: p.outer(x[:1], y), costs.bilinear(outer.numel, **sizes))
    yield Case("mul, divided", lambda: p.mul(x, y, shift=SHIFT), costs.bilinear(n, SHIFT, exact))
    for mode in (True, False):
        cost = costs.truncate(n, SHIFT, mode)
        yield Case("truncate", lambda m=mode: p.truncate(x.divided(SHIFT), exact=m), cost)
    for fan_in in range(2, 10):
        cost = costs.bit_and(n, 3, fan_in)
        yield Case(f"and {fan_in}", lambda f=fan_in: p.bit_and(*bits[:f]), cost)
    yield Case("sign", lambda: p.sign(x), costs.signs(n, 11))
    yield Case("wide sign", lambda: p.sign(wide), costs.signs(n, ring.bits))
    pending = wide.promise((1 << 20) - 1).divided(SHIFT)
    cost = costs.signs(n, 15 + costs.guard_bits)
    yield Case("pending sign", lambda: p.sign(pending), cost)
    thresholds = [0, 5, -(1 << 10)]
    yield Case("signs", lambda: p.signs(x, thresholds), costs.signs(n, 12, 3))
    yield Case("is_zero", lambda: p.is_zero(wide), costs.is_zero(n, ring.bits))
    yield Case("narrow is_zero", lambda: p.is_zero(x), costs.is_zero(n, 11))
    yield Case("inject", lambda: p.inject(flags[0], x), costs.inject(n))
    if exact:
        divided = p.mul(x, y, shift=SHIFT)
        cost = costs.inject(n, SHIFT)
        yield Case("pending inject", lambda: p.inject(flags[0], divided), cost)
    cost = costs.signs(n, 11).then(costs.inject(n))
    yield Case("relu", lambda: p.relu_with_bit(x), cost)
    if exact:
        quotient = p.mul(x, y, shift=SHIFT)
        cost = costs.signs(n, 13 + costs.guard_bits).then(costs.inject(n, SHIFT))
        yield Case("pending relu", lambda: p.relu_with_bit(quotient), cost)
    with_x = [BitSum((1, 2, 3), (0, 1, 2)), BitSum((4, 0, 1), (0, 0, 0))]
    without = [BitSum((0, 0, 0), (1, 2, 3))]
    cost = costs.inject_sums(n, 3, True, 2)
    yield Case("inject_sums", lambda: p.inject_sums(flags[:3], x, with_x), cost)
    cost = costs.inject_sums(n, 3, False, 1)
    yield Case("inject_sums of bits", lambda: p.inject_sums(flags[:3], None, without), cost)
    yield Case("random", lambda: p.random((n,)), Cost())


def operands(costs: Any, *sizes: int) -> dict[str, tuple[int, ...]]:
    """The sizes of a product's operands, where they count."""
    return {"operands": sizes} if costs.counts_operands else {}


def plane_cases(p: Any, n: int) -> Iterator[Case]:
    """Input and output of several bits an element."""
    planes, bits = torch.zeros(5, -(-n // 64)).long(), p.random_bits((n,), 5)
    for owner in range(p.parties):
        cost = p.costs.share_bits(n, owner, 5)
        yield Case("share_bits", lambda o=owner: p.share_bits(planes, o, (n,), 5), cost)
    for to in (None, *range(p.parties)):
        yield Case("reveal bits", lambda to=to: p.reveal(bits, to), p.costs.reveal_bits(n, 5, to))


def lookups(p: Any, n: int) -> Iterator[Case]:
    """Rows of two numbers that each party takes, in the protocols that can hide rows."""
    table = p.share(torch.zeros(n, 2, dtype=p.ring.dtype), 0)
    taken = torch.arange(0, n, 3)
    count = len(taken)
    for owner in filter(p.can_hide_rows, range(p.parties)):
        rows = taken if p.rank == owner else None
        cost = p.costs.hide_rows(2 * n, owner)
        yield Case(f"hide rows {owner}", lambda o=owner: p.hide_rows(table, o), cost)
        hidden, cost = p.hide_rows(table, owner), p.costs.take_hidden(count, 2 * count, owner)
        yield Case(f"take {owner}", lambda h=hidden, r=rows: p.take_hidden(h, r, count), cost)


def windows(p: Any, n: int) -> Iterator[Case]:
    """Comparisons of every width; of some in the quick tier."""
    x = p.share(torch.zeros(n, dtype=p.ring.dtype), 1)
    for width in spread(range(2, p.ring.bits + 1), 16):
        narrow = x.promise((1 << (width - 1)) - 1)
        yield Case(f"sign {width}", lambda x=narrow: p.sign(x), p.costs.signs(n, width))
        yield Case(f"zero {width}", lambda x=narrow: p.is_zero(x), p.costs.is_zero(n, width))


def count(session: Session, case: Case) -> Cost:
    """Returns the bits that this party sends in a call, and the rounds that it waits for.

    What came before a reveal is verified first: a reveal is declared without it.
    """
    if case.name.startswith("reveal"):
        session.verify()
    with session.stats.scope("case") as spent:
        case.call()
    bits = {}
    for peer, cost in spent.peers.items():
        bits[session.rank, peer, True] = 8 * cost.bytes_sent_ahead
        bits[session.rank, peer, False] = 8 * (cost.bytes_sent - cost.bytes_sent_ahead)
    return Cost(spent.rounds, {link: n for link, n in bits.items() if n})


def count_all(session: Session, make: Callable[..., Iterator[Case]], sizes: tuple[int, ...]):
    """Name, counted and declared cost of every case, in every rotation of the roles."""
    protocol: Any = session.protocol
    turns = [protocol]
    if hasattr(protocol, "rotated"):
        turns = [protocol.rotated(by) for by in range(3)]
    return [
        (f"{case.name}, {n} elements, turn {turn}", count(session, case), case.declared)
        for turn, p in enumerate(turns)
        for n in sizes
        for case in make(p, n)
    ]


def compare(make: Callable[..., Iterator[Case]], sizes: tuple[int, ...], **settings: Any) -> None:
    check_counts(run_members(count_all, make, sizes, fraction_bits=8, **settings))


def check_counts(by_party: list[list[tuple[str, Cost, Cost]]]) -> None:
    wrong = []
    for views in zip(*by_party, strict=True):
        name, _, declared = views[0]
        rounds = max(counted.rounds for _, counted, _ in views)
        bits = {link: n for _, counted, _ in views for link, n in counted.bits.items()}
        if Cost(rounds, bits) != Cost(declared.rounds, dict(declared.bits)):
            wrong.append(f"{name}: counted {rounds} {bits}, declared {declared}")
    assert not wrong, "\n".join(wrong)


LOADED = {name: info.load() for name, info in PROTOCOLS.items()}
DECLARING = [name for name, kind in LOADED.items() if kind and kind.declared_costs(64)]


@pytest.mark.parametrize("truncation", ["exact", "probabilistic"])
@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize("protocol", DECLARING)
def test_declared_is_counted(protocol, ring, truncation):
    compare(cases, SIZES, protocol=protocol, ring=ring, truncation=truncation)


@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize("protocol", ["trio", "replicated", "additive", "beaver"])
def test_declared_is_counted_for_halves(protocol, ring, short_halves):
    parties = 2 if PROTOCOLS[protocol].helpers else 3
    for truncation in ("exact", "probabilistic"):
        compare(
            cases, (1, 65), protocol=protocol, ring=ring, truncation=truncation, parties=parties
        )


@pytest.mark.parametrize("protocol", DECLARING)
def test_declared_is_counted_for_every_window(protocol):
    compare(windows, (65,), protocol=protocol)


@pytest.mark.parametrize("protocol", DECLARING)
def test_declared_is_counted_for_planes(protocol):
    compare(plane_cases, SIZES, protocol=protocol)


@pytest.mark.parametrize("protocol", ["trio", "replicated", "additive"])
def test_declared_is_counted_for_lookups(protocol):
    compare(lookups, (1, 65), protocol=protocol)


def counted_over_tls(session: Session) -> list[tuple[str, Cost, Cost]]:
    """Each operation, with what this party sends and what it receives from the dealer."""
    dealer, found = session.parties, []
    additive: Any = session.protocol
    both = chain(cases(additive, 65), cases(Beaver(additive.context), 65))
    for case in both:
        with session.stats.scope("dealt") as spent:
            counted = count(session, case)
        bits = dict(counted.bits)
        if dealer in spent.peers and spent.peers[dealer].bytes_received_ahead:
            bits[dealer, session.rank, True] = 8 * spent.peers[dealer].bytes_received_ahead
        found.append((case.name, Cost(counted.rounds, bits), case.declared))
    return found


@pytest.mark.full("test_declared_is_counted in threads; no frame depends on the transport")
def test_declared_is_counted_over_tls():
    """Of `additive` and of `beaver`, which have the same members."""
    settings = {"protocol": "additive", "parties": 2, "fraction_bits": 8}
    check_counts(tacit.run(counted_over_tls, transport="processes", **settings))


def relu(session: Session, n: int) -> Cost:
    """A product, divided, where it is positive."""
    p = session.protocol
    x, y = (p.share(torch.zeros(n, dtype=torch.int64), owner, limit=1 << 12) for owner in (0, 1))

    def call() -> None:
        z = p.mul(x, y, shift=SHIFT)
        p.inject(p.bit_not(p.sign(z)), z)

    return count(session, Case("relu", call, Cost()))


def test_an_exact_relu_costs_no_round_and_few_bits_more():
    exact, fast = (tacit.run(relu, 64, truncation=t) for t in ("exact", "probabilistic"))
    assert [cost.rounds for cost in exact] == [cost.rounds for cost in fast] == [0, 4, 4]
    more = 2 * (SHIFT + 1) * 64
    assert exact[0].bits[0, 2, True] == fast[0].bits[0, 2, True] + more
    assert exact[1:] == fast[1:]


def dealt_messages(session: Session) -> int:
    p = session.protocol
    x, y = (p.share(torch.zeros(64).long(), owner, limit=1 << 12) for owner in (0, 1))
    z = p.mul(x, y, shift=SHIFT)
    with session.stats.scope("relu") as spent:
        p.relu_with_bit(z)
    return spent.messages


def test_a_relu_is_dealt_in_one_message():
    assert tacit.run(dealt_messages) == [1, 3, 3]


# Golden figures ---------------------------------------------------------------------------------


MANY = 1 << 20  # elements, of which bits count more than rounds


def per_element(cost: Cost, count: int = 64) -> tuple[int, int, int, int]:
    """Rounds, bits dealt, and bits each way, of an operation on so many elements."""
    links = [(0, 1, True), (0, 2, True), (1, 2, False), (2, 1, False)]
    assert set(cost.bits) <= set(links)
    first, second, there, back = (cost.bits.get(link, 0) for link in links)
    dealt = first + second
    assert first == (dealt // 2 if dealt >= HALVED_BITS else 0)
    assert all(bits % count == 0 for bits in (dealt, there, back))
    return cost.rounds, dealt // count, there // count, back // count


def test_golden_figures_of_trio():
    n = 64
    assert per_element(TRIO.bilinear(n)) == (1, 64, 64, 64)
    assert per_element(TRIO.bilinear(n, 16, exact=False)) == (1, 64, 64, 64)
    assert per_element(TRIO.bilinear(n, 16)) == (1, 0, 64, 64)
    assert per_element(TRIO.truncate(n, 16)) == (1, 64 + 16, 64, 64)
    assert per_element(TRIO.truncate(n, 16, exact=False)) == (0, 64, 0, 0)
    assert per_element(TRIO.signs(n, 64)) == (2, 1886, 18, 18)
    assert per_element(TRIO.signs(MANY, 64), MANY) == (3, 319, 39, 39)
    assert per_element(TRIO.signs(MANY, 32), MANY) == (3, 105, 29, 29)
    assert per_element(TRIO.signs(MANY, 27), MANY) == (3, 82, 23, 23)
    assert per_element(TRIO.inject(n)) == (1, 128, 64, 64)
    assert per_element(TRIO.is_zero(n, 64))[::2] == (3, 21)
    assert [per_element(TRIO.bit_and(n, 1, d))[1] for d in (2, 3, 4)] == [1, 4, 11]


def test_golden_figures_of_many_thresholds():
    """M9: 11 thresholds of 25 bits share their tables, 57 bits."""
    one, many = (per_element(TRIO.signs(MANY, 25, count), MANY) for count in (1, 11))
    nodes = one[1] - 57
    assert many == (3, 57 + 11 * nodes, 11 * one[2], 11 * one[3])


def test_exact_relu_is_declared_as_2t_plus_2_bits_more():
    def relu(exact: bool, t: int) -> Cost:
        inject = TRIO.inject(64, t if exact else 0)
        return TRIO.bilinear(64, t, exact).then(TRIO.signs(64, 40)).then(inject)

    for t in (1, 16, 30):
        rounds, dealt, *ways = per_element(relu(True, t))
        assert (rounds, dealt - 2 * (t + 1), *ways) == per_element(relu(False, t))


# The optimum of the carry plans -----------------------------------------------------------------


def monomials(size: int, with_p: bool) -> int:
    """Bits to deal for a carry node, by listing products of mask bits.

    G = g1 + p1 g2 + p1 p2 g3 + ...: every product of two or more masks of one term is dealt, but
    the complete ones, which have no public factor and stand in no other term, are dealt as one.
    """
    terms = [(*[f"p{i}" for i in range(j)], f"g{j}") for j in range(size)]
    products = {
        frozenset(some)
        for term in terms
        for k in range(2, size + 1)
        for some in combinations(term, k)
    }
    complete = {frozenset(term) for term in terms[1:]}
    if with_p:
        inputs = [f"p{i}" for i in range(size)]
        products |= {frozenset(c) for k in range(2, size + 1) for c in combinations(inputs, k)}
    return len(products - complete) + 1


NODE_BITS = {(d, p): monomials(d, p) for d in range(2, 10) for p in (False, True)}


def test_node_bits_are_those_of_the_definition():
    assert [NODE_BITS[d, False] for d in range(2, 10)] == [1, 4, 13, 34, 79, 172, 361, 742]
    assert [NODE_BITS[d, True] for d in range(2, 10)] == [2, 7, 20, 49, 110, 235, 488, 997]


def brute_force(width: int, rounds: int) -> int:
    """The fewest bits in all for a sign: digits of one size, nodes of one size a level."""
    best = []
    for digit, depth in product(range(1, 9), range(rounds)):
        leaves = [min(digit, width - 1 - i) for i in range(0, width - 1, digit)]
        for radices in product(range(2, 10), repeat=depth):
            dealt, opened = 1 + sum(2**leaf - 1 for leaf in leaves), 2 * len(leaves) - 1
            groups = len(leaves)
            for radix in radices:
                nodes = [min(radix, groups - i) for i in range(0, groups, radix)]
                real = [(size, i > 0) for i, size in enumerate(nodes) if size > 1]
                dealt += sum(NODE_BITS[node] for node in real)
                opened += sum(2 if with_p else 1 for _, with_p in real)
                groups = len(nodes)
            if groups == 1:
                best.append(dealt + 2 * opened)
    return min(best)


@pytest.mark.parametrize("width", range(4, 65))
def test_plans_are_the_cheapest(width):
    rounds = 2 if width <= 20 else 3
    declared = TRIO.signs(MANY, width)
    assert declared.rounds <= rounds
    assert sum(declared.bits.values()) == MANY * brute_force(width, rounds)
    assert sum(carry_plan(width).digits) == width - 1


@pytest.mark.parametrize("width", [5, 8, 9, 16, 17, 38, 64])
def test_few_elements_are_compared_in_fewer_rounds(width):
    """As long as a round saved costs at most 128 KiB."""
    few, many = TRIO.signs(64, width), TRIO.signs(MANY, width)
    assert few.rounds == (1 if width <= 8 else 2)
    assert sum(few.bits.values()) == 64 * brute_force(width, few.rounds)
    extra = brute_force(width, few.rounds) - brute_force(width, many.rounds)
    if extra:
        last = 64 * (((many.rounds - few.rounds) * (1 << 20) - 1) // (64 * extra))
        assert TRIO.signs(last, width).rounds == few.rounds
        assert TRIO.signs(last + 64, width).rounds > few.rounds


def test_planes_travel_in_whole_words():
    assert TRIO.signs(1, 8) == TRIO.signs(64, 8)
    assert sum(TRIO.signs(65, 8).bits.values()) == 2 * sum(TRIO.signs(64, 8).bits.values())


def stacked_rows(session: Session) -> tuple[Cost, Cost]:
    """Planes are gates of their own: an AND of three rows is declared as such."""
    p = session.protocol
    a, b = (stack_planes([p.random_bits((64,))] * 3) for _ in range(2))
    return count(session, Case("rows", lambda: p.bit_and(a, b), Cost())), p.costs.bit_and(64, 3, 2)


def test_rows_of_planes_are_counted():
    for rank, (counted, declared) in enumerate(tacit.run(stacked_rows)):
        mine = {link: bits for link, bits in declared.bits.items() if link[0] == rank}
        assert dict(counted.bits) == mine
