"""Verifies everything that the parties computed so far, before anything is opened or kept."""

from __future__ import annotations

from collections.abc import Sequence

from ..quad import verification
from ..steps import Steps, together
from .base import VerifiedBase
from .buckets import verify_elements, verify_words
from .claims import Claims
from .reduction import reduced


def verify(p: VerifiedBase) -> Steps[None]:
    """Raises CheatingDetected at all honest parties if one has deviated so far.

    1 round if there is nothing new, else 5 to 8. NOTE [verifications in flight]: while one is under
    way, another may begin, in another call in flight, or the first may be given up with its call.
    So claims are kept until a verification of them has ended, and each verifies all that are kept.
    """
    if p.claims:
        p.kept.append(p.claims)
        p.claims = Claims()
    taken = list(p.kept)
    yield from check_claims(p, taken)
    yield from verification.verify(p)
    p.kept = [claims for claims in p.kept if claims not in taken]


def check_claims(p: VerifiedBase, claims: Sequence[Claims]) -> Steps[None]:
    """Compares as views what is equal if all claims are true."""
    gates = [gate for one in claims for gate in one.elements]
    words = [gate for one in claims for gate in one.words]
    if products := [product for one in claims for product in one.products]:
        gates += yield from reduced(p, products)
    yield from together(verify_elements(p, gates), verify_words(p, words))


def make_room(p: VerifiedBase) -> Steps[None]:
    """Verifies what is kept if it takes much memory. Every operation that adds to it begins so."""
    if p.claims.is_full:
        yield from verify(p)
