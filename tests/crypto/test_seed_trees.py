"""Trees of seeds: the picker knows every leaf but its own point's, and nothing on the path."""

from __future__ import annotations

import secrets

import pytest

from tacit.crypto.seed_trees import choices_of, message_bytes, pick, plant
from tacit.errors import ProtocolError


def picked(points, depth):
    """The planter's leaves, the picker's leaves, and the message."""
    choices = choices_of(points, depth)
    pairs = [(secrets.token_bytes(16), secrets.token_bytes(16)) for _ in choices]
    trees, message = plant(pairs, depth)
    keys = [pair[c] for pair, c in zip(pairs, choices, strict=True)]
    return trees, pick(keys, points, depth, message, planter=1), message


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
def test_all_leaves_but_one(depth):
    points = [0, (1 << depth) - 1, *(secrets.randbelow(1 << depth) for _ in range(3))]
    print(f"points: {points}")
    trees, known, message = picked(points, depth)
    assert len(message) == message_bytes(len(points), depth)
    for leaves, found, point in zip(trees, known, points, strict=True):
        assert len({*leaves}) == 1 << depth
        assert found[point] is None
        assert found[:point] + found[point + 1 :] == leaves[:point] + leaves[point + 1 :]


@pytest.mark.parametrize("depth", [2, 4])
def test_the_other_sum_of_a_level_would_give_the_path_away(depth):
    """With the keys of the other choices the picker finds another leaf, its point unknown no more:
    what keeps the path secret is that a base transfer gives one key."""
    point = secrets.randbelow(1 << depth)
    choices = choices_of([point], depth)
    pairs = [(secrets.token_bytes(16), secrets.token_bytes(16)) for _ in choices]
    [leaves], message = plant(pairs, depth)
    others = [pair[1 - c] for pair, c in zip(pairs, choices, strict=True)]
    opposite = point ^ ((1 << depth) - 1)
    [found] = pick(others, [opposite], depth, message, planter=1)
    assert found[point] == leaves[point]
    assert found[opposite] is None


def test_messages_are_uniform_for_every_point():
    for point in (0, 9, 15):
        message = picked([point] * 60, 4)[2]
        counts = [message.count(bytes([value])) for value in range(256)]
        mean = len(message) / 256
        assert sum((count - mean) ** 2 / mean for count in counts) < 400  # 255 expected


def test_wrong_arguments_are_typed_errors():
    message = picked([3, 1], 2)[2]
    with pytest.raises(ProtocolError) as caught:
        pick([bytes(16)] * 4, [3, 1], 2, message + b"\0", planter=1)
    assert caught.value.party == 1
    with pytest.raises(ProtocolError, match="depth 2"):
        choices_of([4], 2)
