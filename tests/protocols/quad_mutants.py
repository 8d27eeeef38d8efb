"""Faults in how `quad` compares what its parties know, each with the attacks that find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from tests.protocols.quad_cheats import Deviation, answering_last, attacks, faults, hidden
from torch import Tensor

from tacit.protocols.quad import io, verification
from tacit.protocols.quad.verification import HashedViews, Viewers, Views

Patch = pytest.MonkeyPatch
KINDS = ("flip a bit", "add the top bit")


class Mutant(NamedTuple):
    """A fault, and whether attacks that are not noticed show it."""

    apply: Callable[[Patch], None]
    is_found: Callable[[], bool]


def without(*left_out: Viewers) -> Callable[[Patch], None]:
    """These parties do not compare what they know together."""

    def apply(patch: Patch) -> None:
        add = HashedViews.add

        def some(
            self: HashedViews, viewers: Viewers, values: Sequence[Tensor], *, alike: Viewers = ()
        ) -> None:
            if viewers not in left_out:
                add(self, viewers, values, alike=alike)

        patch.setattr(HashedViews, "add", some)

    return apply


def reveals_are_not_verified(patch: Patch) -> None:
    def verify(p: Any) -> Iterator[Any]:
        return
        yield

    patch.setattr(io, "verify", verify)


def receivers_get_the_same(patch: Patch) -> None:
    """Whoever hears the others first can answer so that all sums are zero."""
    original = verification._terms
    patch.setattr(verification, "_terms", lambda *args: original(*args)[:1].repeat(4, 1))


def sums_are_ignored(patch: Patch) -> None:
    patch.setattr(Views, "agree", lambda *_: True)


def hashes_of_parts_are_ignored(patch: Patch) -> None:
    patch.setattr(io, "digest_of", lambda _: torch.zeros(4, dtype=torch.int64))


def first_words_are_compared(patch: Patch) -> None:
    add = HashedViews.add

    def first(
        self: HashedViews, viewers: Viewers, values: Sequence[Tensor], **pair: Viewers
    ) -> None:
        add(self, viewers, [value.reshape(-1)[:1] for value in values], **pair)

    patch.setattr(HashedViews, "add", first)


def groups_of_three_are_forgotten(patch: Patch) -> None:
    def digest(self: HashedViews, pair: Viewers) -> bytes:
        return self._hashes[pair].digest()

    patch.setattr(HashedViews, "digest", digest)


TRIES = 8  # an error may be noticed by chance, depending on masks


def _unnoticed(
    program: str, operation: str, *parties: int, deviation: Deviation = hidden
) -> Callable[[], bool]:
    """Whether words of these parties in an operation can be changed without being noticed."""

    def is_found() -> bool:
        found = [one for one in attacks(program, 64, KINDS) if one.sent.operation == operation]
        chosen = [one for one in found if one.sent.party in parties]
        return any(faults([one], deviation) for _ in range(TRIES) for one in chosen)

    return is_found


MUTANTS: dict[str, Mutant] = {
    "masks that are dealt are not compared": Mutant(
        without((0, 2)), _unnoticed("bit_and of 3", "bit_and", 3)
    ),
    "values that are dealt are not compared": Mutant(
        without((0, 1)), _unnoticed("bit_and of 3", "bit_and", 2)
    ),
    "results are not compared": Mutant(without((0, 1, 2)), _unnoticed("mul", "bilinear", 1)),
    "inputs are not compared": Mutant(without((1, 2)), _unnoticed("share", "share", 0)),
    "reveals are not verified": Mutant(reveals_are_not_verified, _unnoticed("mul", "bilinear", 3)),
    "sums are ignored": Mutant(sums_are_ignored, _unnoticed("mul", "bilinear", 1, 2)),
    "receivers get the same": Mutant(
        receivers_get_the_same, _unnoticed("mul", "bilinear", 1, 2, deviation=answering_last)
    ),
    "hashes of parts are ignored": Mutant(
        hashes_of_parts_are_ignored, _unnoticed("mul", "reveal", 1)
    ),
    "first words alone are compared": Mutant(
        first_words_are_compared, _unnoticed("mul", "bilinear", 3)
    ),
    "groups of three are forgotten": Mutant(
        groups_of_three_are_forgotten, _unnoticed("relu", "relu", 1)
    ),
}
