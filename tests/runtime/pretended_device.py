"""A device for tests on machines without a GPU, as strict as CUDA is while a graph is captured.

Its tensors have memory of their own, and meet those of the host by copies only. While a graph is
captured nothing is computed: results hold nonsense until the graph is started. What CUDA refuses in
a capture is refused here: copies from and to memory of the host that is not pinned, reads by the
host, and waiting for work outside of the graph. Work is done at once and in order.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from tests.runtime.pretended_memory import DeviceMemory, Place, Pool
from torch import Tensor
from torch._C import _disabled_torch_function_impl
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tacit.kernels.launches import launch_observer
from tacit.tensor import SecretTensor

aten = torch.ops.aten
DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
NONSENSE = 77
READING = (aten._local_scalar_dense, aten.equal, aten.is_nonzero, aten.nonzero)
CONVERTING = (aten.to, aten._to_copy)
INDEXING = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_)
HOST_COPY = "Cannot copy between CPU and CUDA tensors during CUDA graph capture"


class Memory:
    """Where a tensor lies; torch takes `storage`, which has no memory, for the memory of views.

    The block is free when nobody holds the storage.
    """

    def __init__(self, num_bytes: int) -> None:
        self.storage = torch.empty(num_bytes, dtype=torch.uint8, device="meta").untyped_storage()
        self.storage.block = state.memory.block(num_bytes, *current_stream().pool())

    @property
    def place(self) -> Place:
        """The bytes themselves."""
        place: Place = self.storage.block.place
        return place

    @property
    def bytes(self) -> Tensor:
        """The numbers."""
        return self.place.bytes(self.storage.nbytes())

    @classmethod
    def of(cls, storage: Any) -> Memory:
        """The memory that a storage stands for."""
        memory = cls.__new__(cls)
        memory.storage = storage
        return memory


class State(NamedTuple):
    """What the device has. pinned: the storages of pinned memory, which keep their identity."""

    memory: DeviceMemory
    pinned: dict[int, StorageWeakRef]


state = State(DeviceMemory(), {})


def reset() -> None:
    """Lets the device have new memory; what is left of a test before keeps its own."""
    global state
    state = State(DeviceMemory(), {})


def is_pinned(x: Tensor) -> bool:
    """Whether a tensor of the host lies in pinned memory."""
    return x.untyped_storage()._cdata in state.pinned


class Address(int):
    """The address of a tensor on the device, for kernels."""

    of: DeviceTensor


class DeviceTensor(Tensor):
    """A tensor on the pretended device; `held` has its numbers."""

    held: Tensor
    memory: Memory
    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]
    device = DEVICE  # type: ignore[assignment]
    is_cuda, is_cpu, is_meta = True, False, False  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: Tensor, memory: Memory | None = None) -> DeviceTensor:
        """held: numbers in the memory, or a tensor of the host to be copied to new memory."""
        with _disable_current_modes():
            if memory is None:
                memory = Memory(held.untyped_storage().nbytes())
                held = copied(held, memory)
            return cls.within(held, memory)

    @classmethod
    def within(cls, held: Tensor, memory: Memory) -> DeviceTensor:
        """The same for numbers in the memory, where no mode of torch is left to be disabled."""
        start = memory.place.start // held.itemsize
        place = held.storage_offset() - start, held.shape, held.stride()
        like = torch.empty(0, dtype=held.dtype, device="meta").set_(memory.storage, *place)
        made: DeviceTensor = Tensor._make_subclass(cls, like)
        made.held, made.memory = held, memory
        return made

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """As of every tensor: itself if nothing changes. torch itself takes it for one of meta."""
        given = [*args, *kwargs.values()]
        devices = [torch.device(x) for x in given if isinstance(x, torch.device | str)]
        others = [x for x in given if isinstance(x, Tensor)]
        dtypes = [x for x in given if isinstance(x, torch.dtype)] + [x.dtype for x in others]
        devices += [x.device for x in others]
        dtype, device = (*dtypes, self.dtype)[0], (*devices, DEVICE)[0]
        if (dtype, device.type) == (self.dtype, DEVICE.type):
            return self
        made: Tensor = aten._to_copy.default(self, dtype=dtype, device=device)
        return made

    def data_ptr(self) -> int:
        """The address of its numbers, for kernels."""
        address = Address(self.held.data_ptr())
        address.of = self
        return address

    def record_stream(self, s: Any) -> None:
        """Does nothing: memory is freed when nobody refers to it."""

    def cpu(self, *args: Any, **kwargs: Any) -> Tensor:
        """A copy in memory of the host."""
        return self.to(CPU)

    @classmethod
    def __torch_dispatch__(
        cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return run(func, args, kwargs or {})


class Placing(TorchDispatchMode):
    """Lets torch's functions make tensors on the device, and pinned ones."""

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        given = _tensors((args, kwargs))
        if any(isinstance(x, SecretTensor) for x in given):
            return NotImplemented  # its rules make tensors, too
        is_pinned = kwargs.pop("pin_memory", False)
        if _device(kwargs) == DEVICE.type or any(isinstance(x, DeviceTensor) for x in given):
            return run(func, args, kwargs)
        made = func(*args, **kwargs)
        if is_pinned:
            with _disable_current_modes():
                made = state.memory.empty_pinned(made)
                storage = made.untyped_storage()
                state.pinned[storage._cdata] = StorageWeakRef(storage)
        return made


