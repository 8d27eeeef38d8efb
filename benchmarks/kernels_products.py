"""Matrix products and convolutions against torch's float64 and int64, as rates in GMAC/s.

The limit is named in int8 products: 18 of them make a 64-bit one (residues), 10 a 32-bit one
(digits), before the conversions. It depends on the processor (`LIMITS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, one_thread, rate, words

from tacit.kernels import conv2d, conv2d_grad_input, matmul, set_num_threads
from tacit.kernels.backend import features, load_native

LIMITS = {
    "AMX": (
        "limit: 18 byte products a word, 1024 a cycle by tiles: 148 GMAC/s on a Xeon of 2.6 GHz. "
        "Tiles take 1/4 of the time, turning operands into residues 1/5, turning sums back 1/7; "
        "the rest are waits for caches and memory",
        "limit: 10 byte products a word, 266 GMAC/s on the same core; digits are cheap to make",
    ),
    "VNNI": (
        "limit: 18 byte products a word, 128 a cycle: 18.5 GMAC/s on a Xeon of 2.6 GHz, where they "
        "take 2/3 of the time",
        "limit: 10 byte products a word, 33 GMAC/s on the same core; digits are cheap to make",
    ),
    "DotProd": (
        "limit: 18 byte products a word at two 16-byte dot products a cycle: 4.4 GMAC/s on a "
        "Neoverse-N1 of 2.5 GHz. 3/4 of the time goes to byte products at 0.93 of that rate, 1/8 "
        "to turning operands into residues, 1/12 to turning sums back",
        "limit: 10 byte products a word, 8 GMAC/s on the same core; digits are cheap to make",
    ),
}
WINOGRAD = (
    "limit: 4 times fewer products, by Winograd's F(4x4, 3x3). They take 2/5 of the time, turning "
    "words into residues and back 1/5, the transforms the rest. Not chosen with AVX-512, where the "
    "transforms take longer than the products: the ratio is 1 then"
)
SAVED = None if "VNNI" in features() else 1.4
INT64 = 3 if "AMX" in features() else 1.5 if "VNNI" in features() else 20  # torch has AVX-512
CONVOLUTION = "above 1: the input is encoded once and gathered, not encoded once for every tap"
POINTWISE = "rows are read in place; encoding the input is half of the time at 64 columns"
DEPTHWISE = "limit: three 32-bit products make one of 64 bits; plain loops, nothing is encoded"
THREADS = "limit: 2; blocks of rows and columns are handed out one at a time"
SMALL = "one picture: each element of the matrix is read once and multiplied once, in plain loops"


def limits() -> tuple[str, str]:
    """What bounds products of 64 and 32 bits on this processor."""
    return next((notes for name, notes in LIMITS.items() if name in features()), ("", ""))


def without_amx(call: Callable[[], object]) -> Callable[[], object]:
    """The same call by VNNI."""
    native = load_native()
    assert native is not None

    def run() -> object:
        native.use_amx(False)
        try:
            return call()
        finally:
            native.use_amx(True)

    return run


def gmac(name: str, macs: int, *args: Any, **kwargs: Any) -> Row:
    return rate(name, macs, "GMAC/s", *args, **kwargs)


def matmul_rows() -> list[Row]:
    a, b = words(512, 512), words(512, 512)
    a32, b32 = words(512, 512, dtype=torch.int32), words(512, 512, dtype=torch.int32)
    af, bf = a.double(), b.double()
    calls: dict[str, Callable[[], object]] = {
        "64 bits": lambda: matmul(a, b),
        "32 bits": lambda: matmul(a32, b32),
        "torch float64": lambda: af @ bf,
    }
    if "AMX" in features():
        calls["64 bits by VNNI"] = without_amx(lambda: matmul(a, b))
    seconds = interleaved(calls) | interleaved({"torch int64": lambda: a @ b}, repetitions=3)
    name, macs, (wide, narrow) = "matmul 512^3", 512**3, limits()
    found = [
        gmac(
            f"{name}, 64 bits", macs, seconds, ("64 bits", "torch int64"), target=INT64, note=wide
        ),
        gmac(f"{name}, 64 bits", macs, seconds, ("64 bits", "torch float64"), target=0.35),
        gmac(f"{name}, 32 bits", macs, seconds, ("32 bits", "64 bits"), target=1.7, note=narrow),
    ]
    if "AMX" in features():
        pair, note = ("64 bits", "64 bits by VNNI"), LIMITS["VNNI"][0]
        found.append(gmac(f"{name}, 64 bits", macs, seconds, pair, target=2, note=note))
    return found


def small_rows() -> list[Row]:
    a, b = words(1, 400), words(120, 400).t()
    pair = ("plain", "torch int64")
    seconds = interleaved({"plain": lambda: matmul(a, b), "torch int64": lambda: a @ b})
    return [gmac("matmul (1,400)x(400,120), 64 bits", 400 * 120, seconds, pair, note=SMALL)]


def conv_rows() -> list[Row]:
    x, weight, depthwise = words(1, 64, 56, 56), words(64, 64, 3, 3), words(64, 1, 3, 3)
    a, b = words(64, 576), words(576, 56 * 56)
    wide, wide_weight = words(1, 128, 56, 56), words(64, 128, 3, 3)
    deep, pointwise = words(1, 256, 28, 28), words(64, 256, 1, 1)
    flat, columns = words(64, 256), words(256, 28 * 28)
    xf, df = x.double(), depthwise.double()
    seconds = interleaved(
        {
            "conv": lambda: conv2d(x, weight, padding=1),
            "gathered": lambda: conv2d(x, weight, padding=1, method="encoded"),
            "wide": lambda: conv2d(wide, wide_weight, padding=1),
            "wide, gathered": lambda: conv2d(wide, wide_weight, padding=1, method="encoded"),
            "gradient": lambda: conv2d_grad_input(x.shape, weight, x, padding=1),
            "gradient, gathered": lambda: conv2d_grad_input(
                x.shape, weight, x, padding=1, method="encoded"
            ),
            "the same matmul": lambda: matmul(a, b),
            "1x1": lambda: conv2d(deep, pointwise),
            "the same 1x1 matmul": lambda: matmul(flat, columns),
            "depthwise": lambda: conv2d(x, depthwise, padding=1, groups=64),
            "torch float64 depthwise": lambda: torch.conv2d(xf, df, padding=1, groups=64),
        }
    )
    return [
        gmac(
            "conv2d (1,64,56,56)x(64,64,3,3), 64 bits",
            64 * 576 * 3136,
            seconds,
            ("conv", "gathered"),
            target=SAVED,
            note=WINOGRAD,
        ),
        gmac(
            "conv2d (1,128,56,56)x(64,128,3,3), 64 bits",
            64 * 1152 * 3136,
            seconds,
            ("wide", "wide, gathered"),
            target=SAVED,
            note=WINOGRAD,
        ),
        gmac(
            "conv2d_grad_input (1,64,56,56)x(64,64,3,3), 64 bits",
            64 * 576 * 3136,
            seconds,
            ("gradient", "gradient, gathered"),
            target=SAVED,
        ),
        gmac(
            "conv2d (1,64,56,56)x(64,64,3,3), 64 bits, gathered",
            64 * 576 * 3136,
            seconds,
            ("gathered", "the same matmul"),
            target=1 / 1.3,
            note=CONVOLUTION,
        ),
        gmac(
            "conv2d 1x1 (1,256,28,28)x(64,256,1,1), 64 bits",
            64 * 256 * 784,
            seconds,
            ("1x1", "the same 1x1 matmul"),
            note=POINTWISE,
        ),
        gmac(
            "conv2d depthwise (1,64,56,56)x(64,1,3,3), 64 bits",
            64 * 9 * 3136,
            seconds,
            ("depthwise", "torch float64 depthwise"),
            note=DEPTHWISE,
        ),
    ]


def thread_row() -> Row:
    a, b = words(1024, 1024), words(1024, 1024)

    def on(threads: int) -> Callable[[], object]:
        def run() -> object:
            set_num_threads(threads)
            return matmul(a, b)

        return run

    seconds = interleaved({"two threads": on(2), "one thread": on(1)}, repetitions=5)
    name = "matmul 1024^3, 64 bits, two threads"
    pair = ("two threads", "one thread")
    return gmac(name, 1024**3, seconds, pair, target=1.8, note=THREADS)


def rows() -> list[Row]:
    with one_thread():
        return [*matmul_rows(), *small_rows(), *conv_rows(), thread_row()]
