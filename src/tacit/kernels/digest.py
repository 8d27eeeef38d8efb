"""A digest of a tensor's elements, at the speed of memory.

It finds accidental differences; it is no cryptographic hash. `benchmarks/public_record.py` compares
it with a copy of the same memory.
"""

from __future__ import annotations

from ctypes import addressof, c_char, string_at

from torch import Tensor

from ..errors import ConfigError
from ..ring.reference import digest as reference
from .backend import compiled

DIGEST_BYTES = 16


def digest(x: Tensor) -> bytes:
    """Returns 16 bytes that depend on all bytes of a contiguous tensor on the CPU."""
    if not (x.is_cpu and x.is_contiguous()):
        raise ConfigError("the digest of a tensor needs contiguous memory of the CPU")
    kernel = getattr(compiled(), "digest", None)  # Python takes the result: no part of a plan
    if kernel is None:
        return reference.digest(string_at(x.data_ptr(), x.nbytes))
    out = (c_char * DIGEST_BYTES)()
    kernel(x.data_ptr(), x.nbytes, addressof(out))
    return out.raw
