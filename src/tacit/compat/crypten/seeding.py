"""`crypten.manual_seed`: public random numbers that can be repeated."""

from __future__ import annotations

from ...runtime.public_randomness import seed_public_numbers


def manual_seed(next_seed: int, local_seed: int, global_seed: int) -> None:
    """Seeds what torch's own functions draw in public with `global_seed`.

    The other seeds are ignored. Shares, secret random numbers and masks of dropout are fresh in
    every session: no program knows what they are drawn from.
    """
    seed_public_numbers(global_seed)
