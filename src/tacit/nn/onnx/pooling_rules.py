"""Rules of pooling and resizing."""

from __future__ import annotations

import torch
from torch import fx
from torch.nn import functional as F

from . import onnx_functions as functions
from .operator_table import Call, Refused, converts
from .product_rules import halves

MAX_POOLS = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
AVERAGE_POOLS = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)


@converts("MaxPool")
def max_pool(call: Call) -> fx.Node:
    call.only_first_output()
    call.refuse_attribute("storage_order", 0)
    kernel, strides, dilations, pads = _window(call)
    x, rank = call.tensor(0), len(kernel)
    ceil = bool(call.attribute("ceil_mode", 0))
    symmetric = None if pads is None else halves(pads)
    if symmetric is None or any(2 * p > k for p, k in zip(symmetric, kernel, strict=True)):
        # A copy of the edge never changes the maximum of a window that has the edge in it.
        if any(one != 1 for one in dilations) or rank > 3:
            raise Refused("pads that differ by side, and dilations")
        if pads is None:
            lower = call.attribute("auto_pad", "") == "SAME_LOWER"
            x = call.emit(functions.padded_alike, x, kernel, strides, dilations, lower, "replicate")
        else:
            axes = list(range(2, 2 + rank))
            x = call.emit(functions.padded, x, pads, axes, "replicate", 0.0)
        symmetric = [0] * rank
    return call.emit(MAX_POOLS[rank - 1], x, kernel, strides, symmetric, dilations, ceil_mode=ceil)


@converts("AveragePool")
def average_pool(call: Call) -> fx.Node:
    kernel, strides, dilations, pads = _window(call)
    if any(one != 1 for one in dilations):
        raise Refused(f"dilations={dilations}")
    x, rank = call.tensor(0), len(kernel)
    ceil, whole = (bool(call.attribute(k, 0)) for k in ("ceil_mode", "count_include_pad"))
    if pads is None:
        pads = _known_pads(call, kernel, strides)
    symmetric = halves(pads)
    if symmetric is None and not whole:
        return call.emit(functions.averaged, x, kernel, strides, pads, ceil)
    if symmetric is None:
        x = call.emit(functions.padded, x, pads, list(range(2, 2 + rank)), "constant", 0.0)
        symmetric = [0] * rank
    return call.emit(AVERAGE_POOLS[rank - 1], x, kernel, strides, symmetric, ceil, whole)


def _window(call: Call) -> tuple[list[int], list[int], list[int], list[int] | None]:
    """Returns kernel, strides, dilations and pads; no pads if they follow from the input."""
    kernel = list(call.attribute("kernel_shape", []))
    rank = len(kernel)
    if not 1 <= rank <= 3:
        raise Refused(f"{rank} dimensions")
    strides = list(call.attribute("strides", [1] * rank))
    dilations = list(call.attribute("dilations", [1] * rank))
    automatic = call.attribute("auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        return kernel, strides, dilations, None
    pads = [0] * 2 * rank if automatic == "VALID" else call.attribute("pads", [0] * 2 * rank)
    return kernel, strides, dilations, list(pads)


def _known_pads(call: Call, kernel: list[int], strides: list[int]) -> list[int]:
    """Returns the pads of SAME_UPPER or SAME_LOWER for an input of known size."""
    shape = call.shape(0)
    sizes = [] if shape is None else shape[2:]
    small, large = [], []
    for size, width, stride in zip(sizes, kernel, strides, strict=False):
        if size is None:
            raise Refused("auto_pad for an input of unknown size")
        total = max((-(-size // stride) - 1) * stride + width - size, 0)
        small.append(total // 2)
        large.append(total - total // 2)
    if len(small) != len(kernel):
        raise Refused("auto_pad for an input of unknown size")
    lower = call.attribute("auto_pad", "") == "SAME_LOWER"
    return large + small if lower else small + large


@converts("GlobalAveragePool")
def global_average_pool(call: Call) -> fx.Node:
    return call.emit(torch.mean, call.tensor(0), list(range(2, call.rank())), True)


@converts("GlobalMaxPool")
def global_max_pool(call: Call) -> fx.Node:
    return call.emit(torch.amax, call.tensor(0), list(range(2, call.rank())), True)


@converts("Resize")
def resize(call: Call) -> fx.Node:
    """Nearest and linear, in the forms that torch has: whole batches and channels."""
    mode = call.attribute("mode", "nearest")
    where = call.attribute("coordinate_transformation_mode", "half_pixel")
    for name, default in (("antialias", 0), ("exclude_outside", 0)):
        call.refuse_attribute(name, default)
    call.refuse_attribute("keep_aspect_ratio_policy", "stretch")
    rank = call.rank() - 2
    if not 1 <= rank <= 3 or "axes" in call.attributes:
        raise Refused(f"{rank} dimensions" if "axes" not in call.attributes else "axes")
    options = _resize_mode(call, mode, where, rank)
    if call.has(3):
        sizes = call.integers(3)
        is_known = isinstance(sizes, list)
        options["size"] = sizes[2:] if is_known else call.emit(functions.spatial, sizes)
    else:
        scales = call.public(2, "scales")
        if not isinstance(scales, list) or scales[:2] != [1.0, 1.0]:
            raise Refused("scales of batch or channels")
        options["scale_factor"] = scales[2:]
    return call.emit(F.interpolate, call.tensor(0), **options)


def _resize_mode(call: Call, mode: str, where: str, rank: int) -> dict[str, object]:
    if mode == "nearest":
        rounding = call.attribute("nearest_mode", "round_prefer_floor")
        if (where, rounding) == ("asymmetric", "floor"):
            return {"mode": "nearest"}
        if where == "half_pixel" and rounding in ("round_prefer_floor", "round_prefer_ceil"):
            return {"mode": "nearest-exact"}
        raise Refused(f"nearest, {where}, {rounding}")
    named = {"linear": ("linear", "bilinear", "trilinear")[rank - 1], "cubic": "bicubic"}
    is_torchs = mode == "linear" or (rank == 2 and call.attribute("cubic_coeff_a", -0.75) == -0.75)
    if not is_torchs or where not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        raise Refused(f"{mode}, {where}")
    return {"mode": named[mode], "align_corners": where == "align_corners"}
