"""The memory of the pretended device, as torch's caching allocator hands out that of a GPU.

Addresses are all that graphs have: they hold no memory. A block is free when its last tensor goes,
is overwritten with POISON, and the next allocation of its size gets it. What is allocated in a
capture comes from the pool of the graph: others get no memory of it while one of its graphs is
there. All other memory comes from one pool that all share. Blocks of one stream are not given to
another one. So whoever still reads a block finds POISON or what others wrote, and whoever still
writes to it changes what is theirs.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import defaultdict, deque
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor

POISON = 0x5B
ALIGNMENT = 512  # of blocks, whose sizes are multiples of it
SLAB_BYTES = 1 << 25

Key = tuple[int, int]  # of free memory: the number of a stream, and a size


class Pool:
    """Free memory that is handed out together. num_graphs: those that need it, in one of graphs."""

    def __init__(self, *, of_graphs: bool) -> None:
        self.of_graphs, self.num_graphs = of_graphs, 0
        self.free: defaultdict[Key, list[Place]] = defaultdict(list)

    @property
    def is_over(self) -> bool:
        """Whether all graphs are gone, so that others get the memory."""
        return self.of_graphs and not self.num_graphs

    def add_graph(self, graph: Any) -> None:
        """Keeps the memory apart as long as a graph is there."""
        self.num_graphs += 1
        weakref.finalize(graph, self._drop_graph)

    def _drop_graph(self) -> None:
        self.num_graphs -= 1


class Place(NamedTuple):
    """Bytes of a slab."""

    slab: Tensor
    start: int
    size: int

    def bytes(self, count: int) -> Tensor:
        """The first bytes, which the tensor does not hold."""
        return self.slab[self.start : self.start + count]


class Block:
    """A place that is used as long as somebody holds this."""

    def __init__(self, memory: DeviceMemory, place: Place, pool: Pool, stream: int) -> None:
        self.place = place
        weakref.finalize(self, memory.released.append, (place, pool, stream)).atexit = False


class DeviceMemory:
    """All memory of the device, and the pinned memory of the host.

    A block may be released at any time and on any thread; it counts as used until the next one is
    allocated.
    """

    def __init__(self) -> None:
        self.released: deque[tuple[Place, Pool, int]] = deque()
        self.shared, self.pinned = Pool(of_graphs=False), Pool(of_graphs=False)
        self._slabs: list[Tensor] = []
        self._end = SLAB_BYTES  # of what is taken of the last slab
        self._lock = RLock()
        self._of_graphs: weakref.WeakSet[Pool] = weakref.WeakSet()

    def block(self, num_bytes: int, pool: Pool, stream: int) -> Block:
        """Returns memory for so many bytes, in which anything may be."""
        size = -(-num_bytes // ALIGNMENT) * ALIGNMENT
        with self._lock:
            self._collect()
            free = pool.free[stream, size]
            place = free.pop() if free else self._new(size)
            if pool.of_graphs:
                self._of_graphs.add(pool)
            return Block(self, place, pool, stream)

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Returns pinned memory of the host for a tensor of this form, which holds it."""
        block = self.block(max(like.nbytes, 1), self.pinned, 0)
        place = block.place
        array = (ctypes.c_char * place.size).from_address(place.slab.data_ptr() + place.start)
        array.block = block  # type: ignore[attr-defined]
        flat = torch.frombuffer(array, dtype=like.dtype)
        return flat.as_strided(like.shape, like.stride())

    def alias(self, tensor: Tensor) -> Tensor:
        """Returns pinned memory as a tensor that does not hold it, as a graph knows it."""
        if not tensor.numel():
            return tensor
        address = tensor.data_ptr()
        for slab in self._slabs:
            start = address - slab.data_ptr()
            if 0 <= start < len(slab):
                typed = slab.view(tensor.dtype)
                return typed.as_strided(tensor.shape, tensor.stride(), start // tensor.itemsize)
        return tensor

    def _collect(self) -> None:
        """Gives released memory back to its pool, and that of pools that are over to all."""
        while self.released:
            place, pool, stream = self.released.popleft()
            place.bytes(place.size).fill_(POISON)
            pool.free[stream, place.size].append(place)
        for pool in [one for one in self._of_graphs if one.is_over]:
            for key, places in pool.free.items():
                self.shared.free[key] += places
            pool.free.clear()

    def _new(self, size: int) -> Place:
        if not self._slabs or self._end + size > len(self._slabs[-1]):
            self._slabs.append(torch.full((max(size, SLAB_BYTES),), POISON, dtype=torch.uint8))
            self._end = 0
        place = Place(self._slabs[-1], self._end, size)
        self._end += size
        return place
