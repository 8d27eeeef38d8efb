"""The record of calls on secrets, and everything public about a call, as bytes for its digest.

Secrets are described by their shapes; their dtypes follow from earlier operations. Public tensors
are described by shape, dtype and contents, bit by bit: parties that compute with them must hold the
same. Nothing here depends on the process or the machine, such as addresses or salted hashes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from ctypes import string_at
from hashlib import blake2b
from types import FrameType, MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ..errors.call_sites import Place, owner_of_frame
from ..kernels import digest
from ..transport.public_record import DIGEST_BYTES, TOLD, PublicRecord
from .share import Arith, Bool

COMPARED_EVERY = TOLD // 2  # calls; so that a last word holds the first difference
SHORT_BYTES = 1 << 11  # contents of so many bytes are absorbed as they are, longer ones by digest

SECRETS: set[type] = set()
"""Classes of secret tensors, which layers above add: their shapes are public."""

_SIMPLE = frozenset({int, float, bool, str, complex, type(None)})
_TORCH_NAMES = (torch.dtype, torch.layout, torch.device, torch.memory_format)
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_is_users: dict[str, bool] = {}  # by file


class CallRecord(PublicRecord):
    """The record of one party's calls, and when it is compared.

    `compare` exchanges the digests of all parties. They are also compared with every message; so it
    is called only after many calls that need none.
    """

    def __init__(self, compare: Callable[[], None]) -> None:
        super().__init__()
        self._compare, self._compare_at = compare, COMPARED_EVERY

    def absorb(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any] = _NOTHING) -> None:
        """Adds a call and everything public about it, before it is made."""
        data = self.digest + public_bytes(name, args, kwargs)
        self.digest = made = blake2b(data, digest_size=DIGEST_BYTES).digest()
        self._entries.append((name, made, running_place()))
        self.count += 1
        if self.count >= self._compare_at:
            self._compare()
            self.mark_compared()

    def mark_compared(self) -> None:
        """Notes that the parties exchange messages at this point of the program."""
        self._compare_at = self.count + COMPARED_EVERY


def running_place() -> Place | None:
    """Returns the innermost line of the user's program that is running. Takes a microsecond."""
    frame: FrameType | None = sys._getframe(1)
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


def public_bytes(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Returns everything public about a call, in a form that is the same at all parties."""
    found: list[Any] = [name]
    held: list[bytes] = []
    for x in args:
        kind = type(x)
        if kind in _SIMPLE:  # the usual cases first: this runs for every operation
            found.append(x)
        elif kind in SECRETS:
            found.append(x.shape)
        else:
            describe(x, found, held)
    if kwargs:
        for key, x in kwargs.items():
            found.append(key)
            describe(x, found, held)
    text = repr(found).encode()
    return text + b"".join(held) if held else text


def describe(x: Any, found: list[Any], held: list[bytes]) -> None:
    """Appends what is public about an argument to `found`, and contents of tensors to `held`."""
    kind = type(x)
    if kind in _SIMPLE:
        found.append(x)
    elif kind in SECRETS:
        found.append(x.shape)
    elif kind is list or kind is tuple:
        if _SIMPLE.issuperset(map(type, x)):
            found.append([*x])
        else:
            found.append(len(x))
            for one in x:
                describe(one, found, held)
    elif kind is Arith:
        found.append((*x.shape, x.pending, x.limit))
    elif kind is Bool:
        found.append((*x.shape, x.width, "bits"))
    else:
        _describe_object(x, kind, found, held)


def _describe_object(x: Any, kind: type, found: list[Any], held: list[bytes]) -> None:
    if isinstance(x, Tensor):
        memory = contents(x)
        found.append((str(x.dtype), *x.shape, len(memory)))
        held.append(memory)
    elif isinstance(x, list | tuple):  # torch.Size, named tuples
        describe([*x], found, held)
    elif isinstance(x, dict):
        describe([part for item in x.items() for part in item], found, held)
    elif isinstance(x, slice):
        describe([x.start, x.stop, x.step], found, held)
    elif isinstance(x, int | float):  # numpy's numbers, torch's symbolic ones
        found.append(float(x) if isinstance(x, float) else int(x))
    elif isinstance(x, _TORCH_NAMES):
        found.append(str(x))
    else:
        found.append(kind.__qualname__)


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
