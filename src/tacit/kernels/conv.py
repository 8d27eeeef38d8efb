"""Exact convolutions in one, two and three dimensions, and their gradients, mod 2^32 and 2^64.

Arguments are those of `torch.nn.functional.conv2d` and `torch.nn.grad`, without bias: images are
(image, channel, *position), weights (output channel, input channel of a group, *tap).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from types import ModuleType

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import Sizes, Window, ring_of
from ..ring.reference import arithmetic as reference
from .backend import address, gpu_for, native_for
from .matmul import METHODS, PLAIN, Plan, Prepared, matmul, method_number

CONV_METHODS = METHODS | {"winograd": 3}

UNFOLDED = 1 << 22
"""A weight gradient unfolds its input at most this many elements at a time."""


def conv(
    dims: int,
    x: Tensor,
    weight: Tensor | Prepared,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    *,
    method: str = "choose",
) -> Tensor:
    """Returns the convolution of ring tensors, exact mod 2^k.

    `method` is that of `matmul`, or "winograd". With 64 bits, 3x3 kernels of stride 1 with many
    channels use Winograd's transforms of residues (csrc/winograd.cpp) on ARM, which need four times
    fewer products; "winograd" forces them where they fit. A prepared weight has its own method.
    """
    window = Window.make(dims, stride, padding, dilation, groups)
    return conv_window(x, weight, window, method=method)


def conv_window(
    x: Tensor, weight: Tensor | Prepared, window: Window, *, method: str = "choose"
) -> Tensor:
    """Returns what `conv` returns, with stride, padding, dilation and groups in a `Window`."""
    if isinstance(weight, Prepared):
        return _conv_prepared(x, weight, window)
    ring_of(x, weight)
    shape = window.output_shape(x.shape, weight.shape)
    if gpu := gpu_for(x, weight):
        return _by_gpu(gpu.conv, x, weight, shape, window, method)
    native = native_for(x, weight)
    if native is None:
        return reference.conv(x, weight, window)
    channels = (weight.shape[1], weight.shape[0] // window.groups)
    return _fill(x.new_zeros(shape), native, "conv", x, weight, window, channels, method)


def plan_conv(
    x_shape: Sequence[int],
    shape: Sequence[int],
    window: Window,
    like: Tensor,
    *,
    method: str = "choose",
) -> Plan:
    """Returns how to prepare a weight of this shape for inputs of shape `x_shape`.

    `like` has the dtype and device of the operands. The plan is `PLAIN` if encoding does not pay.
    """
    number, native = method_number(method, CONV_METHODS), native_for(like)
    out, gpu = window.output_shape(x_shape, shape), gpu_for(like)
    if (native is None and gpu is None) or 0 in (*x_shape, *shape, *out):
        return PLAIN
    if gpu:
        geometry = gpu.Geometry.make(x_shape, shape, out, window)
        return Plan(*gpu.plan_conv(geometry, ring_of(like).bits, number))
    channels = (shape[1], shape[0] // window.groups)
    geometry = _geometry(tuple(x_shape), out, tuple(shape[2:]), window, channels)
    return Plan(*getattr(native, f"conv_plan{ring_of(like).bits}")(*geometry, number))


def prepare_conv(weight: Tensor, window: Window, plan: Plan) -> Prepared:
    """Returns a weight, encoded for convolutions with this window, as the plan says."""
    gpu, native, shape = gpu_for(weight), native_for(weight), weight.shape
    if (native is None and gpu is None) or not plan.num_bytes:
        return Prepared(shape, weight.dtype, PLAIN, weight, window)
    if gpu:
        return Prepared(shape, weight.dtype, plan, gpu.prepare_conv(weight, window), window)
    assert native is not None
    encoded = weight.new_empty(plan.num_bytes, dtype=torch.int8)
    made = Prepared(shape, weight.dtype, plan, encoded, window)
    # A convolution of no images encodes the weight and does nothing else.
    smallest = [d * (k - 1) + 1 for d, k in zip(window.dilation, shape[2:], strict=True)]
    x = weight.new_empty(0, shape[1] * window.groups, *smallest)
    out = weight.new_empty(0, shape[0], *window.output_sizes(smallest, shape[2:]))
    _run(native, x, weight.contiguous(), out, made, filled=False)
    return made


def _conv_prepared(x: Tensor, weight: Prepared, window: Window) -> Tensor:
    shape = window.output_shape(x.shape, weight.shape)
    if weight.is_plain:
        return conv_window(x, weight.data, window)
    gpu, native = gpu_for(x), native_for(x)
    missing = native is None and gpu is None
    if missing or x.dtype != weight.dtype or window != weight.window:
        made = f"a weight of {weight.dtype}, prepared for {weight.window}"
        raise ConfigError(f"convolution of {x.dtype} and {made}, with {window}")
    if gpu and 0 not in (*x.shape, *shape):
        return gpu.conv_prepared(x, weight.data, x.new_empty(shape), window, weight.shape)
    out = x.new_zeros(shape)
    if out.numel() and native:
        _run(native, x.contiguous(), weight.data, out, weight, filled=True)
    return out


def conv_grad_input(
    dims: int,
    input_shape: Sequence[int],
    weight: Tensor,
    grad: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    *,
    method: str = "choose",
) -> Tensor:
    """Returns the gradient of a convolution by its input, exact mod 2^k.

    It is the transposed convolution of the output's gradient.
    """
    ring_of(grad, weight)
    window = Window.make(dims, stride, padding, dilation, groups)
    _check_grad(window.output_shape(input_shape, weight.shape), grad)
    if gpu := gpu_for(grad, weight):
        return _by_gpu(gpu.conv_grad_input, grad, weight, input_shape, window, method)
    native = native_for(grad, weight)
    if native is None:
        return reference.conv_grad_input(input_shape[2:], weight, grad, window)
    out = grad.new_zeros(tuple(input_shape))
    channels = (weight.shape[0] // groups, weight.shape[1])
    return _fill(out, native, "conv_grad_input", grad, weight, window, channels, method)


def conv_grad_weight(
    dims: int,
    x: Tensor,
    weight_shape: Sequence[int],
    grad: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Returns the gradient of a convolution by its weight, exact mod 2^k.

    It is a product of the output's gradient and the unfolded input, computed for some images or
    lines at a time to bound memory (`UNFOLDED`).
    """
    ring_of(x, grad)
    window = Window.make(dims, stride, padding, dilation, groups)
    _check_grad(window.output_shape(x.shape, weight_shape), grad)
    kernel = tuple(weight_shape[2:])
    if gpu := gpu_for(x, grad):
        empty = 0 in (*x.shape, *weight_shape, *grad.shape)
        out = x.new_zeros(tuple(weight_shape)) if empty else x.new_empty(tuple(weight_shape))
        return out if empty else gpu.conv_grad_weight(x, grad, out, window)
    if native_for(x, grad) is None:
        return reference.conv_grad_weight(x, kernel, grad, window)
    columns = _unfold(reference.by_group(reference.pad(x, window), window), kernel, grad, window)
    rows = reference.by_group(grad, window)
    num_columns = weight_shape[1] * prod(kernel)
    out = x.new_zeros(groups, weight_shape[0] // groups, num_columns)
    lines = max(1, UNFOLDED // max(1, groups * num_columns * prod(grad.shape[3:])))
    images = max(1, lines // grad.shape[2])
    for n in range(0, grad.shape[0], images):
        for y in range(0, grad.shape[2], lines):
            a = rows[n : n + images].narrow(3, y, min(lines, grad.shape[2] - y))
            b = columns[n : n + images].narrow(-dims, y, min(lines, grad.shape[2] - y))
            a = a.movedim(0, 2).flatten(2)
            b = b.movedim(0, -dims - 1).flatten(-dims - 1).flatten(1, -2)
            out += matmul(a, b.transpose(1, 2))
    return out.reshape(tuple(weight_shape))


def _fill(
    out: Tensor,
    native: ModuleType,
    name: str,
    source: Tensor,
    weight: Tensor,
    window: Window,
    channels: tuple[int, int],
    method: str,
) -> Tensor:
    """Fills `out` with a compiled sum over taps.

    `channels` are those of the source and of the result, in one group.
    """
    number = method_number(method, CONV_METHODS)
    if not (source.numel() and weight.numel() and out.numel()):
        return out
    source, weight = source.contiguous(), weight.contiguous()
    addresses = (address(source), address(weight), address(out))
    geometry = _geometry(source.shape, out.shape, weight.shape[2:], window, channels)
    function = getattr(native, f"{name}{ring_of(source).bits}")
    function(*addresses, *geometry, number, 0, False)
    return out


def _by_gpu(
    function: Callable[..., Tensor],
    source: Tensor,
    weight: Tensor,
    shape: Sequence[int],
    window: Window,
    method: str,
) -> Tensor:
    """Returns a convolution of this shape on a GPU, or zeros where nothing is summed."""
    number = method_number(method, CONV_METHODS)
    if 0 in (*source.shape, *weight.shape, *shape):
        return source.new_zeros(tuple(shape))
    return function(source, weight, source.new_empty(tuple(shape)), window, number)


def _run(
    native: ModuleType,
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    prepared: Prepared,
    *,
    filled: bool,
) -> None:
    """Calls the compiled convolution, which encodes the weight, or if `filled` reads `prepared`."""
    assert prepared.window is not None
    shape, groups = prepared.shape, prepared.window.groups
    channels = (shape[1], shape[0] // groups)
    addresses = (address(x), address(weight), address(out))
    geometry = _geometry(x.shape, out.shape, shape[2:], prepared.window, channels)
    function = getattr(native, f"conv{ring_of(x).bits}")
    function(*addresses, *geometry, prepared.plan.method, address(prepared.data), filled)


@lru_cache(maxsize=1024)
def _geometry(
    source: Sequence[int],
    out: Sequence[int],
    kernel: Sequence[int],
    window: Window,
    channels: tuple[int, int],
) -> tuple[tuple[int, ...], ...]:
    """Returns the sizes that a compiled convolution takes."""
    return (
        (source[0], window.groups, *channels),
        _three(source[2:], 1),
        _three(out[2:], 1),
        _three(kernel, 1),
        _three(window.stride, 1),
        _three(window.padding, 0),
        _three(window.dilation, 1),
    )


def _three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """Returns spatial values for three dimensions, which is what the compiled kernels have."""
    return (fill,) * (3 - len(values)) + tuple(values)


def _unfold(x: Tensor, kernel: Sequence[int], grad: Tensor, window: Window) -> Tensor:
    """Returns a view (image, group, channel, *tap, *position) of a padded input."""
    spatial = x.stride()[3:]
    taps = [a * d for a, d in zip(spatial, window.dilation, strict=True)]
    moves = [a * s for a, s in zip(spatial, window.stride, strict=True)]
    sizes = (*x.shape[:3], *kernel, *grad.shape[2:])
    return x.as_strided(sizes, (*x.stride()[:3], *taps, *moves), x.storage_offset())


def _check_grad(expected: Sequence[int], grad: Tensor) -> None:
    if tuple(grad.shape) != tuple(expected):
        limit = f"the output has {tuple(expected)}"
        raise ConfigError(f"a gradient of shape {tuple(grad.shape)}", limit=limit)


conv1d = partial(conv, 1)
conv2d = partial(conv, 2)
conv3d = partial(conv, 3)
conv1d_grad_input = partial(conv_grad_input, 1)
conv2d_grad_input = partial(conv_grad_input, 2)
conv3d_grad_input = partial(conv_grad_input, 3)
conv1d_grad_weight = partial(conv_grad_weight, 1)
conv2d_grad_weight = partial(conv_grad_weight, 2)
conv3d_grad_weight = partial(conv_grad_weight, 3)
