"""Compiles the kernels for GPUs on a machine without one: run as a program, without interpreter.

Host functions run on small CPU tensors as usual, but a launch only compiles, to machine code for an
H100 or H200. Prints the name of each kernel that was compiled.
"""

from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from tacit import kernels
from tacit.kernels import conv, powers_of_two, waves
from tacit.kernels.gpu import jit

TARGET = GPUTarget("cuda", 90, 32)
POINTERS = {
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.uint8: "*u8",
    torch.int8: "*i8",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}


def compile_only(function: JITFunction, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
    """Takes the place of a launch by Triton."""
    values = dict(zip(function.arg_names, args, strict=False))
    values |= {name: value for name, value in named.items() if name in function.arg_names}
    constants = {p.name: values[p.name] for p in function.params if p.is_constexpr}
    signature = {p.name: _kind(p, values[p.name]) for p in function.params}
    options = {name: value for name, value in named.items() if name not in function.arg_names}
    source = ASTSource(function, signature=signature, constexprs=constants)
    compiled = triton.compile(source, target=TARGET, options=options)
    if "fma.rn.f64" in compiled.asm["ptx"]:
        raise SystemExit(f"{function.__name__} rounds a product and a sum of float64 once")
    print(function.__name__)
    return SimpleNamespace(run=None, function=None, packed_metadata=None)


def _kind(parameter: Any, value: Any) -> str:
    if parameter.is_constexpr:
        return "constexpr"
    return (
        POINTERS[value.dtype]
        if isinstance(value, torch.Tensor)
        else (parameter.annotation_type or "i32")
    )


def words(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def call_products() -> None:
    kernels.matmul(words(2, 5), words(5, 40))
    kernels.matmul(words(20, 5), words(5, 40))
    for channels, window in ((3, {"padding": 1}), (33, {"stride": 2})):
        x, weight = words(1, channels, 5, 5), words(6, channels, 3, 3)
        out = conv.conv(2, x, weight, **window)
        conv.conv_grad_input(2, x.shape, weight, out, **window)
        conv.conv_grad_weight(2, x, weight.shape, out, **window)
    kernels.conv2d(words(1, 3, 5, 5), words(3, 1, 3, 3), groups=3)


def call_planes() -> None:
    bits = kernels.pack_bits(words(70))
    kernels.unpack_bits(bits, (70,), torch.uint8)
    kernels.from_bit_planes(kernels.bit_planes(words(70), 9), (70,), torch.int64)
    kernels.popcount(bits)
    kernels.parity(bits)


def call_streams() -> None:
    key = kernels.stream_key(bytes(32), torch.device("cpu"))
    kernels.stream(key, words(70), operation=1, cipher="chacha20")
    kernels.streams([key] * 2, words(16), (64, 64), operation=1, offsets=(0, 0), cipher="chacha20")
    kernels.mask(key, words(70), "add", operation=1, cipher="chacha20")
    kernels.add_checksum(words(8192), key, words(70), words(2), operation=1, cipher="chacha20")


def call_leaves() -> None:
    digits, rows, w = (4, 3), 22, 2
    kernels.leaf_tables(words(7, w), digits, words(rows, w))
    kernels.leaf_carries(words(7, w), words(rows, w), digits, words(3, w), first=True)


def call_gates() -> None:
    for sizes in ((3, 2), (9, 2)):
        dealt, ands = kernels.num_products(sizes), kernels.num_and_products(sizes)
        inputs, state, w = sum(sizes), 2 * sum(sizes) - 1, 2
        hats, shares = words(state, w), words(state, w)
        kernels.node_products(hats, sizes, words(dealt, w))
        kernels.node_carries(hats, shares, words(dealt, w), sizes, words(3, w), first=True)
        kernels.and_products(hats[:inputs], sizes, words(ands, w))
        of_gates = hats[:inputs], shares[:inputs], words(ands, w)
        kernels.and_gates(*of_gates, sizes, words(2, w), first=True)


def call_injection() -> None:
    bits, values = words(2), [words(70) for _ in range(7)]
    kernels.inject_share(bits, *values[:4], first=True, out=values[4])
    kernels.flip_share(bits, values[0], first=True, out=values[1])
    kernels.deal_flip(bits, values[0])
    kernels.deal_injection(bits, *values[:3])
    kernels.exact_share(*values[:3], 9, first=True, out=values[3])
    kernels.deal_exact(values[0], 9)
    kernels.inject_exact_share(bits, *values[:6], 9, first=True, out=values[6])
    kernels.deal_inject_exact(bits, values[0], 9)
    kernels.correct_inject_exact(bits, values[0], 9, values[1:6])


def call_floats() -> None:
    options = {"period_bits": 20, "fraction_bits": 30}
    for size in (70, waves.AT_ONCE):
        v, pad = words(size), words(3, 4, size)
        waves.deal_waves(v, pad, **options, factor=v)
        factors = {"sines": (0.5, 0.25, 1.0), "cosines": (1.0, 0.0, 2.0)}
        waves.add_wave_sum(words(size), v, words(3, 2, size), **options, **factors)
    table = powers_of_two.deal_powers(v, words(16, *v.shape), bits=40, step=2, table_bits=28)
    powers_of_two.add_power(words(*v.shape), v, table, bits=40, step=2, public_bits=30)


if __name__ == "__main__":
    JITFunction.run = compile_only
    jit._queue = lambda *_: None  # a kernel that was compiled before is not started
    products = call_products, call_planes, call_streams
    for call in (*products, call_leaves, call_gates, call_injection, call_floats):
        call()
