"""What a public tensor held when an operation saw it, and whether it still does.

torch counts writes to a tensor. It does not count those to `tensor.data`, nor those to an array of
numpy that shares the memory, so contents are compared, too.
"""

from __future__ import annotations

from ctypes import c_byte, string_at

import numpy
from torch import Tensor

MOST_BYTES = 1 << 16  # of memory of which every byte is compared
MOST_SHARED_BYTES = 1 << 24  # of memory that another library may write to
SAMPLES = 1 << 12  # of larger memory


class SeenMemory:
    """The memory of a tensor, as it was.

    is_comparable: whether it is not too large, or torch alone writes to it.
    """

    def __init__(self, tensor: Tensor, has_contents: bool) -> None:
        """has_contents: whether contents are public, and may be written by the program."""
        self._tensor, self._storage = tensor, tensor.untyped_storage()
        self._version, self._address = tensor._version, tensor.data_ptr()
        is_shared = has_contents and not self._storage.resizable()
        num_bytes = self._storage.nbytes()
        self.is_comparable = not is_shared or num_bytes <= MOST_SHARED_BYTES
        self._is_whole = num_bytes <= (MOST_SHARED_BYTES if is_shared else MOST_BYTES)
        self._held = self._contents() if has_contents and self.is_comparable else None

    def is_same(self) -> bool:
        """Returns whether the tensor has the same memory, and nobody has written to it."""
        x = self._tensor
        if x._version != self._version or x.data_ptr() != self._address:
            return False
        return self._held is None or self._held == self._contents()

    def _contents(self) -> bytes:
        """Returns all bytes; of large memory some, at equal distances."""
        start, size = self._storage.data_ptr(), self._storage.nbytes()
        if self._is_whole:
            return string_at(start, size) if size else b""
        held = numpy.frombuffer(memoryview((c_byte * size).from_address(start)), dtype=numpy.int8)
        return held[:: size // SAMPLES | 1].tobytes()
