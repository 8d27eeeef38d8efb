"""Correlated randomness of two parties without a dealer, from oblivious transfers. Semi-honest.

In the order in which to read: `setup` (base transfers, once), `extension` (as many transfers as are
needed), `cross_products` (shares of products), `triples` (Beaver and AND triples), `costs`.
"""

from .costs import and_triples_cost, cross_product_cost, product_cost, setup_cost
from .cross_products import cross_product, receive_product, send_product
from .extension import Transfers
from .setup import set_up
from .triples import and_triples, matmul_triple, mul_triple

__all__ = [
    "Transfers",
    "and_triples",
    "and_triples_cost",
    "cross_product",
    "cross_product_cost",
    "matmul_triple",
    "mul_triple",
    "product_cost",
    "receive_product",
    "send_product",
    "set_up",
    "setup_cost",
]
