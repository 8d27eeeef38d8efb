"""`tacit.run` on a GPU that is pretended: everything but the kernels is what a GPU runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from tests.runtime import pretended_device as gpu
from tests.runtime.pretended_device import DeviceTensor
from torch import Tensor

import tacit
from tacit.fixedpoint import symbolic
from tacit.kernels import StreamKey, backend, powers_of_two, waves
from tacit.kernels.launches import launch_observer
from tacit.kernels.stream import IN_PLACE
from tacit.kernels.written_arguments import written_addresses
from tacit.protocols import public_operands, randomness
from tacit.protocols.masked import saturation
from tacit.runtime.launch import threads
from tacit.runtime.replay import (
    device_memory,
    merged_segments,
    optimizer_steps,
    plan_observer,
    plan_recorder,
    repeated,
    segment_capture,
    segment_recording,
    segment_rounds,
    segments,
)
from tacit.runtime.replay.plan_recorder import BY_SHAPE
from tacit.runtime.replay.segment_recording import SegmentRecording
from tacit.transport import NO_LOCK, device_copies, devices

PARTIES = 3
MEMORY_BYTES = 1 << 30
KERNELS = [
    module
    for name, module in sys.modules.items()
    if name.startswith("tacit.kernels.") and hasattr(module, "native_for") and module is not backend
]


def words(key: bytes | Tensor, like: Tensor, operation: int, offset: int) -> Tensor:
    """Words that key, operation and offset give; a key on a device is read when they are made."""
    secret = key if isinstance(key, bytes) else key.numpy().tobytes()
    seed = blake2b(secret + f"{operation} {offset}".encode()).digest()
    drawn = numpy.random.Generator(numpy.random.Philox(int.from_bytes(seed[:16])))
    made = torch.from_numpy(drawn.integers(-(2**63), 2**63, -(-like.nbytes // 8)))
    return made.view(like.dtype)[: like.numel()].view(like.shape)


def fill(key: bytes | Tensor, out: Tensor, operation: int, offset: int) -> None:
    out.copy_(words(key, out, operation, offset))


def combine(key: bytes | Tensor, values: Tensor, how: str, operation: int, offset: int) -> None:
    IN_PLACE[how](values, words(key, values, operation, offset))


def in_memory(key: bytes | StreamKey) -> bytes | Tensor:
    return key.words if isinstance(key, StreamKey) else key


def stream(key: bytes | StreamKey, out: Tensor, *, operation: int, offset: int, **_: Any) -> Tensor:
    gpu.kernel(fill, in_memory(key), out, operation, offset, written=[out])
    return out


def streams(
    keys: Sequence[bytes | StreamKey],
    out: Tensor,
    sizes: Sequence[int],
    *,
    operation: int,
    offsets: Sequence[int],
    **_: Any,
) -> Tensor:
    pieces = out.view(-1).view(torch.int64).split([size // 8 for size in sizes])
    for key, piece, offset in zip(keys, pieces, offsets, strict=True):
        stream(key, piece, operation=operation, offset=offset)
    return out


def mask(
    key: bytes | StreamKey, values: Tensor, how: str, *, operation: int, offset: int, **_: Any
) -> Tensor:
    gpu.kernel(combine, in_memory(key), values, how, operation, offset, written=[values])
    return values


class DeviceKernels:
    """The compiled kernels as those of the device: on its memory, and part of captured graphs."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(backend.compiled(), name)
        if name in BY_SHAPE or not callable(function):
            return function
        return partial(launch, function)


def launch(function: Any, *args: Any) -> None:
    """Launches a compiled kernel, whose addresses are those of tensors of the device."""
    found = written_addresses(function.__name__, args)
    assert found is not None
    written = [x.of for x in found if isinstance(x, gpu.Address)]
    is_complete = len(written) == len([x for x in found if x])
    assert is_complete or launch_observer() is None, "a graph would write memory of the host"
    tensors = gpu.mapped(lambda x: x.of, args, gpu.Address)
    gpu.kernel(partial(at_addresses, function), *tensors, written=written)


def at_addresses(function: Any, *args: Any) -> None:
    """Calls a compiled kernel with the addresses of tensors."""
    function(*gpu.mapped(lambda x: x.data_ptr(), args, Tensor))


