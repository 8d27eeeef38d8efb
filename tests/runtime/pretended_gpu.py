"""A GPU for tests of recordings that has none: its graph is a list of what torch did on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, ClassVar

import numpy
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

import tacit
from tacit.kernels import StreamKey
from tacit.kernels.stream import IN_PLACE
from tacit.protocols import randomness
from tacit.runtime.replay import buffers, graph, recording
from tacit.tensor import SecretTensor
from tacit.tensor.trace import Trace
from tacit.transport import Barrier

PARTIES = 3


class Nothing:
    """A stream, or an event: on a CPU all is done in order."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait(self, *_: Any) -> None: ...

    def synchronize(self) -> None: ...


class Graph:
    """What all threads did while it was recorded, in that order; one at a time.

    buffers: the memory that it must find as it was, as nothing is done while a GPU's is recorded.
    """

    current: ClassVar[Graph | None] = None
    buffers: ClassVar[list[Tensor]] = []

    def capture_begin(self, **_: Any) -> None:
        self.work: list[Callable[[], Any]] = []
        self._before = [(buffer, buffer.clone()) for buffer in Graph.buffers]
        Graph.current = self

    def capture_end(self) -> None:
        Graph.current = None
        for buffer, before in self._before:
            buffer.copy_(before)

    def replay(self) -> None:
        for step in self.work:
            step()


def do(step: Callable[[], Any]) -> Any:
    """Does something now, and whenever the graph that is being recorded is started."""
    if Graph.current is not None:
        Graph.current.work.append(step)
    return step()


class Taped(TorchDispatchMode):
    """Records what torch does in a thread."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_leaves((args, kwargs or {}))
        if any(isinstance(x, SecretTensor) for x in given):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        known = {x.untyped_storage()._cdata for x in given if isinstance(x, Tensor)}
        made = [x for x in tree_leaves(result) if isinstance(x, Tensor)]

        def again() -> None:
            found = [x for x in tree_leaves(func(*args, **(kwargs or {}))) if isinstance(x, Tensor)]
            for old, new in zip(made, found, strict=True):
                if old.untyped_storage()._cdata not in known:
                    old.copy_(new)

        if Graph.current is not None:
            Graph.current.work.append(again)
        return result


def words(key: bytes | StreamKey, like: Tensor, operation: int, offset: int) -> Tensor:
    """Words that key, operation and offset give; a key on a device is read when they are made."""
    secret = key.words.numpy().tobytes() if isinstance(key, StreamKey) else key
    seed = blake2b(secret + f"{operation} {offset}".encode()).digest()
    drawn = numpy.random.Generator(numpy.random.Philox(int.from_bytes(seed[:16])))
    made = torch.from_numpy(drawn.integers(-(2**63), 2**63, -(-like.nbytes // 8)))
    return made.view(like.dtype)[: like.numel()].view(like.shape)


def stream(key: bytes | StreamKey, out: Tensor, *, operation: int, offset: int, **_: Any) -> Tensor:
    def fill() -> None:
        with _disable_current_modes():
            out.copy_(words(key, out, operation, offset))

    do(fill)
    return out


def mask(
    key: bytes | StreamKey, values: Tensor, how: str, *, operation: int, offset: int, **_: Any
) -> Tensor:
    def combine() -> None:
        with _disable_current_modes():
            IN_PLACE[how](values, words(key, values, operation, offset))

    do(combine)
    return values


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """`tacit.run`, as if all parties shared a GPU."""
    for name, thing in {
        "synchronize": lambda: None,
        "current_stream": Nothing,
        "Stream": Nothing,
        "CUDAGraph": Graph,
    }.items():
        monkeypatch.setattr(torch.cuda, name, thing)
    monkeypatch.setattr(graph, "event", Nothing)
    monkeypatch.setattr(randomness, "stream", stream)
    monkeypatch.setattr(randomness, "mask", mask)
    monkeypatch.setattr("tacit.kernels.backend.load_native", lambda: None)
    work = recording.Recording._run

    def taped(self: Any, *args: Any) -> Any:
        with Taped():
            return work(self, *args)

    monkeypatch.setattr(recording.Recording, "_run", taped)
    note, make = Trace._note, buffers.TensorBuffers.__init__
    monkeypatch.setattr(Graph, "buffers", [])

    def made(self: Any, like: Any) -> None:
        make(self, like)
        Graph.buffers.extend(self._flat.values())

    def noted(self: Any, found: list[Tensor]) -> None:
        note(self, [x for x in found if x.dtype.is_floating_point])  # the rest would be on the GPU

    monkeypatch.setattr(buffers.TensorBuffers, "__init__", made)
    monkeypatch.setattr(Trace, "_note", noted)

    def run(main: Callable[..., Any], *args: Any, **settings: Any) -> list[Any]:
        barrier = Barrier(PARTIES, seconds=30.0)

        def party(session: tacit.Session) -> Any:
            session.mesh.barrier = barrier
            return main(session, *args)

        return tacit.run(party, parties=PARTIES, **settings)

    return run
