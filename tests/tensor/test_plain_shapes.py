"""The shapes that a party of an enclave remembers are those that torch finds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.tensor import plain_shapes
from tacit.tensor.plain_shapes import shapes_only

aten = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.float32, turned: bool = False) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype, device="meta")
    return made.transpose(0, -1) if turned and len(shape) else made


def form(x):
    return (x.shape, x.stride(), x.dtype, x.device.type) if isinstance(x, torch.Tensor) else x


def forms(result):
    return [form(x) for x in (result if isinstance(result, tuple | list) else [result])]


tensors = st.builds(
    meta,
    st.integers(1, 4),
    st.sampled_from([1, 3]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool]),
    turned=st.booleans(),
)
calls = st.one_of(
    st.tuples(st.just(aten.add.Tensor), st.tuples(tensors, tensors)),
    st.tuples(st.just(aten.add.Scalar), st.tuples(tensors, st.sampled_from([1, 1.0, True, 2.5]))),
    st.tuples(st.just(aten.sum.dim_IntList), st.tuples(tensors, st.sampled_from([[0], [1], []]))),
    st.tuples(st.just(aten.cat.default), st.tuples(st.lists(tensors, min_size=1, max_size=3))),
    st.tuples(st.just(aten.var_mean.correction), st.tuples(tensors, st.just([0]))),
)


@draws(100)
@given(st.lists(calls, min_size=1, max_size=8))
def test_results_have_the_form_that_torch_finds(drawn):
    for func, args in drawn * 2:
        try:
            wanted = forms(func(*args))
        except (RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                shapes_only(func, func, *args)
        else:
            assert forms(shapes_only(func, func, *args)) == wanted


def test_a_number_that_changes_is_no_new_call(monkeypatch):
    monkeypatch.setattr(plain_shapes, "_known", {})
    for number in range(5):
        shapes_only(aten.add.Tensor, aten.add.Tensor, meta(3), meta(3), alpha=0.1 * number)
    assert len(plain_shapes._known) == 1


def test_a_factor_that_decides_on_the_shape_is_one():
    resize = aten.upsample_nearest2d.vec
    for factor in (2.0, 3.0):
        made = shapes_only(resize, resize, meta(1, 1, 4, 4), None, [factor, factor])
        assert made.shape[2] == 4 * factor


def test_results_that_are_not_computed_stay_none():
    backward = aten.native_batch_norm_backward.default
    x, w = meta(2, 3, 4, 4), meta(3)
    args = (x, x, w, w, w, w, w, True, 1e-5, [True, False, False])
    for _ in range(2):
        assert shapes_only(backward, backward, *args)[1] is None


def test_what_is_known_is_bounded(monkeypatch):
    monkeypatch.setattr(plain_shapes, "_known", {})
    monkeypatch.setattr(plain_shapes, "MOST_KNOWN", 10)
    for size in range(1, 50):
        shapes_only(aten.relu.default, aten.relu.default, meta(size))
        assert len(plain_shapes._known) <= 10
