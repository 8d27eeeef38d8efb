"""Numbers that Python's code hides: repeated functions give those that unrepeated ones give."""

from __future__ import annotations

import threading

import pytest
import torch
from tests.runtime.hidden_states import ALL

import tacit

X = torch.tensor([1.0, -2.0, 3.0])
PARTS = 8
# It is better to run these as they are than to look each time.
REFUSED = {
    "object_among_twenty_thousand": "reaches more than 16,384 objects",
    "element_of_a_list_of_a_million": "lists of more than 262,144 elements",
    "element_of_an_array_of_24_megabytes": "arrays of more than 16,777,216 bytes",
    "variable_of_globals": "it reads variables by a computed name",
    "variable_of_eval": "it reads variables by a computed name",
    "clock": "it reads a clock",
}


def called(make, repeated, x, reveal, wait):
    """Returns the results of five calls, and four after each change; and the repeated function."""
    wait()
    function, *changes = make()
    function = repeated(function)
    wait()
    found = [reveal(function(x)).tolist() for _ in range(5)]
    for change in changes:
        wait()
        change()
        wait()
        found += [reveal(function(x)).tolist() for _ in range(4)]
    return found, function


@pytest.mark.parametrize("part", range(PARTS))
def test_a_change_gives_the_numbers_that_an_unrepeated_function_gives(part):
    cases = ALL[part::PARTS]
    barrier = threading.Barrier(3)

    def main(session):
        x, found = session.share(X, owner=0), {}
        for make in cases:
            numbers, function = called(
                make, session.repeated, x, session.reveal, lambda: barrier.wait(60)
            )
            found[make.__name__] = (
                numbers,
                sum(one.num_replays for one in function.recordings),
                function.summary(),
            )
        return found

    expected = {one.__name__: called(one, lambda f: f, X, lambda x: x, int)[0] for one in cases}
    for found in tacit.run(main):
        wrong = [
            name
            for name, (numbers, _, _) in found.items()
            if not torch.allclose(
                torch.tensor(numbers), torch.tensor(expected[name]), atol=1e-3, rtol=0
            )
        ]
        assert not wrong
        for name, (_, replays, summary) in found.items():
            assert (replays == 0) == (name in REFUSED), (name, summary)
            assert REFUSED.get(name, "") in summary


def test_there_are_many_ways():
    assert len(ALL) >= 60
    assert {one.__name__ for one in ALL} >= REFUSED.keys()


def test_each_change_is_seen_by_an_unrepeated_function():
    without = ("clock",)
    for make in ALL:
        found, _ = called(make, lambda f: f, X, lambda x: x, int)
        assert (found[0] != found[-1]) == (make.__name__ not in without), make.__name__
