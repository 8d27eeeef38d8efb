"""The record of calls on secrets, and everything public about a call, as bytes for its digest.

Secrets are described by their shapes and by the call that made them: a program that takes another
secret of the same shape is noticed. Their dtypes follow from earlier operations. Public tensors are
described by shape, dtype and contents, bit by bit: parties that compute with them must hold the
same. Nothing here depends on the process or the machine, such as addresses or salted hashes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from ctypes import string_at
from dataclasses import is_dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors.call_sites import Place, owner_of_frame
from ..kernels import digest, load_call_bytes
from ..transport.public_record import LONG_BYTES, TOLD, PublicRecord, hashed
from .products.bilinear import Bilinear
from .share import Arith, Bool

COMPARED_EVERY = TOLD // 2  # calls; so that a last word holds the first difference
SHORT_BYTES = 1 << 7  # contents of so many bytes are absorbed as they are, longer ones by digest

SECRETS: set[type] = set()
"""Classes of secret tensors, which layers above add: `shape` and `origin` are public."""

_TORCH_NAMES = (torch.dtype, torch.layout, torch.device, torch.memory_format)
_NOTHING: dict[str, Any] = {}
_is_users: dict[str, bool] = {}  # by file


class CallRecord(PublicRecord):
    """The record of one party's calls, and when it is compared.

    `compare` exchanges the digests of all parties. They are also compared with every message; so it
    is called only after many calls that need none.
    """

    def __init__(self, compare: Callable[[], None]) -> None:
        super().__init__()
        self._compare, self._compare_at = compare, COMPARED_EVERY
        self._call_bytes = load_call_bytes()

    def absorb(self, name: str, args: Sequence[Any], kwargs: dict[str, Any] = _NOTHING) -> None:
        """Adds a call and everything public about it, before it is made."""
        data, others = self._call_bytes(args, kwargs, SECRETS)
        if others:
            data += b"".join(map(self._described, others))
        if len(data) > LONG_BYTES:
            data = hashed(data)
        self._waiting += (name.encode(), b"\0", data)
        self._entries.append((name, data, running_place()))
        self._digest = None
        self.count += 1
        if self.count >= self._compare_at:
            self._compare()
            self.mark_compared()

    def mark_compared(self) -> None:
        """Notes that the parties exchange messages at this point of the program."""
        self._compare_at = self.count + COMPARED_EVERY

    def _described(self, x: Any) -> bytes:
        """Returns what is public about an argument that `call_bytes` leaves out."""
        if isinstance(x, Tensor):
            memory = contents(x)
            return self._listed(str(x.dtype), *x.shape, len(memory)) + memory
        if isinstance(x, Arith):
            return self._listed(*x.shape, x.pending, x.limit, x.origin)
        if isinstance(x, Bool):
            return self._listed(*x.shape, x.width, x.origin, "bits")
        if isinstance(x, slice):
            return self._listed(x.start, x.stop, x.step)
        if isinstance(x, np.generic):
            return self._listed(str(x.dtype), x.tobytes().hex())
        if isinstance(x, (*_TORCH_NAMES, complex)):
            return self._listed(str(x))
        if isinstance(x, Bilinear) or is_dataclass(x):
            return self._listed(type(x).__qualname__, *vars(x).values())
        return self._listed(type(x).__qualname__)

    def _listed(self, *found: Any) -> bytes:
        data, others = self._call_bytes(found, _NOTHING, SECRETS)
        return data + b"".join(map(self._described, others))


def running_place() -> Place | None:
    """Returns the innermost line of the user's program that is running. Takes a microsecond."""
    frame: FrameType | None = sys._getframe(2)  # of the caller of `absorb`
    while frame is not None:
        file = frame.f_code.co_filename
        users = _is_users.get(file)
        if users is None:
            users = owner_of_frame(frame) == "user"
            if not file.startswith("<"):  # such a name stands for the code of many modules
                _is_users[file] = users
        if users:
            return frame.f_code, frame.f_lineno
        frame = frame.f_back
    return None


def contents(x: Tensor) -> bytes:
    """Returns a public tensor's elements in their order, or the digest of a long one.

    A tensor without memory, such as one on the meta device, has none; nor has one on a GPU while a
    graph is captured, which a call before has shown.
    """
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return b""
    x = plain(x)
    try:
        address = x.data_ptr()
    except RuntimeError:  # a fake tensor
        return b""
    size = x.nbytes
    if not address:
        return b""
    return string_at(address, size) if size <= SHORT_BYTES else digest(x)


def plain(x: Tensor) -> Tensor:
    """Returns the same numbers as a contiguous tensor on the CPU, as it is if it is one."""
    if x.layout is not torch.strided:
        x = x.to_dense()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    if x.is_meta:
        return x
    return x if x.is_cpu and x.is_contiguous() else x.cpu().contiguous()
