"""Joins of drawn tables against pandas.merge."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from tests.tiers import FULL

import tacit
from tacit.errors import DataRejected

pd = pytest.importorskip("pandas")

SEED = 20261117
COUNT = 120 if FULL else 40
UNIT = 16  # numbers are multiples of 1/16, which every ring holds exactly
ID_COLUMNS = ("patient", "ward")


@dataclass(frozen=True)
class Drawn:
    """Two tables, and how they are joined. twice: whose table has an id twice, or None."""

    left: dict
    right: dict
    on: list[str]
    owners: tuple[int, int]
    size: int | str | None
    twice: int | None


def drawn_ids(rng, count, columns):
    """Different ids of so many columns, in each a text or an integer, as an owner may write it."""
    alphabet = ["anna", "é", "a|b", "", "0", "x y"]
    found = {}
    while len(found) < count:
        row = tuple(
            rng.choice([rng.randrange(-50, 10**6), rng.choice(alphabet) + str(rng.randrange(99))])
            for _ in range(columns)
        )
        found[tuple(map(str, row))] = row
    return list(found.values())


def written(rng, cell):
    """The same id as another owner writes it: an integer, or its digits."""
    return str(cell) if rng.random() < 0.5 else cell


def table(rng, ids, names, on):
    """A table in an order of its own, whose columns of ids stand anywhere."""
    ids = rng.sample(ids, len(ids))
    columns = {name: [written(rng, row[i]) for row in ids] for i, name in enumerate(on)}
    columns |= {name: [rng.randrange(-999, 999) / UNIT for _ in ids] for name in names}
    return {name: columns[name] for name in rng.sample([*columns], len(columns))}


def drawn(rng):
    left, right = (rng.choice([0, 1, 2, 3, rng.randrange(4, 14)]) for _ in range(2))
    common = rng.choice([0, min(left, right), rng.randint(0, min(left, right))])
    on = list(ID_COLUMNS[: rng.choice([1, 1, 2])])
    ids = drawn_ids(rng, left + right - common, len(on))
    ours = table(rng, ids[:left], ["age", "dose"][: rng.randrange(3)], on)
    theirs = table(
        rng, ids[left - common :] if right else [], ["bmi", "ill"][: rng.randrange(3)], on
    )
    owners = rng.choice([(0, 1), (1, 0)])
    twice = None
    if left > 1 and rng.random() < 0.15:
        twice = owners[0]
        for name in on:
            ours[name][-1] = ours[name][0]
    size = rng.choice([None, "reveal", max(common, 1), common + 3])
    return Drawn(ours, theirs, on, owners, size, twice)


def merged(case):
    """The rows that match, sorted, from pandas."""
    frames = [pd.DataFrame(one) for one in (case.left, case.right)]
    for frame in frames:
        for name in case.on:
            frame[name] = frame[name].map(str).astype(object)
    names = [name for frame in frames for name in frame.columns if name not in case.on]
    rows = pd.merge(*frames, on=case.on, validate="one_to_one")[names]
    return names, sorted(map(tuple, rows.to_numpy(float).tolist()))


def joined(session, case):
    """Joins a drawn case, and compares at every party."""
    tables = [
        one if session.rank == owner else None
        for one, owner in zip((case.left, case.right), case.owners, strict=True)
    ]
    if case.twice is not None:
        with pytest.raises(DataRejected, match="an id comes twice") as caught:
            session.join(*tables, on=case.on, owners=case.owners, size=case.size)
        assert caught.value.party == case.twice
        return
    found = session.join(*tables, on=case.on, owners=case.owners, size=case.size)
    names, want = merged(case)
    assert list(found.names) == names
    numbers, matched = (
        x.numpy() for x in session.reveal((found.table, found.matched), to_dealer=True)
    )
    assert not numbers[matched == 0].any()
    rows = sorted(map(tuple, np.asarray(numbers[matched == 1], float).tolist()))
    assert rows == want
    shorter = min(len(one[case.on[0]]) for one in (case.left, case.right))
    if case.size == "reveal":
        assert len(found) == len(want)
    elif case.size is not None:
        assert len(found) == min(case.size, shorter)


def all_joined(session, cases):
    for number, case in enumerate(cases):
        try:
            joined(session, case)
        except Exception as error:
            raise AssertionError(f"case {number} of seed {SEED}: {case}") from error


def test_the_draws_have_every_kind_of_case():
    cases = [drawn(random.Random(SEED + i)) for i in range(COUNT)]
    matches = [len(merged(one)[1]) for one in cases if one.twice is None]
    sizes = {len(one.left[one.on[0]]) for one in cases}
    assert {0, 1} <= sizes
    assert 0 in matches
    assert max(matches) > 3
    assert {one.owners for one in cases} == {(0, 1), (1, 0)}
    assert {len(one.on) for one in cases} == {1, 2}
    assert {type(one.size) for one in cases} == {type(None), str, int}
    assert any(one.twice is not None for one in cases)


@pytest.mark.parametrize(
    ("settings", "count"),
    [({"protocol": "cleartext", "parties": 2}, COUNT), ({"protocol": "trio"}, COUNT // 5)],
    ids=["cleartext", "trio"],
)
def test_joins_are_those_of_pandas(settings, count):
    print(f"seed {SEED}")
    cases = [drawn(random.Random(SEED + i)) for i in range(count)]
    tacit.run(all_joined, cases, **settings)
