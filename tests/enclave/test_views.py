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
from tacit.enclave.trusted.masking import MODES
from tacit.protocols.products.bilinear import MATMUL, Conv
from tacit.ring import Window

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


def test_the_views_of_two_workers_have_nothing_in_common_but_the_masked_operands():
    first, second = views("three-server", 0.0, "fixed")[:2]
    shares = torch.cat([x.reshape(-1) for i in range(0, len(second), 4) for x in second[i : i + 2]])
    masked = torch.cat([x.reshape(-1) for x in first])
    assert not torch.isin(shares, masked).any()
    again = [x for i in range(0, len(second), 4) for x in second[i + 2 : i + 4]]
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


def uses_of_masks(mode: str, times: int) -> list[tuple[bytes, int, int, int]]:
    """Which bytes of which streams hide operands: (key, operation, start, end)."""
    uses, mask = [], kernels.mask

    def watched(key, values, how, *, operation, offset, cipher):
        uses.append((key, operation, offset, offset + values.nbytes))
        return mask(key, values, how, operation=operation, offset=offset, cipher=cipher)

    with patch.object(mask_keys.kernels, "mask", watched):
        views(mode, 1.0, "swalp", times)
    return uses


def overlaps(uses: list[tuple[bytes, int, int, int]]) -> bool:
    ordered = sorted(uses)
    return any(one[:2] == two[:2] and one[3] > two[2] for one, two in itertools.pairwise(ordered))


@EACH_MODE
def test_masks_are_used_once(mode):
    uses = uses_of_masks(mode, times=3)
    pairs = {"three-server": 2, "two-server": 2, "one-worker": 1}[mode]
    assert len(uses) == 3 * len(PROGRAM) * 2 * pairs
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
    """Each operand minus its plaintext is a draw of a stream whose key this worker did not get."""
    seen: list[list[Tensor]] = [[] for _ in MODES[mode]]
    serve = {i: recording(own) for i, own in enumerate(seen)}
    op, *shapes = CASES["conv"]
    with outsourcer(mode, precision="fixed", serve=serve) as enclave:
        enclave.product(op, *(torch.zeros(s) for s in shapes))
        keys = enclave._keys
    drawn = {id(key): key.pair(1, tuple(shapes), torch.int64, torch.device("cpu")) for key in keys}
    for role, own in zip(MODES[mode], seen, strict=True):
        lacking = [key for key in keys if key != keys.of(role)]
        found = set()
        for i, operand in enumerate(own):
            [hidden] = [k for k in lacking if torch.equal(-operand, drawn[id(k)][i % 2])]
            found.add((id(hidden), i % 2))
        assert len(found) == len(own)  # no two operands of a worker have one mask


def test_text_shows_no_key():
    with outsourcer("three-server") as enclave:
        shown = repr(enclave._keys) + repr(enclave._key)
        for key in enclave._keys:
            assert key.key.hex() not in shown
            assert repr(key.key) not in shown
        assert repr(KEY) not in shown
