"""Ring products on a GPU against its own byte products, other kernels against its memory.

The limit of a product is the rate of `torch._int_mm`, divided by the number of moduli: 18 for 64
bits, 10 for 32. That of the others is a copy, whose bytes are counted as it reads and writes them.
What is timed is compared with the CPU's kernels first, a slice of it where it is large. Where there
is no GPU nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from statistics import median

import torch
from benchmarks.measure import Row, rate, words
from torch import Tensor

from tacit import kernels
from tacit.ring import Window

Calls = dict[str, Callable[[], object]]
ROUNDS = 7
COUNT = 1 << 22  # elements of the elementwise cases
DIGITS, NODES = (4,) * 16, (4,) * 4
LAYERS = (  # name, channels, size, outputs, kernel, stride
    ("ResNet-50 stem", 3, 224, 64, 7, 2),
    ("ResNet-50 3x3, 56", 64, 56, 64, 3, 1),
    ("ResNet-50 1x1, 28", 512, 28, 128, 1, 1),
    ("ResNet-50 3x3, 14", 256, 14, 256, 3, 1),
    ("ResNet-50 3x3, 7", 512, 7, 512, 3, 1),
    ("VGG-16 3x3, 224", 64, 224, 64, 3, 1),
    ("VGG-16 3x3, 28", 512, 28, 512, 3, 1),
)


def there(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return words(*shape, dtype=dtype).cuda()


@cache
def key_on(device: torch.device) -> kernels.StreamKey:
    return kernels.stream_key(bytes(range(32)), device)


def timed(calls: Calls) -> dict[str, float]:
    """The median seconds of each call, by the device's clock; calls take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(ROUNDS + 1):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            repeats = 1 if number == 0 else 4
            begin.record()
            for _ in range(repeats):
                call()
            end.record()
            end.synchronize()
            if number:
                seconds[name].append(begin.elapsed_time(end) / 1e3 / repeats)
    return {name: median(values) for name, values in seconds.items()}


def same(name: str, found: Tensor, expected: Tensor) -> None:
    if not torch.equal(found.cpu(), expected):
        raise AssertionError(f"{name}: not exact")


def byte_products(m: int, k: int, n: int, count: int) -> Callable[[], object]:
    """So many products of bytes by torch, the right one column-major."""
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8, device="cuda")
    b = torch.randint(-128, 128, (n, k), dtype=torch.int8, device="cuda").t()
    return lambda: [torch._int_mm(a, b) for _ in range(count)]


def matmul_rows() -> list[Row]:
    rows = []
    for size, dtype in (
        (1024, torch.int64),
        (4096, torch.int64),
        (8192, torch.int64),
        (4096, torch.int32),
    ):
        bits, count = (64, 18) if dtype == torch.int64 else (32, 10)
        name = f"matmul {size}^3, {bits} bits"
        a, b = there(size, size, dtype=dtype), there(size, size, dtype=dtype)
        same(name, kernels.matmul(a, b)[:16], kernels.matmul(a[:16].cpu(), b.cpu()))
        made = kernels.prepare_matmul(b, kernels.plan_matmul(size, b.shape, b))
        same(name, kernels.matmul(a, made)[-1:], kernels.matmul(a[-1:].cpu(), b.cpu()))
        limit = f"{count} byte products"
        calls: Calls = {
            "ours": lambda a=a, b=b: kernels.matmul(a, b),
            "prepared": lambda a=a, made=made: kernels.matmul(a, made),
            limit: byte_products(size, size, size, count),
        }
        seconds, macs = timed(calls), size**3 / 1e3
        rows.append(rate(name, macs, "TMAC/s", seconds, ("ours", limit), target=0.7))
        rows.append(rate(f"{name}, prepared", macs, "TMAC/s", seconds, ("prepared", limit)))
        torch.cuda.empty_cache()
    return rows


