"""The forms of shares: the parts of a secret, and which member of a session holds which of them.

A secret is the sum of its parts. Protocols of one form understand each other's shares; between
forms, `conversion.py` shares the parts anew.
"""

from __future__ import annotations

from collections.abc import Sequence

THREE_PARTS = "three parts"  # member j holds all of them but part j
MASKED_PARTS = "opened value and masks"  # party i holds mask i and m, the last part; a dealer masks
OWN_PARTS = "additive parts"  # party i holds part i
DEALT_PARTS = "additive parts, and a dealer"  # as before; the last member holds no part

Held = Sequence[tuple[int, ...]]  # the numbers of the parts that each member holds, by rank


def held_parts(form: str, members: int) -> Held | None:
    """Returns the parts that each of so many members holds; None if the form is not for them."""
    if form == THREE_PARTS:
        return [(1, 2), (0, 2), (0, 1)] if members == 3 else None
    if form == MASKED_PARTS and members > 1:
        masks = tuple(range(members - 1))
        return [*((mask, members - 1) for mask in masks), masks]
    if form == OWN_PARTS:
        return [(rank,) for rank in range(members)]
    if form == DEALT_PARTS and members > 1:
        return [*((rank,) for rank in range(members - 1)), ()]
    return None


def givers(held: Held, parties: int) -> dict[int, list[int]]:
    """Returns the parts that each party gives: those of which it is the first party that holds it.

    Empty if no party holds one of the parts: then the parties cannot have the secret.
    """
    given: dict[int, list[int]] = {}
    for part in sorted({part for parts in held for part in parts}):
        holders = [rank for rank, parts in enumerate(held[:parties]) if part in parts]
        if not holders:
            return {}
        given.setdefault(holders[0], []).append(part)
    return given
