"""What a new user does on the first day: ten programs, each right or refused at every party.

None of them hands a wrong number to the program. They are written as one writes plain torch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

import tacit
from tacit.errors import Error, PartyFailed
from tacit.runtime.session import Session

X = torch.arange(24.0).reshape(12, 2) / 8 - 1
LABELS = torch.arange(12) % 2
OWNER = 1

Given = list[tuple[Any, Any]]  # a value that the program got, and what plain torch gives there


def secret(s: Session) -> Tensor:
    return s.share(X, owner=OWNER)


def seedless_shuffle(s: Session, given: Given) -> None:
    x, total = secret(s), torch.zeros(2)
    for [rows] in DataLoader(TensorDataset(torch.arange(12)), batch_size=5, shuffle=True):
        total = total + (x[rows] * (LABELS[rows, None] + 0.5)).sum(0)
    given.append((s.reveal(total), (X * (LABELS[:, None] + 0.5)).sum(0)))


def own_labels(s: Session, given: Given) -> None:
    labels = LABELS if s.rank == OWNER else torch.zeros_like(LABELS)  # the others have no labels
    given.append((s.reveal(F.cross_entropy(secret(s), labels)), F.cross_entropy(X, LABELS)))


def forgotten_share(s: Session, given: Given) -> None:
    """A model with random weights is the same everywhere; one that was trained is not."""
    model = nn.Linear(2, 3)
    given.append((s.reveal(model(secret(s)).detach()), model(X).detach()))


def forgotten_share_of_a_trained_model(s: Session, given: Given) -> None:
    model = nn.Linear(2, 3)
    if s.rank == OWNER:
        nn.init.constant_(model.weight, 2.0)
    given.append((s.reveal(model(secret(s)).detach()), None))


def noise(s: Session, given: Given) -> None:
    drawn = torch.randn(2)
    given.append((s.reveal(secret(s) + drawn), X + drawn))


def rank_in_an_expression(s: Session, given: Given) -> None:
    given.append((s.reveal(secret(s) * (1 + s.rank)), None))


def split(s: Session, given: Given) -> None:
    first, second = random_split(TensorDataset(torch.arange(12)), [5, 7])
    x = secret(s)
    for part in (first, second):
        rows = torch.tensor(part.indices)
        given.append((s.reveal(x[rows]), X[rows]))


def large_number(s: Session, given: Given) -> None:
    given.append((s.reveal(secret(s) - 1e9), X - 1e9))


def not_a_number(s: Session, given: Given) -> None:
    x = X.clone()
    x[3, 1] = float("nan")
    given.append((s.reveal(s.share(x, owner=OWNER).sum()), None))


def label_seven_of_two(s: Session, given: Given) -> None:
    labels = LABELS.clone()
    labels[4] = 7
    given.append((s.reveal(F.cross_entropy(secret(s), labels)), None))


def integers_by_shape(s: Session, given: Given) -> None:
    labels = s.share(LABELS if s.rank == OWNER else None, owner=OWNER, shape=(12,))
    given.append((s.reveal(F.cross_entropy(secret(s), labels)), F.cross_entropy(X, LABELS)))


def integers_by_shape_and_dtype(s: Session, given: Given) -> None:
    mine = LABELS if s.rank == OWNER else None
    labels = s.share(mine, owner=OWNER, shape=(12,), dtype=torch.int64)
    given.append((s.reveal(F.cross_entropy(secret(s), labels)), F.cross_entropy(X, LABELS)))


RIGHT = None
PROGRAMS: dict[Callable[[Session, Given], None], str | None] = {
    seedless_shuffle: RIGHT,
    own_labels: "PublicMismatch",
    forgotten_share: RIGHT,
    forgotten_share_of_a_trained_model: "PublicMismatch",
    noise: RIGHT,
    rank_in_an_expression: "PublicMismatch",
    split: RIGHT,
    large_number: "RangeError",
    not_a_number: "RangeError",
    label_seven_of_two: "RangeError",
    integers_by_shape: "PublicMismatch",
    integers_by_shape_and_dtype: RIGHT,
}


Seen = dict[int, tuple[str | None, Given]]


def attempted(s: Session, program: Callable[[Session, Given], None], seen: Seen) -> None:
    """Notes the class of the error that a party raises, and what its program was given before."""
    given: Given = []
    try:
        s.mesh.compare()  # a party that is still starting would raise before its program runs
        program(s, given)
        s.close()
        seen[s.rank] = None, given
    except Error as error:
        seen[s.rank] = type(error).__name__, given
        raise


@pytest.mark.parametrize("protocol", ["trio", "cleartext"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_right_or_refused_at_every_party(program, protocol):
    seen: Seen = {}
    expected = nullcontext() if PROGRAMS[program] is RIGHT else pytest.raises(PartyFailed)
    with expected:
        tacit.run(attempted, program, seen, protocol=protocol)
    for rank in range(3):
        error, given = seen[rank]
        assert error == PROGRAMS[program]
        assert (not given) == (error is not None)
        for found, wanted in given:
            assert (found.double() - wanted.double()).abs().max() < 2e-3


IN_PROCESSES = (seedless_shuffle, own_labels, forgotten_share, rank_in_an_expression, large_number)


@pytest.mark.full("test_right_or_refused_at_every_party, in threads")
@pytest.mark.parametrize("program", IN_PROCESSES, ids=lambda program: program.__name__)
def test_in_processes(program):
    if PROGRAMS[program] is None:
        tacit.run(in_a_process, program, transport="processes")
        return
    with pytest.raises(PartyFailed) as caught:
        tacit.run(in_a_process, program, transport="processes")
    assert caught.value.kind == PROGRAMS[program]


def in_a_process(s: Session, program: Callable[[Session, Given], None]) -> None:
    given: Given = []
    program(s, given)
    for found, wanted in given:
        assert (found.double() - wanted.double()).abs().max() < 2e-3
