"""Oblivious transfers, and triples made of them, of two parties without a dealer.

First the kernels of the extension, one thread, for each depth of the trees of seeds: depth 1 is
IKNP, depth 4 is what the protocol uses. Then two parties in this process, a thread each, over the
local transport: each party is the sender of as many transfers as it receives at the same time, and
rates count those of one direction. Beside them is what a link of 1 Gbit/s in each direction would
carry: above a ratio of 1 the link is the limit. Notes say the rate for the processor time of the
busier party, which does not depend on what else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from statistics import median
from typing import Any, NamedTuple

from benchmarks.measure import Row, interleaved, one_thread, words

from tacit.kernels import ot_receive_rows, ot_send_rows
from tacit.kernels.ot import COLUMNS, DEPTHS
from tacit.protocols.cost import Cost
from tacit.protocols.oblivious import (
    Transfers,
    and_triples,
    and_triples_cost,
    cross_product,
    cross_product_cost,
    matmul_triple,
    mul_triple,
    set_up,
)
from tacit.protocols.steps import Steps
from tacit.ring import RING32, RING64, OtProduct, Ring
from tacit.transport import Mesh, memory_meshes

REPETITIONS = 5
EXTENSION_WORDS = 1 << 14  # a million transfers
LINK_BITS = 1e9  # a second, in each direction
DEMAND = 1e6  # correlated transfers a second and party

Call = Callable[[Transfers], Steps[Any]]


def extension_rows() -> list[Row]:
    """Transfers a second of the slower side, for each depth."""
    choices, transfers = words(EXTENSION_WORDS), EXTENSION_WORDS * 64
    calls: dict[str, Callable[[], object]] = {}
    for depth in DEPTHS:
        seeds, offset = words(COLUMNS // depth, 1 << depth, 2), words(2)
        message = ot_receive_rows(seeds, choices, operation=1)[0]

        def receive(seeds: Any = seeds) -> object:
            return ot_receive_rows(seeds, choices, operation=1)

        def send(seeds: Any = seeds, offset: Any = offset, message: Any = message) -> object:
            return ot_send_rows(seeds, offset, message, operation=1)

        calls |= {f"receive {depth}": receive, f"send {depth}": send}
    seconds = interleaved(calls)
    slower = {d: max(seconds[f"receive {d}"], seconds[f"send {d}"]) for d in DEPTHS}
    return [
        Row(
            name=f"extension, depth {depth}, {COLUMNS // depth / 8:g} bytes a transfer",
            value=transfers / slower[depth] / 1e6,
            unit="M/s",
            baseline="depth 1 (IKNP)",
            baseline_value=transfers / slower[1] / 1e6,
        )
        for depth in DEPTHS
    ]


class Case(NamedTuple):
    """amount: how many of what the name says one call makes."""

    name: str
    amount: int
    call: Call
    cost: Cost
    demand: float | None = None


def correlated(ring: Ring, amount: int) -> Case:
    product = OtProduct(amount, 1, 1, 1, 1, ring)
    choices = words(amount, dtype=ring.dtype).view(product.left) & 1
    deltas = words(amount, dtype=ring.dtype).view(product.right)
    return Case(
        f"correlated transfers, {ring.bits} bits",
        amount,
        lambda ends: cross_product(ends, product, choices, deltas),
        cross_product_cost(product, 0, 1),
        DEMAND,
    )


def products(ring: Ring, amount: int) -> Case:
    a, b = (words(amount, dtype=ring.dtype) for _ in "ab")
    cost = cross_product_cost(OtProduct(amount, 1, 1, 1, ring.bits, ring), 0, 1)
    name = f"triples, {ring.bits} bits, two products each"
    return Case(name, amount, lambda ends: mul_triple(ends, a, b), cost)


def matrices(ring: Ring, size: int) -> Case:
    a, b = (words(1, size, size, dtype=ring.dtype) for _ in "ab")
    cost = cross_product_cost(OtProduct(1, size, size, size, ring.bits, ring), 0, 1)
    name = f"terms of a {size} x {size} x {size} triple, {ring.bits} bits"
    return Case(name, size**3, lambda ends: matmul_triple(ends, a, b), cost)


def gates(count_words: int) -> Case:
    a = words(count_words)
    cost = and_triples_cost(count_words, 0, 1)
    return Case("AND triples", 64 * count_words, lambda ends: and_triples(ends, a), cost)


def drive(mesh: Mesh, steps: Steps[Any], numbers: count[int]) -> Any:
    """The result of steps whose rounds travel over a mesh."""
    received: Any = None
    while True:
        try:
            one = steps.send(received)
        except StopIteration as stop:
            return stop.value
        received = mesh.exchange(one.send, one.receive, operation=next(numbers))


class Times(NamedTuple):
    """Seconds of a call: from start to end, and of the processor."""

    wall: float
    processor: float

    @classmethod
    def of(cls, call: Callable[[], Any]) -> tuple[Any, Times]:
        begin = time.perf_counter(), time.thread_time()
        result = call()
        return result, cls(time.perf_counter() - begin[0], time.thread_time() - begin[1])


def party(mesh: Mesh, cases: list[Case]) -> list[Times]:
    """The times of the setup, and the medians of each case, at one party."""
    numbers, session = count(), bytes(32)
    with mesh:
        steps = set_up(mesh.rank, 1 - mesh.rank, session)
        ends, first = Times.of(lambda: drive(mesh, steps, numbers))
        found = [first]
        for case in cases:
            times = []
            for _ in range(REPETITIONS + 1):
                times.append(Times.of(lambda c=case: drive(mesh, c.call(ends), numbers))[1])
            found.append(Times(*(median(one) for one in zip(*times[1:], strict=True))))
    return found


def case_row(case: Case, times: Times) -> Row:
    """A rate beside what is demanded, or beside what a link carries."""
    one_way = max(case.cost.bits.values()) / case.amount  # bits
    link = LINK_BITS / one_way
    note = (
        f"{one_way / 8:.3g} bytes in each direction, of which 1 Gbit/s carries {link / 1e6:.3g} "
        f"M/s; {case.amount / times.processor / 1e6:.3g} M for a second of a processor"
    )
    return Row(
        name=case.name,
        value=case.amount / times.wall / 1e6,
        unit="M/s",
        baseline="demanded" if case.demand else "1 Gbit/s",
        baseline_value=(case.demand or link) / 1e6,
        target=1 if case.demand else None,
        note=note,
    )


def rows() -> list[Row]:
    """The extension by itself, then whole calls of two parties."""
    cases = [
        correlated(RING64, 1 << 20),
        correlated(RING32, 1 << 20),
        products(RING64, 1 << 14),
        products(RING32, 1 << 15),
        matrices(RING64, 64),
        matrices(RING32, 64),
        gates(1 << 14),
    ]
    with one_thread():
        kernels = extension_rows()
        with ThreadPoolExecutor(2) as pool:
            measured = list(pool.map(party, memory_meshes(2), [cases, cases]))
    slower = [Times(*map(max, zip(*both, strict=True))) for both in zip(*measured, strict=True)]
    made = [case_row(case, times) for case, times in zip(cases, slower[1:], strict=True)]
    started = Row(
        name="setup: 128 base transfers in each direction",
        value=slower[0].wall,
        unit="s",
        baseline="a second",
        baseline_value=1,
        lower_is_better=True,
        note=f"{slower[0].processor:.3g} s of a processor",
    )
    return [*kernels, started, *made]
