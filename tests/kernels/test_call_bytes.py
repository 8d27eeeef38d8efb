"""Arguments of calls as bytes: as the reference makes them, and different for different calls."""

from __future__ import annotations

import math
from collections import namedtuple
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.kernels import load_call_bytes
from tacit.ring.reference.call_bytes import call_bytes as reference

call_bytes = load_call_bytes()
Pair = namedtuple("Pair", "first second")


class Shaped:
    def __init__(self, *shape: int, origin: int = 0) -> None:
        self.shape, self.origin = torch.Size(shape), origin

    def __repr__(self) -> str:
        return f"Shaped({self.shape}, {self.origin})"


class Other:
    pass


SHAPED = {Shaped}
simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 63) - 2, (1 << 63) + 2),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.builds(
        lambda shape, origin: Shaped(*shape, origin=origin),
        st.lists(st.integers(0, 1 << 40), max_size=4),
        st.integers(0, 1 << 40),
    ),
    st.builds(Other),
)
nested = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(st.integers(0, 99), max_size=4).map(torch.Size),
        st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    ),
    max_leaves=12,
)


@draws(400)
@given(
    args=st.lists(nested, max_size=5),
    kwargs=st.dictionaries(st.sampled_from(["dim", "out", "keepdim"]), nested, max_size=3),
)
def test_it_equals_the_reference(args, kwargs):
    found, expected = call_bytes(args, kwargs, SHAPED), reference(args, kwargs, SHAPED)
    assert found == expected
    assert call_bytes(tuple(args), kwargs, SHAPED) == expected


NEAR = [
    None, False, True, 0, 1, -1, 256, 0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, "", "1",
    1 << 63, -(1 << 63), -(1 << 63) - 1, 1 << 64, [], [[]], [0], [0, 0], [[0], 0], ["a", "b"],
    ["ab"], {}, {"a": 0}, {"a": None}, Shaped(), Shaped(0), Shaped(1, 2), Shaped(12), Shaped(2, 1),
    Shaped(12, origin=1),
]  # fmt: skip


def test_what_differs_has_other_bytes_and_none_begin_with_others():
    made = [call_bytes([x], {}, SHAPED)[0] for x in NEAR]
    for (i, a), (j, b) in product(enumerate(made), repeat=2):
        assert i == j or not a.startswith(b), (NEAR[i], NEAR[j])


def test_where_an_argument_stands_matters():
    calls = [([1, 2], {}), ([[1, 2]], {}), ([1], {"x": 2}), ([], {"x": 1, "y": 2}), ([2, 1], {})]
    assert len({call_bytes(*call, SHAPED)[0] for call in calls}) == len(calls)


def test_subclasses_are_what_they_derive_from():
    for one, other in [
        (Pair(1, 2.0), (1, 2.0)),
        (torch.Size([3, 4]), [3, 4]),
        (np.float64(0.5), 0.5),
    ]:
        assert call_bytes([one], {}, SHAPED) == call_bytes([other], {}, SHAPED)


def test_the_rest_is_returned_in_order():
    others = [Other(), torch.ones(2), slice(1, 2), np.int64(3)]
    data, found = call_bytes(
        [others[0], [others[1], 7]], {"a": {"b": others[2]}, "c": others[3]}, set()
    )
    assert [a is b for a, b in zip(found, others, strict=True)] == [True] * 4
    assert data.count(b"?") == 4


def test_a_list_that_contains_itself_is_an_error():
    endless: list[object] = []
    endless.append(endless)
    for function in (call_bytes, reference):
        with pytest.raises(RecursionError, match="nested too deeply"):
            function([endless], {}, SHAPED)
        assert function([1], {}, SHAPED)[1] == []


def test_deep_lists_are_described_up_to_a_limit():
    deep: list[object] = []
    for _ in range(98):
        deep = [deep]
    assert call_bytes([deep], {}, SHAPED) == reference([deep], {}, SHAPED)
    for function in (call_bytes, reference):
        with pytest.raises(RecursionError):
            function([[deep]], {}, SHAPED)


def test_a_text_that_is_no_unicode_is_an_error():
    with pytest.raises(UnicodeEncodeError):
        call_bytes(["\ud800"], {}, SHAPED)
