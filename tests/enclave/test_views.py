"""What a worker sees tells it nothing: statistics, and the masks that hide each message."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import pytest
import torch
from tests.enclave.products import CASES
from tests.enclave.workers import KEY, OUTSOURCED, outsourcer, recording
from tests.protocols.uniformity import HIGHEST, LOWEST, SIGMAS, difference, goodness, imbalance
from torch import Tensor

from tacit import kernels
from tacit.enclave import mask_keys
from tacit.enclave.trusted.masking import MODES, NUM_MASK_PARTS
from tacit.enclave.worker_roles import DUTIES
from tacit.protocols.products.bilinear import MATMUL, Conv
from tacit.ring import Window
from tacit.transport import CPU

EACH_PRECISION = pytest.mark.parametrize("precision", ["swalp", "fixed"])
EACH_MODE = pytest.mark.parametrize("mode", OUTSOURCED)
PROGRAM = [
    (MATMUL, (64, 32), (32, 16)),
    (Conv(Window.make(2, 1, 1)), (4, 8, 8, 8), (16, 8, 3, 3)),
]


def views(mode: str, value: float, precision: str, times: int = 1) -> list[list[Tensor]]:
    """What each worker receives in some products of equal numbers."""
    seen: list[list[Tensor]] = [[] for _ in MODES[mode]]
    serve = {i: recording(own) for i, own in enumerate(seen)}
    with outsourcer(mode, precision=precision, serve=serve) as enclave:
        for _ in range(times):
            for op, a, b in PROGRAM:
                enclave.product(op, torch.full(a, value), torch.full(b, -value))
    return seen


def messages(seen: list[Tensor]) -> list[tuple[int, Tensor]]:
    return [(0, x) for x in seen]


@EACH_MODE
@EACH_PRECISION
def test_operands_look_uniform(mode, precision):
    for value in (0.0, 1.0, -127.0):
        for seen in filter(None, views(mode, value, precision)):
            assert LOWEST < goodness(messages(seen)) < HIGHEST
            assert all(imbalance(x) < SIGMAS for x in seen)


@EACH_MODE
@EACH_PRECISION
def test_operands_do_not_depend_on_the_secrets(mode, precision):
    for one, other in zip(*(views(mode, v, precision) for v in (0.0, 77.0)), strict=True):
        assert [x.shape for x in one] == [x.shape for x in other]
        if one:
            assert LOWEST < difference(messages(one), messages(other)) < HIGHEST


def test_the_worker_of_the_masks_receives_nothing():
    assert views("three-server", 1.0, "swalp")[2] == []


@EACH_MODE
def test_no_word_arrives_twice(mode):
    """64 bits of int64 words do not repeat by chance: no mask hides two messages."""
    for seen in filter(None, views(mode, 0.0, "fixed", times=3)):
        words = torch.cat([x.reshape(-1) for x in seen])
        assert len(words.unique()) == len(words)


def test_two_workers_receive_the_same():
    first, second, _ = views("three-server", 3.0, "fixed")
    assert len(first) == 2 * len(PROGRAM)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def uses_of_masks(mode: str, times: int) -> list[tuple[bytes, int, int, int]]:
    """Which bytes of which streams hide operands: (key, operation, start, end)."""
    uses, masked8 = [], mask_keys.masked8

    def watched(values, keys, out, *, operation, cipher):
        uses.extend((key, operation, 0, 4 * values.numel()) for key in keys)
        return masked8(values, keys, out, operation=operation, cipher=cipher)

    with patch.object(mask_keys, "masked8", watched):
        views(mode, 1.0, "swalp", times)
    return uses


def overlaps(uses: list[tuple[bytes, int, int, int]]) -> bool:
    ordered = sorted(uses)
    return any(one[:2] == two[:2] and one[3] > two[2] for one, two in itertools.pairwise(ordered))


@EACH_MODE
def test_masks_are_used_once(mode):
    uses = uses_of_masks(mode, times=3)
    assert len(uses) == 3 * len(PROGRAM) * 2 * 2  # two operands, two parts of their masks
    assert not overlaps(uses)
    assert overlaps([*uses, uses[0]])


def test_two_outsourcers_with_one_key_have_masks_of_their_own():
    """A run that starts again with its sealed key must not repeat a mask."""
    one, other = (views("three-server", 0.0, "fixed") for _ in range(2))
    for seen, others in zip(one[:2], other[:2], strict=True):
        words, more = (torch.cat([x.reshape(-1) for x in tensors]) for tensors in (seen, others))
        assert not torch.isin(words, more).any()


@EACH_MODE
def test_every_operand_is_hidden_by_words_that_its_worker_lacks(mode):
    """Minus its plaintext and the mask parts that the worker knows, it is a part that it lacks."""
    seen: list[list[Tensor]] = [[] for _ in MODES[mode]]
    serve = {i: recording(own) for i, own in enumerate(seen)}
    op, *shapes = CASES["conv"]
    with outsourcer(mode, precision="fixed", serve=serve) as enclave:
        enclave.product(op, *(torch.zeros(s) for s in shapes))
        keys = enclave._keys
    for role, own in zip(MODES[mode], seen, strict=True):
        known = DUTIES[role].mask_parts
        lacking = keys.some([part for part in range(NUM_MASK_PARTS) if part not in known])
        for number, operand in enumerate(own, 1):
            hidden = operand.clone()
            for key in keys.some(known).keys:
                kernels.mask(key, hidden, "add", operation=number)
            assert torch.equal(-hidden, lacking.mask(number, operand.shape, torch.int64, CPU))
            assert lacking.keys


def test_text_shows_no_key():
    with outsourcer("three-server") as enclave:
        shown = repr(enclave._keys) + repr(enclave._key)
        for key in enclave._keys.keys:
            assert key.hex() not in shown
            assert repr(key) not in shown
        assert repr(KEY) not in shown