def conv_rows(batch: int) -> list[Row]:
    """Convolutions with a kept weight, beside byte products of the same sizes."""
    rows = []
    for name, channels, size, outputs, kernel, stride in LAYERS:
        x, weight = there(batch, channels, size, size), there(outputs, channels, kernel, kernel)
        window = Window.make(2, stride, kernel // 2)
        plan = kernels.plan_conv(x.shape, weight.shape, window, weight)
        made = kernels.prepare_conv(weight, window, plan)
        out = kernels.conv2d(x, made, stride=stride, padding=kernel // 2)
        near = {"stride": stride, "padding": kernel // 2}
        same(name, out[:1], kernels.conv2d(x[:1].cpu(), weight.cpu(), **near))
        positions, inner = out.numel() // outputs, -(-channels * kernel**2 // 8) * 8
        calls: Calls = {
            "ours": lambda x=x, made=made, near=near: kernels.conv2d(x, made, **near),
            "18 byte products": byte_products(max(positions, 17), inner, outputs, 18),
        }
        seconds, macs = timed(calls), positions * outputs * channels * kernel**2 / 1e3
        title = f"conv2d {name}, batch {batch}"
        rows.append(rate(title, macs, "TMAC/s", seconds, ("ours", "18 byte products")))
    return rows


def memory_cases() -> list[tuple[str, int, Callable[..., Tensor], list[Tensor]]]:
    """What each case moves at least, in bytes, and how it is called with tensors that it reads."""
    num_words, digits = COUNT // 64, len(DIGITS)
    x = words(COUNT)
    u = words(sum(DIGITS), num_words)
    tables, pairs = words(kernels.num_table_rows(DIGITS), num_words), words(31, num_words)
    hats, shares, nodes = words(31, num_words), words(31, num_words), words(7, num_words)
    products = words(kernels.num_products(NODES), num_words)
    bits, wide = words(num_words), [words(COUNT) for _ in range(5)]

    def stream(out: Tensor) -> Tensor:
        return kernels.stream(key_on(out.device), out, operation=1, cipher="chacha20")

    def carries(u: Tensor, tables: Tensor, mask: Tensor) -> Tensor:
        return kernels.leaf_carries(u, tables, DIGITS, mask, first=True)

    def node(hats: Tensor, shares: Tensor, products: Tensor, mask: Tensor) -> Tensor:
        return kernels.node_carries(hats, shares, products, NODES, mask, first=True)

    def inject(bits: Tensor, *rest: Tensor) -> Tensor:
        return kernels.inject_share(bits, *rest[:4], first=True, out=rest[4])

    def size(*tensors: Tensor) -> int:
        return sum(tensor.nbytes for tensor in tensors)

    leaves, inputs = [u, tables, pairs], [hats, shares, products, nodes]
    assert digits * 2 - 1 == pairs.shape[0]
    return [
        ("stream chacha20", x.nbytes, stream, [x]),
        ("bit_planes", 2 * x.nbytes, lambda x: kernels.bit_planes(x, 64), [x]),
        ("leaf_carries", size(*leaves, pairs), carries, leaves),
        ("node_carries", size(*inputs, nodes), node, inputs),
        ("inject_share", size(bits, *wide, wide[0]), inject, [bits, *wide]),
    ]


def memory_rows() -> list[Row]:
    source = there(COUNT * 4)
    target = torch.empty_like(source)
    rows = []
    for name, num_bytes, function, tensors in memory_cases():
        on_gpu = [tensor.cuda() for tensor in tensors]
        same(name, function(*on_gpu), function(*(tensor.clone() for tensor in tensors)))
        calls: Calls = {
            "ours": lambda function=function, on_gpu=on_gpu: function(*on_gpu),
            "copy": lambda: target.copy_(source),
        }
        seconds = timed(calls)
        seconds["copy"] *= num_bytes / (2 * source.nbytes)
        title = f"{name}, 2^22 elements"
        goal = None if "chacha" in name else 0.5  # it is bound by arithmetic: 15 operations a byte
        rows.append(rate(title, num_bytes, "GB/s", seconds, ("ours", "copy"), target=goal))
    return rows


def mask_row() -> Row:
    """Masks that are subtracted as they are made, beside writing them first."""
    values, key = words(COUNT), bytes(range(32))
    how = {"operation": 1, "cipher": "chacha20"}
    expected = values - kernels.stream(key, torch.empty_like(values), **how)
    found, ready = values.cuda(), key_on(torch.device("cuda", torch.cuda.current_device()))
    same("mask", kernels.mask(ready, found, "sub", **how), expected)

    def apart() -> None:
        made = torch.empty_like(found)
        found.sub_(kernels.stream(ready, made, **how))

    calls: Calls = {"ours": lambda: kernels.mask(ready, found, "sub", **how), "apart": apart}
    seconds, title = timed(calls), "mask chacha20, 2^22 elements"
    return rate(title, values.nbytes, "GB/s", seconds, ("ours", "apart"), target=1.0)


def rows() -> list[Row]:
    if not torch.cuda.is_available():
        print("gpu_kernels: no GPU here, nothing is measured")
        return []
    print(f"gpu_kernels: {torch.cuda.get_device_name()}")
    return [*matmul_rows(), *conv_rows(1), *conv_rows(8), *memory_rows(), mask_row()]