class TritonKernels:
    """What on a CPU is many operations of torch: one launch each, as on a GPU."""

    @staticmethod
    def deal_waves(
        v: Tensor,
        pad: Tensor,
        factor: Tensor | None,
        period_bits: int,
        fraction_bits: int,
        **_: Any,
    ) -> Tensor:
        bits = {"period_bits": period_bits, "fraction_bits": fraction_bits}
        work = lambda v, pad, factor: waves.deal_waves(v, pad, factor=factor, **bits)  # noqa: E731
        gpu.kernel(work, v, pad, factor, written=[pad])
        return pad

    @staticmethod
    def add_wave_sum(
        out: Tensor,
        m: Tensor,
        dealt: Tensor,
        sines: Sequence[float],
        cosines: Sequence[float],
        period_bits: int,
        fraction_bits: int,
        **_: Any,
    ) -> Tensor:
        settings = {"sines": sines, "cosines": cosines, "period_bits": period_bits}
        work = partial(waves.add_wave_sum, **settings, fraction_bits=fraction_bits)
        gpu.kernel(work, out, m, dealt, written=[out])
        return out

    @staticmethod
    def deal_powers(
        v: Tensor, pad: Tensor, bits: int, step: int, table_bits: int, _last: int
    ) -> Tensor:
        work = partial(powers_of_two.deal_powers, bits=bits, step=step, table_bits=table_bits)
        gpu.kernel(work, v, pad, written=[pad])
        return pad

    @staticmethod
    def add_power(
        out: Tensor, m: Tensor, table: Tensor, bits: int, step: int, public_bits: int
    ) -> Tensor:
        work = partial(powers_of_two.add_power, bits=bits, step=step, public_bits=public_bits)
        gpu.kernel(work, out, m, table, written=[out])
        return out


def triton_for(*tensors: Tensor) -> type[TritonKernels] | None:
    """The kernels above if all tensors are on the device."""
    return TritonKernels if all(isinstance(x, DeviceTensor) for x in tensors) else None


def native_for(*tensors: Tensor) -> Any:
    """The kernels of the device if all tensors are there, else those that there are."""
    if tensors and all(isinstance(x, DeviceTensor) for x in tensors):
        return DeviceKernels()
    return backend.native_for(*tensors)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """`tacit.run`, as if all parties shared a GPU."""
    pretend(monkeypatch)
    return partial(tacit.run, parties=PARTIES, device="cuda")


@pytest.fixture
def pretended_own(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """`tacit.run`, as if each party had a GPU of its own; what is sent is copied."""
    pretend(monkeypatch)
    monkeypatch.setattr(repeated, "own_kind", lambda _: SegmentRecording)
    monkeypatch.setattr(threads, "_is_one_gpu", lambda _: False)
    monkeypatch.setattr(threads, "_interpreter_lock", lambda _: NO_LOCK)
    return partial(tacit.run, parties=PARTIES, device="cuda")


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets torch.cuda be the pretended device, whose kernels are the references."""
    gpu.reset()
    for name, thing in {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "mem_get_info": lambda: (MEMORY_BYTES, MEMORY_BYTES),
        "get_device_properties": lambda _: SimpleNamespace(total_memory=MEMORY_BYTES),
        "synchronize": lambda *_: gpu.current_stream().synchronize(),
        "current_stream": gpu.current_stream,
        "stream": gpu.stream_selected,
        "device": nullcontext,
        "is_current_stream_capturing": lambda: gpu.current_stream().graph is not None,
        "Stream": gpu.Stream,
        "Event": gpu.Event,
        "CUDAGraph": gpu.Graph,
    }.items():
        monkeypatch.setattr(torch.cuda, name, as_torchs(thing))
    number = lambda _: gpu.current_stream().cuda_stream  # noqa: E731
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", number, raising=False)
    accelerator = torch.accelerator
    monkeypatch.setattr(accelerator, "current_accelerator", as_torchs(lambda **_: gpu.DEVICE))
    monkeypatch.setattr(accelerator, "current_stream", gpu.current_stream)
    for module in (
        symbolic,
        merged_segments,
        segment_capture,
        segment_recording,
        segment_rounds,
        segments,
        public_operands,
        optimizer_steps,
        plan_observer,
        plan_recorder,
        devices,
        device_copies,
    ):
        monkeypatch.setattr(module, "_disable_current_modes", gpu.no_other_modes)
    monkeypatch.setattr(torch, "tensor", as_torchs(gpu.tensor))
    monkeypatch.setattr(device_memory, "tensor_of", gpu.tensor_of)
    patterns = saturation._patterns.__wrapped__.__wrapped__  # without its cache, and with modes
    monkeypatch.setattr(saturation, "_patterns", lru_cache(gpu.no_other_modes()(patterns)))
    for name, kernel in {"stream": stream, "streams": streams, "mask": mask}.items():
        monkeypatch.setattr(randomness, name, kernel)
    monkeypatch.setattr(backend, "load_gpu", lambda: None)
    for module in KERNELS:
        monkeypatch.setattr(module, "native_for", native_for)
    for module in (powers_of_two, waves):
        monkeypatch.setattr(module, "gpu_for", triton_for)


def as_torchs(thing: Any) -> Any:
    """Returns a function or class of the pretended device as one of torch: nobody looks into it."""
    if thing.__module__.startswith("tests."):
        thing.__module__ = torch.__name__
    return thing


def insecure_fixed_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mask is zero: divisions round down always, whatever keys a session has."""
    monkeypatch.setattr(randomness, "mask", lambda key, values, how, **_: values)

    def zeros(key: Any, out: Tensor, *_: Any, **__: Any) -> Tensor:
        gpu.kernel(Tensor.zero_, out, written=[out])
        return out

    monkeypatch.setattr(randomness, "stream", zeros)
    monkeypatch.setattr(randomness, "streams", zeros)
