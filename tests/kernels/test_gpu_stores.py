"""What is found of the memory that Triton functions write: what their authors mean, and do."""

from __future__ import annotations

import inspect
from functools import partial

import pytest
import torch
from torch.utils._pytree import tree_map

from tacit import kernels
from tacit.kernels.launches import launches_noted

gpu = pytest.importorskip("tacit.kernels.gpu")

from tacit.kernels.gpu import (  # noqa: E402
    chacha,
    checksum,
    convolution,
    direct,
    gate_kernels,
    gemm,
    injection_kernels,
    planes,
    powers_of_two,
    residues,
    waves,
    weight_gradient,
)
from tacit.kernels.gpu.jit import Kernel  # noqa: E402
from tacit.kernels.gpu.stores import written_parameters  # noqa: E402

MODULES = (chacha, checksum, gate_kernels, injection_kernels, planes, powers_of_two, waves)
OTHERS = {
    "_fill_many": {"out"},
    "_mask": {"values"},
    "_checksum": {"total"},
    "deal_flip": {"pad_flip"},
    "deal_injection": {"pad_flip", "pad_product"},
    "correct_inject_exact": {"flip", "flip_low", "low", "top", "flip_top"},
    "deal_exact": {"quotient", "top"},
    "deal_inject_exact": {"low", "flip_low", "top", "flip_top"},
    "_deal": {"pad"},
    "_to_planes": {"planes"},
    "_pack": {"words"},
}
LAUNCHED = {  # by how many of their first parameters are pointers
    convolution._convolve: 5,
    direct._few_rows: 3,
    direct._sum_taps: 4,
    gemm._product: 4,
    residues._encode: 3,
    residues._combine: 3,
    weight_gradient._unfold: 4,
}


def pointers(function):
    """The names of the parameters of a kernel that are pointers."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name for one in parameters if "tensor" in str(one.annotation)}


def test_every_kernel_writes_what_it_is_to_write():
    found = {
        name: written_parameters(one.function.fn) & pointers(one.function.fn)
        for module in MODULES
        for name, one in vars(module).items()
        if isinstance(one, Kernel)
    }
    assert OTHERS.keys() <= found.keys()
    assert found == {name: OTHERS.get(name, {"out"}) for name in found}


@pytest.mark.parametrize("kernel", LAUNCHED, ids=lambda one: one.fn.__name__)
def test_products_write_their_results_only(kernel):
    first = [*inspect.signature(kernel.fn).parameters][: LAUNCHED[kernel]]
    assert written_parameters(kernel.fn).intersection(first) == {"out"}


class Watch:
    """Compares the tensors of each launch before and after it, and launches it again on copies."""

    def __init__(self) -> None:
        self.changed = 0
        self._again = None
        self._last: list[tuple[torch.Tensor, torch.Tensor, bool]] = []

    def note_launch(self, start, args, written):
        self.look()
        places = {x.data_ptr() for x in written}
        assert places

        def copied(x):
            if not isinstance(x, torch.Tensor):
                return x
            self._last.append((x, x.clone(), x.data_ptr() in places))
            return self._last[-1][1]

        self._again = partial(start, *tree_map(copied, args))

    def look(self):
        last, self._last = self._last, []
        for x, before, is_written in last:
            assert is_written or torch.equal(x, before)
            self.changed += is_written and not torch.equal(x, before)
        if self._again is not None:
            with launches_noted(None):
                self._again()
        assert all(torch.equal(x, copy) for x, copy, _ in last)
        self._again = None


def words(*shape):
    return torch.randint(-(2**63), 2**63 - 1, shape)


CALLS = {
    "stream": lambda: kernels.stream(b"k" * 32, words(40), operation=1, cipher="chacha20"),
    "mask": lambda: kernels.mask(b"k" * 32, words(40), "add", operation=1, cipher="chacha20"),
    "matmul": lambda: kernels.matmul(words(5, 70), words(70, 6)),
    "one row": lambda: kernels.matmul(words(1, 7), words(7, 6)),
    "conv2d": lambda: kernels.conv2d(words(1, 2, 5, 5), words(3, 2, 3, 3)),
    "bit planes": lambda: kernels.bit_planes(words(70), 64),
    "popcount": lambda: kernels.popcount(words(70)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_launches_change_nothing_else(call, choose):
    """In Triton's interpreter, where there is no GPU."""
    choose("triton")
    torch.manual_seed(5)
    watch = Watch()
    with launches_noted(watch):
        call()
    watch.look()
    assert watch.changed > 0
