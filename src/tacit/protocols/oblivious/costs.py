"""The costs of oblivious transfers, from their definition; the tests count the same bits."""

from __future__ import annotations

from ...ring import OtProduct
from ..cost import Cost, Link, in_turn, planes
from .cross_products import parts
from .triples import PART_WORDS

POINT_BITS = 256
SEED_BITS = 128
BASE_TRANSFERS = 128
TREES, DEPTH = 32, 4


def setup_cost(one: int, other: int) -> Cost:
    """Two keys for each base transfer and one of the sender; then two seeds for each further level.

    Both parties send this.
    """
    bits = (2 * BASE_TRANSFERS + 1) * POINT_BITS + TREES * (DEPTH - 1) * 2 * SEED_BITS
    return Cost(2, {(one, other, False): bits, (other, one, False): bits})


def product_cost(product: OtProduct, receiver: int, sender: int) -> Cost:
    """A bit for each tree and transfer; then k - i bits for bit i of each left and right element.

    Two rounds for each part of a product that does not fit in memory at once.
    """
    return in_turn(_part_cost(part.product, receiver, sender) for part in parts(product))


def cross_product_cost(product: OtProduct, one: int, other: int) -> Cost:
    """The costs of both directions, side by side."""
    there, back = product_cost(product, one, other), product_cost(product, other, one)
    return Cost(there.rounds, there.then(back).bits)


def and_triples_cost(words: int, one: int, other: int) -> Cost:
    """A bit for each tree, triple and direction, in one round for each part."""
    bits = planes(TREES, 64 * words)
    rounds = -(-words // PART_WORDS)
    return Cost(rounds, {(one, other, False): bits, (other, one, False): bits})


def _part_cost(product: OtProduct, receiver: int, sender: int) -> Cost:
    size = product.ring.bits
    correction = sum(size - i for i in range(product.bits))
    elements = product.batch * product.m * product.k
    bits: dict[Link, int] = {
        (receiver, sender, False): planes(TREES, elements * product.bits),
        (sender, receiver, False): elements * product.n * correction,
    }
    return Cost(2, bits)