_tensor = torch.tensor


def tensor(data: Any, *, device: Any = None, **settings: Any) -> Tensor:
    """As `torch.tensor`, which shows no mode that it copies to a device."""
    made = _tensor(data, **settings)
    if device is None or torch.device(device).type != DEVICE.type:
        return made
    if current_stream().graph is not None:
        raise RuntimeError(HOST_COPY)
    return DeviceTensor(made)


@contextmanager
def no_other_modes() -> Iterator[None]:
    """As torch's `_disable_current_modes`, but tensors can still be made on the device."""
    with _disable_current_modes(), Placing():
        yield


def run(func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
    """Does an operation on the device, or adds it to the graph that is being captured."""
    graph, packet = current_stream().graph, func.overloadpacket
    tensors = _tensors((args, kwargs))
    given = [x for x in tensors if isinstance(x, DeviceTensor)]
    _check_host([x for x in tensors if not isinstance(x, DeviceTensor)], packet, kwargs, graph)

    def held(x: Tensor) -> Tensor:
        if isinstance(x, DeviceTensor):
            return x.held
        # A number of the host becomes an argument of the kernel.
        return state.memory.alias(x) if packet is aten.copy_ else x.clone()

    if packet is aten.as_strided and len(args) > 3:  # counted from the start of the memory
        args = (*args[:3], args[3] + args[0].memory.place.start // args[0].itemsize)
    held_args, held_kwargs = _mapped(held, args), _mapped(held, kwargs)
    if "device" in held_kwargs:
        held_kwargs = {**held_kwargs, "device": CPU}

    def work() -> Any:
        made = func(*held_args, **held_kwargs)
        return made.clone() if packet is aten.to else made  # from one memory to the other

    if _device(kwargs) not in (None, DEVICE.type):
        return work()
    if func._schema.is_mutable:
        if graph is None:
            work()
        else:
            graph.work.append(work)
        return _written(func, args, kwargs)
    if graph is None:
        return _placed(work(), given)
    try:
        made = work()
    except (IndexError, RuntimeError):  # nonsense is no index; a result of the same form
        made = func(*_mapped(_zeros, held_args), **_mapped(_zeros, held_kwargs))
    placed = _placed(made, given)
    old = {x.memory.storage._cdata for x in given}
    new = [x.held for x in _tensors(placed) if x.memory.storage._cdata not in old]
    for x in new:
        x.fill_(NONSENSE)
    if new:
        places = _mapped(lambda x: x.held, placed)
        graph.work.append(lambda: _copy_all(places, work()))
    return placed


def _zeros(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else torch.zeros_like(x)


def _check_host(
    host: list[Tensor], packet: Any, kwargs: dict[str, Any], graph: Graph | None
) -> None:
    """Raises as CUDA does if an operation on the device must not have such tensors of the host."""
    if graph is not None and packet in READING:
        raise RuntimeError("operation not permitted when stream is capturing")
    if packet in (aten.copy_, *CONVERTING):
        unpinned = [x for x in host if not is_pinned(x)]
        goes_down = packet in CONVERTING and _device(kwargs) == "cpu"
        if graph is not None and (unpinned or goes_down):
            raise RuntimeError(HOST_COPY)
    elif any(x.dim() for x in host):
        if packet not in INDEXING:
            raise RuntimeError(f"{packet}: all tensors must be on the same device")
        if graph is not None:
            raise RuntimeError(HOST_COPY)


def _placed(made: Any, given: list[DeviceTensor]) -> Any:
    """Results on the device: views of what is given, and new memory."""
    known = {id(x.held): x for x in given}
    new: dict[int, Memory] = {}

    def place(x: Tensor) -> Tensor:
        if id(x) in known:
            return known[id(x)]
        if (memory := _memory_of(x, given)) is not None:
            return DeviceTensor.within(x, memory)
        storage = x.untyped_storage()
        if storage._cdata not in new:
            new[storage._cdata] = Memory(storage.nbytes())
        return DeviceTensor.within(copied(x, new[storage._cdata]), new[storage._cdata])

    with _disable_current_modes():
        return _mapped(place, made)


def _memory_of(view: Tensor, given: list[DeviceTensor]) -> Memory | None:
    """The memory of those tensors that another one is a view of, if it is."""
    slab = view.untyped_storage()._cdata
    found = {
        x.memory.storage._cdata: x.memory for x in given if x.held.untyped_storage()._cdata == slab
    }
    start = view.storage_offset() * view.itemsize
    for memory in found.values():
        if len(found) == 1 or 0 <= start - memory.place.start < memory.place.size:
            return memory
    return None


def copied(x: Tensor, memory: Memory) -> Tensor:
    """The numbers of a tensor of the host in memory of the device, which the result does not hold.

    The tensor's whole memory is copied, as others may be views of it.
    """
    source = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
    memory.bytes.copy_(source)
    start = memory.place.start // x.itemsize + x.storage_offset()
    return memory.place.slab.view(x.dtype).as_strided(x.shape, x.stride(), start)


def _written(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """What an operation that writes to its arguments returns: those."""
    written = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append(kwargs.get(argument.name, args[place] if place < len(args) else None))
    if not func._schema.returns:
        return None
    return written[0] if len(func._schema.returns) == 1 else tuple(written)


def _copy_all(old: Any, new: Any) -> None:
    for a, b in zip(_tensors(old), _tensors(new), strict=True):
        a.copy_(b)


def _device(kwargs: dict[str, Any]) -> str | None:
    device = kwargs.get("device")
    return None if device is None else torch.device(device).type


def mapped(function: Callable[[Any], Any], x: Any, kind: type) -> Any:
    """A nest of arguments with other things of a kind; torch's own functions for that take long."""
    if isinstance(x, kind):
        return function(x)
    if isinstance(x, list | tuple):
        return type(x)([mapped(function, one, kind) for one in x])
    if isinstance(x, dict):
        return {name: mapped(function, one, kind) for name, one in x.items()}
    return x


def _mapped(function: Callable[[Tensor], Tensor], x: Any) -> Any:
    return mapped(function, x, Tensor)


def _tensors(x: Any) -> list[Tensor]:
    found: list[Tensor] = []
    _mapped(lambda one: found.append(one) or one, x)
    return found


# Streams, events and graphs, as torch.cuda has them -----------------------------------------------


class Stream:
    """A queue of work, which is done at once. graph: what its work becomes a part of, if any."""

    count = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        Stream.count += 1  # not an iterator: functions that reach one are not recorded
        self.cuda_stream, self.device = Stream.count, DEVICE
        self.graph: Graph | None = None

    def synchronize(self) -> None:
        """Waits for all work, which a capture does not allow."""
        if self.graph is not None:
            raise RuntimeError("operation not permitted when stream is capturing")

    def is_capturing(self) -> bool:
        return self.graph is not None

    def pool(self) -> tuple[Pool, int]:
        """Where its tensors get their memory, and the number of the stream."""
        shared = state.memory.shared
        return (shared if self.graph is None else self.graph.pool()), self.cuda_stream


class Event:
    """A place in the work of a stream. A stream that waits for a captured one is captured, too."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._graph: Graph | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._graph = (stream or current_stream()).graph

    def wait(self, stream: Stream | None = None) -> None:
        stream = stream or current_stream()
        if stream.graph is not None and self._graph is not stream.graph:
            raise RuntimeError("dependency created on uncaptured work in another stream")
        if self._graph is not None and self._graph.is_open and stream.graph is None:
            self._graph.join(stream)

    def synchronize(self) -> None:
        if self._graph is not None and self._graph.is_open:
            raise RuntimeError("operation not permitted on an event last recorded in a capture")

    def query(self) -> bool:
        return True


class CompiledGraph:
    """What torch has in C++: the work of all streams that were captured, on addresses that it has.

    It keeps the memory of its pool apart, and holds no other.
    """

    def __init__(self) -> None:
        self.work: list[Callable[[], Any]] = []
        self._streams: list[Stream] = []
        self.is_open = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        assert capture_error_mode == "relaxed"
        self._pool = pool or Pool(of_graphs=True)
        assert pool is None or pool.num_graphs, "memory of a pool whose graphs are gone"
        self._pool.add_graph(self)
        self.is_open = True
        self.join(current_stream())

    def join(self, stream: Stream) -> None:
        stream.graph = self
        self._streams.append(stream)

    def capture_end(self) -> None:
        for stream in self._streams:
            stream.graph = None
        self._streams, self.is_open = [], False
        if not self.work:
            warnings.warn("The CUDA Graph is empty.", stacklevel=2)

    def pool(self) -> Pool:
        return self._pool

    def replay(self) -> None:
        if current_stream().graph is not None:
            raise RuntimeError("a graph is started while another one is captured")
        with torch.no_grad(), _disable_current_modes():
            for step in self.work:
                step()


class Graph(CompiledGraph):
    """What torch has in Python, where a warning of the end of a capture is told to be from."""

    def capture_end(self) -> None:
        super().capture_end()


_thread = threading.local()


def current_stream(device: Any = None) -> Stream:
    if not hasattr(_thread, "stream"):
        _thread.stream = Stream()
    found: Stream = _thread.stream
    return found


@contextmanager
def stream_selected(stream: Stream) -> Iterator[None]:
    """In the block, this thread's work goes to a stream, and tensors can be made on the device."""
    before, _thread.stream = current_stream(), stream
    is_outermost = not getattr(_thread, "places", False)
    _thread.places = True
    try:
        with Placing() if is_outermost else nullcontext():
            yield
    finally:
        _thread.stream, _thread.places = before, not is_outermost


def kernel(work: Callable[..., Any], *args: Any, written: Sequence[Tensor]) -> None:
    """Does the work of a kernel now, or adds it to the graph that is being captured.

    args: may be tensors of the device, or hold some; the work gets their numbers.
    """
    if (observer := launch_observer()) is not None:
        observer.note_launch(partial(_launch, work), args, written)
    _launch(work, *args)


def _launch(work: Callable[..., Any], *args: Any) -> None:
    held = _mapped(lambda x: x.held if isinstance(x, DeviceTensor) else x, args)
    graph = current_stream().graph
    if graph is not None:
        graph.work.append(partial(work, *held))
        return
    with _disable_current_modes():
        work(*held)


def tensor_of(storage: StorageWeakRef) -> Tensor | None:
    """The bytes of a storage, or None if nobody holds it any more."""
    found = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
    if found is None:
        return None
    memory = Memory.of(found)
    return DeviceTensor(memory.bytes, memory)
