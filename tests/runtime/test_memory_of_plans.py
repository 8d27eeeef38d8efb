"""Plans compute on addresses: a replay touches no memory but what its recording keeps."""

from __future__ import annotations

import pytest
import torch

import tacit
from tacit.kernels.written_arguments import written_addresses
from tacit.runtime.replay.plan import Draw, Work

torch.manual_seed(7)
LONG = torch.randn(16, 8)  # more than the record of public operands takes as it is


def plan_and_arena(function):
    [recording] = [made for one in function._specializations for made in one.recordings]
    return recording.plan, recording._recorder.arena


def written(plan):
    """The addresses that the kernels of a plan write to, with the names of the kernels."""
    for step in plan.steps:
        name = getattr(getattr(step, "function", None), "__name__", "")
        if isinstance(step, Work | Draw):
            for address in written_addresses(name, step.args) or ():
                yield name, address


@pytest.mark.parametrize("protocol", ["trio", "additive"])
def test_kernels_write_to_the_memory_of_the_plan(protocol):
    def program(session):
        function = session.repeated(lambda x: torch.relu(x * LONG + LONG) @ LONG.T)
        for _ in range(4):
            function(session.share(torch.randn(16, 8), owner=0))
        plan, arena = plan_and_arena(function)
        segments = [(one.start, one.start + one.memory.numel()) for one in arena._segments]
        found = [(name, address) for name, address in written(plan) if address]
        outside = [
            name
            for name, address in found
            if not any(start <= address < end for start, end in segments)
        ]
        return len(found), outside

    parties = 2 if protocol == "additive" else 3
    for count, outside in tacit.run(program, protocol=protocol, parties=parties):
        assert count
        assert outside == []


def test_a_plan_keeps_the_parts_that_a_settled_share_leaves():
    """A part of a product is read while its division is pending; later all of it is divided."""
    a, b, inputs = torch.randn(40, 40), torch.randn(40, 40), torch.randn(6, 3, 40)

    @torch.inference_mode()
    def program(session):
        product = session.share(a, owner=0) * session.share(b, owner=0)
        function = session.repeated(lambda x: x * product[:3])
        for x in inputs[:5]:
            function(session.share(x, owner=1))
        product @ product  # divides it
        others = [torch.full((1600,), -1) for _ in range(200)]  # takes memory that is freed
        made = session.reveal(function(session.share(inputs[5], owner=1)))
        return made, function.recordings[0].num_replays, len(others)

    for made, num_replays, _ in tacit.run(program):
        assert num_replays == 3
        torch.testing.assert_close(made, inputs[5] * (a * b)[:3], atol=1e-3, rtol=0)
