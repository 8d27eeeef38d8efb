"""CrypTen's binary tensors: integers shared as bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from .bit_circuits import added, as_integer, chosen, equal, less, summed
from .bit_planes import BITS, aligned, number_of, own_words, planes_of_words
from .cryptensor import MPCTensor
from .ptype import ptype as Ptype
from .tensor_bits import Bits, revealed_bits, shared_planes
from .wrapping import REAL

Circuit = Callable[[Tensor, Tensor], Tensor]


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


def computed(name: str, circuit: Circuit) -> Callable[..., Any]:
    """Returns a method of two tensors that computes on their bits.

    Numbers with other fraction bits than this tensor's are converted, and so is this tensor.
    """
    of_arithmetic = getattr(MPCTensor, name)

    def method(self: BinarySharedTensor, other: Any) -> Any:
        if not self.holds_bits or self.has_other_scale(other):
            return of_arithmetic(self, other)
        return self.of_planes(circuit(*self.aligned_planes(other)), self.scale_bits)

    method.__name__, method.__doc__ = name, f"As torch's `Tensor.{name}`, shared as bits."
    return method


def compared(name: str, circuit: Circuit) -> Callable[..., Any]:
    """Returns a comparison of two tensors on their bits: 1 and 0, shared as bits."""
    of_arithmetic = getattr(MPCTensor, name)

    def method(self: BinarySharedTensor, y: Any) -> Any:
        if not self.holds_bits or self.has_other_scale(y):
            return of_arithmetic(self, y)
        return self.of_planes(as_integer(circuit(*self.aligned_planes(y))), 0)

    method.__name__, method.__doc__ = name, f"As torch's `Tensor.{name}`, shared as bits."
    return method


class BinarySharedTensor(MPCTensor):
    """Integers of party `src`, shared as 64 bits.

    AND, OR, XOR, NOT, shifts, sums, comparisons and `where` work on the bits, and functions that
    move numbers keep them; for everything else the numbers are converted, and the result is an
    arithmetic tensor.
    """

    t, transpose, permute = moved("t"), moved("transpose"), moved("permute")
    view, reshape, flatten = moved("view"), moved("reshape"), moved("flatten")
    squeeze, unsqueeze, narrow = moved("squeeze"), moved("unsqueeze"), moved("narrow")
    expand, repeat, roll, flip = moved("expand"), moved("repeat"), moved("roll"), moved("flip")
    split, chunk, unbind = moved("split"), moved("chunk"), moved("unbind")
    unfold, index_select, gather = moved("unfold"), moved("index_select"), moved("gather")
    __getitem__ = moved("__getitem__")
    add = computed("add", added)
    sub = computed("sub", lambda a, b: added(a, b.logical_not(), carry=True))
    __add__ = __radd__ = add
    __sub__ = sub
    __rsub__ = computed("__rsub__", lambda a, b: added(a.logical_not(), b, carry=True))
    eq = compared("eq", equal)
    ne = compared("ne", lambda a, b: equal(a, b).logical_not())
    lt, gt = compared("lt", less), compared("gt", lambda a, b: less(b, a))
    le = compared("le", lambda a, b: less(b, a).logical_not())
    ge = compared("ge", lambda a, b: less(a, b).logical_not())
    __eq__ = eq
    __ne__ = ne
    __lt__, __le__, __gt__, __ge__ = lt, le, gt, ge
    __hash__ = object.__hash__

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

    def arithmetic(self, bits: int | None = None, precision: int | None = None) -> Any:
        """Returns the same numbers shared as a sum; they have to be in the session's range.

        bits: how many of the lowest bits count. precision: how many of them are a fraction's.
        """
        if self._planes is None or (bits is None and precision is None):
            return self.of(self.secret)
        counts = torch.arange(BITS) < (BITS if bits is None else bits)
        kept = torch.logical_and(self._planes, counts.view(BITS, *[1] * self.dim()))
        if precision is None or precision == self._scale_bits:
            return self.of_planes(kept, self._scale_bits).arithmetic()
        number = number_of(kept, torch.int64)
        return self.of(number if precision == 0 else number.to(REAL) * 2.0**-precision)

    def joined_bits(self, join: Any, tensors: Sequence[Any], dim: int) -> Any:
        """Returns tensors that are shared as bits as one, by `torch.cat` or `torch.stack`."""
        if len({one.scale_bits for one in tensors}) > 1:
            return join([one.arithmetic() for one in tensors], dim=dim)
        planes = [one.planes for one in tensors]
        return self.of_planes(join(planes, dim=dim if dim < 0 else dim + 1), self.scale_bits)

    # Circuits -------------------------------------------------------------------------------------

    def has_other_scale(self, other: Any) -> bool:
        """Returns whether another tensor's numbers have other fraction bits than these."""
        return isinstance(other, Bits) and other.scale_bits != self.scale_bits

    def sum(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Returns the sum, of all numbers or along dimensions."""
        if not self.holds_bits or not self.numel():
            return super().sum(dim, keepdim)
        dims = [dim] if isinstance(dim, int) else dim or range(self.dim())  # none are all
        places = [one % self.dim() + 1 for one in dims]
        rows = self.planes.movedim(places, [*range(1, len(places) + 1)])
        terms = rows.reshape(BITS, -1, *rows.shape[len(places) + 1 :]).unbind(1)
        shape = torch.empty(self.shape, device="meta").sum(dim, keepdim).shape
        return self.of_planes(summed(terms).reshape(BITS, *shape), self.scale_bits)

    def where(self, condition: Any, y: Any) -> Any:
        """Returns this tensor where the condition is 1, and y where it is 0."""
        if not self.holds_bits or self.has_other_scale(y):
            return super().where(condition, y)
        truth = condition
        if isinstance(condition, Bits):  # whose lowest bit counts
            truth = condition.planes[condition.scale_bits]
        mine, theirs = self.aligned_planes(y)
        missing = max(truth.dim() - mine.dim() + 1, 0)
        mine, theirs = (aligned(one, one.dim() - 1 + missing) for one in (mine, theirs))
        return self.of_planes(chosen(truth.bool(), mine, theirs), self.scale_bits)

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
