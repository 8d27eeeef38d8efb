"""Results of replays that share memory: a write to one shows in the others, as after a call."""

from __future__ import annotations

from math import copysign

import pytest
import torch
from torch import nn

import tacit

CALLS = 5


def twice(session, x):
    y = x * 2
    return y, y


def whole_and_part(session, x):
    y = x * 2
    return y.T, y[1:, 0]


def revealed_twice(session, x):
    y = session.reveal(x * 2)
    return y, y


@pytest.mark.parametrize("function", [twice, whole_and_part, revealed_twice])
def test_a_write_to_a_result_shows_in_others_of_its_memory(function):
    def main(session):
        repeated = session.repeated(lambda x: function(session, x))
        for i in range(CALLS):
            first, second = repeated(session.share(torch.full((3, 2), float(i)), owner=0))
            second.add_(1)
        found = [x if function is revealed_twice else session.reveal(x) for x in (first, second)]
        return found, first.stride(), [one.num_replays for one in repeated.recordings]

    plain = torch.full((3, 2), 2.0 * (CALLS - 1))
    wanted = (plain.T, plain[1:, 0]) if function is whole_and_part else (plain, plain)
    wanted[1].add_(1)
    for found, stride, replays in tacit.run(main):
        assert replays == [CALLS - 3]
        assert stride == wanted[0].stride()
        torch.testing.assert_close(found, list(wanted), atol=1e-3, rtol=0)


def test_a_result_that_is_a_gradient_is_the_gradient():
    def main(session):
        model = session.share(nn.Linear(2, 1), owner=0)

        def step(x):
            model.zero_grad()
            model(x).sum().backward()
            return model.weight.grad

        step = session.repeated(step)
        for _ in range(CALLS):
            found = step(session.share(torch.ones(3, 2), owner=1))
            model.weight.grad.mul_(0.5)
        return session.reveal(found), [one.num_replays for one in step.recordings]

    for found, replays in tacit.run(main):
        assert replays == [CALLS - 3]
        torch.testing.assert_close(found, torch.full((1, 2), 1.5), atol=1e-3, rtol=0)


@pytest.mark.parametrize("given", [0.0, torch.tensor(0.0)], ids=["number", "tensor"])
def test_minus_zero_is_another_argument_than_zero(given):
    """Code may decide by the sign of zero."""

    def main(session):
        x = session.share(torch.ones(2), owner=0)
        function = session.repeated(lambda x, sign: x * (2 if copysign(1, sign) > 0 else 3))
        return [session.reveal(function(x, given if i < 6 else -given)).tolist() for i in range(9)]

    assert tacit.run(main)[0] == [[2.0, 2.0]] * 6 + [[3.0, 3.0]] * 3
