"""The record of calls on secrets, and everything public about a call, as bytes for its digest.

Secrets are described by their shapes and by the call that made them: a program that takes another
secret of the same shape is noticed. Their dtypes follow from earlier operations. Public tensors are
described by shape, dtype and contents, bit by bit: parties that compute with them must hold the
same. Nothing here depends on the process or the machine, such as addresses or salted hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from ctypes import string_at
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..errors.call_sites import USERS_FILES, is_users_frame
from ..kernels import digest, load_call_log
from ..transport.public_record import KEPT, TOLD, PublicRecord
from .products.bilinear import Bilinear
from .share import Arith, Bool

COMPARED_EVERY = TOLD // 2  # calls; so that a last word holds the first difference
SHORT_BYTES = 1 << 7  # contents of so many bytes are absorbed as they are, longer ones by digest

SECRETS: set[type] = set()
"""Classes of secret tensors, which layers above add: `shape` and `origin` are public."""

_TORCH_NAMES = (torch.dtype, torch.layout, torch.device, torch.memory_format)
_NOTHING: dict[str, Any] = {}


class CallRecord(PublicRecord):
    """The record of one party's calls, and when it is compared.

    `compare` exchanges the digests of all parties. They are also compared with every message; so it
    is called only after many calls that need none.
    """

    def __init__(self, compare: Callable[[], None]) -> None:
        self._log = load_call_log()(SECRETS, described, USERS_FILES, is_users_frame, KEPT)
        super().__init__(self._log)
        self._compare, self._compare_at = compare, COMPARED_EVERY

    def absorb(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any] = _NOTHING) -> None:
        """Adds a call and everything public about it, before it is made."""
        self.digest = self._log.absorb(name, args, kwargs)
        self.count += 1
        if self.count >= self._compare_at:
            self._compare()
            self.mark_compared()

    def mark_compared(self) -> None:
        """Notes that the parties exchange messages at this point of the program."""
        self._compare_at = self.count + COMPARED_EVERY


def described(x: Any) -> tuple[Any, ...]:
    """Returns what is public about an argument of a class that the log does not know."""
    if isinstance(x, Tensor):
        return str(x.dtype), *x.shape, contents(x)
    if isinstance(x, Arith):
        return *x.shape, x.pending, x.limit, x.origin
    if isinstance(x, Bool):
        return *x.shape, x.width, x.origin, "bits"
    if isinstance(x, slice):
        return x.start, x.stop, x.step
    if isinstance(x, np.generic):
        return str(x.dtype), x.tobytes()
    if isinstance(x, (*_TORCH_NAMES, complex)):
        return (str(x),)
    if isinstance(x, Bilinear) or is_dataclass(x):
        return type(x).__qualname__, *vars(x).values()
    return (type(x).__qualname__,)


def contents(x: Tensor) -> bytes:
    """Returns a public tensor's elements in their order, or the digest of a long one.

    A tensor without memory, such as one on the meta device, has none; nor has one on a GPU while a
    graph is captured, which a call before has shown.
    """
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return b""
    with _disable_current_modes() if x.is_cuda else nullcontext():  # no program reads the copy
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
