"""CrypTen's binary tensors: integers shared as bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from .bit_planes import BITS, aligned, number_of, own_words, planes_of_words
from .cryptensor import MPCTensor
from .ptype import ptype as Ptype
from .tensor_bits import Bits, revealed_bits, shared_planes
from .wrapping import REAL


def moved(name: str) -> Callable[..., Any]:
    """Returns a method that moves whole numbers, with all of their bits, as torch's method does."""
    function, of_arithmetic = getattr(Tensor, name), getattr(MPCTensor, name)

    def method(self: BinarySharedTensor, *args: Any, **kwargs: Any) -> Any:
        if self.ptype is Ptype.arithmetic:
            return of_arithmetic(self, *args, **kwargs)
        places = torch.arange(self.shape.numel()).view(self.shape)
        found = function(places, *args, **kwargs)
        return self.at(found) if isinstance(found, Tensor) else tuple(map(self.at, found))

    method.__name__, method.__doc__ = name, f"As torch's `Tensor.{name}`, shared as bits."
    return method


class BinarySharedTensor(MPCTensor):
    """Integers of party `src`, shared as 64 bits.

    AND, OR, XOR, NOT and shifts work on the bits, and functions that move numbers keep them; for
    everything else the numbers are converted, and the result is an arithmetic tensor. What is
    written to it in place makes it one, too.
    """

    t, transpose, permute = moved("t"), moved("transpose"), moved("permute")
    view, reshape, flatten = moved("view"), moved("reshape"), moved("flatten")
    squeeze, unsqueeze, narrow = moved("squeeze"), moved("unsqueeze"), moved("narrow")
    expand, repeat, roll, flip = moved("expand"), moved("repeat"), moved("roll"), moved("flip")
    split, chunk, unbind = moved("split"), moved("chunk"), moved("unbind")
    unfold, index_select, gather = moved("unfold"), moved("index_select"), moved("gather")
    __getitem__ = moved("__getitem__")

    _planes: Tensor | None
    _secret: Tensor | None

    def __init__(
        self,
        tensor: Any = None,
        ptype: Ptype = Ptype.binary,
        device: Any = None,
        *,
        size: Sequence[int] | None = None,
        broadcast_size: bool = False,
        precision: int | None = None,
        src: int = 0,
        requires_grad: bool | None = None,
    ) -> None:
        self.hold(shared_planes(tensor, src, size, broadcast_size), 0)

    def hold(self, planes: Tensor, scale_bits: int) -> Self:
        """Becomes the tensor with these bits, of which some are a fraction's."""
        self._planes, self._secret, self._scale_bits = planes, None, scale_bits
        return self

    @property
    def holds_bits(self) -> bool:  # type: ignore[override]
        """Whether the numbers are still shared as bits."""
        return self._planes is not None

    @property
    def planes(self) -> Tensor:
        """The bits as truth values, of shape (64, *shape)."""
        return super().planes if self._planes is None else self._planes

    @property
    def scale_bits(self) -> int:
        """How many of the bits are a fraction's: none of integers."""
        return super().scale_bits if self._planes is None else self._scale_bits

    @property
    def secret(self) -> Tensor:
        """The same numbers as an arithmetic secret; they have to be in the session's range."""
        if self._secret is None:
            assert self._planes is not None
            self._secret = number_of(self._planes, REAL if self._scale_bits else torch.int64)
        return self._secret

    @secret.setter
    def secret(self, new: Tensor) -> None:
        self._secret, self._planes = new, None

    @property
    def ptype(self) -> Ptype:
        """How the numbers are shared."""
        return Ptype.binary if self.holds_bits else Ptype.arithmetic

    @property
    def share(self) -> Tensor:
        """What this party holds of the bits, as numbers: the XOR of all parties' are those."""
        return own_words(self._planes) if self._planes is not None else super().share

    @share.setter
    def share(self, new: Tensor) -> None:
        self.hold(planes_of_words(new), self.scale_bits)

    @property
    def shape(self) -> torch.Size:
        """The sizes of all dimensions."""
        return self.secret.shape if self._planes is None else self._planes.shape[1:]

    def at(self, places: Tensor) -> Any:
        """Returns the numbers at public places of the flat tensor, in the shape of the places."""
        planes = self.planes.reshape(BITS, -1)[:, places.flatten()]
        return self.of_planes(planes.reshape(BITS, *places.shape), self.scale_bits)

    def get_plain_text(self, dst: int | None = None) -> Tensor | None:
        """Returns the values at every party, or at party `dst` and None elsewhere."""
        if self._planes is None:
            return super().get_plain_text(dst)
        return revealed_bits(self._planes, self._scale_bits, dst)

    def reveal(self, dst: int | None = None) -> Tensor | None:
        """Returns the values as the integers whose bits are shared."""
        return revealed_bits(self.planes, 0, dst)

    def clone(self) -> Any:
        """Returns a copy, shared as bits."""
        return self.of_planes(self.planes.clone(), self.scale_bits)

    shallow_copy = clone

    def arithmetic(self, bits: int | None = None) -> Any:
        """Returns the same numbers shared as a sum, or those that the lowest bits alone make."""
        if bits is None or self._planes is None:
            return self.of(self.secret)
        counts = (torch.arange(BITS) < bits).view(BITS, *[1] * self.dim())
        kept = torch.logical_and(self._planes, counts)
        return self.of_planes(kept, self._scale_bits).arithmetic()

    def joined_bits(self, join: Any, tensors: Sequence[Any], dim: int) -> Any:
        """Returns tensors that are shared as bits as one, by `torch.cat` or `torch.stack`."""
        if len({one.scale_bits for one in tensors}) > 1:
            return join([one.arithmetic() for one in tensors], dim=dim)
        planes = [one.planes for one in tensors]
        return self.of_planes(join(planes, dim=dim if dim < 0 else dim + 1), self.scale_bits)

    # In place -------------------------------------------------------------------------------------

    def set(self, enc_tensor: Any) -> Self:
        """Becomes another tensor with its kind of sharing."""
        if isinstance(enc_tensor, Bits) and enc_tensor.holds_bits:
            return self.hold(enc_tensor.planes.clone(), enc_tensor.scale_bits)
        return super().set(enc_tensor)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._planes is None:
            super().__setitem__(index, value)
            return
        places = index if isinstance(index, tuple) else (index,)
        new = aligned(self.planes_like_own(value), self[index].dim())
        self._planes[(slice(None), *places)] = new
        self._secret = None

    def scatter(self, dim: int, index: Tensor, src: Any) -> Any:
        """As torch's `Tensor.scatter`, shared as bits."""
        axis, places = dim if dim < 0 else dim + 1, index.expand(BITS, *index.shape)
        new = self.planes_like_own(src)
        return self.of_planes(self.planes.scatter(axis, places, new), self.scale_bits)

    def __iand__(self, other: Any) -> Self:
        return self.set(self & other)

    def __ior__(self, other: Any) -> Self:
        return self.set(self | other)

    def __ixor__(self, other: Any) -> Self:
        return self.set(self ^ other)


Bits.binary_class = BinarySharedTensor
