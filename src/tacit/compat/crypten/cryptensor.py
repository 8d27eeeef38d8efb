"""`CrypTensor`: a tensor of secret numbers with CrypTen's methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ...errors import ConfigError
from .bit_planes import planes_of_words
from .encoder import FixedPointEncoder
from .initialization import current_session
from .ptype import ptype as Ptype
from .refused_call import SecretTruth
from .shares import as_secret, own_share, secret_of_share, settled_share
from .sharing_inputs import shared
from .tensor_arithmetic import Arithmetic
from .tensor_bits import Bits
from .tensor_layers import Layers
from .tensor_reductions import Reductions
from .tensor_shapes import Shapes
from .wrapping import REAL, REFLECTED, in_place, operands, unwrapped


class CrypTensor(Arithmetic, Bits, Reductions, Shapes, Layers):
    """Secret numbers with CrypTen's methods. Tacit's secret tensor, in `secret`, does the work.

    Gradients are torch's: `requires_grad`, `grad` and the graph are those of `secret`.
    """

    register_cryptensor: ClassVar[Callable[[str], Any]]  # set where the types are kept
    src: int | None = None  # the party whose file it was loaded from
    __array_ufunc__ = None  # numpy does not make arrays of these tensors

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Makes a tensor of a concrete class."""
        if cls is CrypTensor:
            raise TypeError("CrypTensor is abstract: crypten.cryptensor makes tensors")
        return super().__new__(cls)

    @classmethod
    def concrete(cls) -> type[Any]:
        """Returns the class of arithmetic tensors."""
        return MPCTensor

    @property
    def ptype(self) -> Ptype:
        """How the numbers are shared."""
        return Ptype.arithmetic

    def arithmetic(self, bits: int | None = None, precision: int | None = None) -> Any:
        """Returns the same numbers shared as a sum, as they are."""
        return self.clone()

    def to(
        self,
        *args: Any,
        ptype: Ptype | None = None,
        bits: int | None = None,
        precision: int | None = None,
        **options: Any,
    ) -> Any:
        """Returns the tensor shared in another way. A device changes nothing: a session has one.

        bits and precision: of a tensor shared as bits, how many of the lowest ones count, and how
        many of them are a fraction's.
        """
        kind = ptype or next((one for one in args if isinstance(one, Ptype)), None)
        if kind is None:
            return self
        if kind is Ptype.binary:
            return self.binary()
        return self.arithmetic(bits, precision)

    def cuda(self, *args: Any, **options: Any) -> Self:
        """Returns this tensor: the session decides where shares are."""
        return self

    cpu = cuda

    @property
    def encoder(self) -> FixedPointEncoder:
        """How these numbers are encoded as integers."""
        return FixedPointEncoder(self.scale_bits)

    @property
    def device(self) -> torch.device:
        """The device of this party's shares."""
        return current_session().device

    @property
    def is_cuda(self) -> bool:
        """Whether this party's shares are on a GPU."""
        return self.device.type == "cuda"

    @property
    def _tensor(self) -> Self:
        """This tensor. In CrypTen it holds another one, which programs reach for."""
        return self

    # Plain values ---------------------------------------------------------------------------------

    def get_plain_text(self, dst: int | None = None) -> Tensor | None:
        """Returns the values at every party, or at party `dst` and None elsewhere."""
        plain: Tensor | None = current_session().reveal(self.secret.detach(), to=dst)
        return plain

    def reveal(self, dst: int | None = None) -> Tensor | None:
        """Returns the values as integers: units of 2^-precision_bits, as they are shared."""
        plain = self.get_plain_text(dst)
        if plain is None or not plain.is_floating_point():
            return plain
        bits = current_session().numbers.fraction_bits
        return (plain.double() * 2**bits).round().long()

    @staticmethod
    def reveal_batch(tensor_or_list: Any, dst: int | None = None) -> Any:
        """Returns the values of a tensor, or of each of a list, as `reveal` does."""
        if isinstance(tensor_or_list, CrypTensor):
            return tensor_or_list.reveal(dst)
        return [one.reveal(dst) for one in tensor_or_list]

    @property
    def share(self) -> Tensor:
        """What this party holds of the numbers: random to it, unless it is alone."""
        return own_share(settled_share(self.secret).parts, torch.add)

    @share.setter
    def share(self, new: Tensor) -> None:
        self.secret = secret_of_share(new, self.secret.dtype)

    def __bool__(self) -> bool:
        raise SecretTruth(
            "the truth value of a CrypTensor is secret", remedy="call get_plain_text() to reveal it"
        )

    def __repr__(self) -> str:
        size = tuple(self.shape)
        return f"{type(self).__name__}({size=}, plain_text=HIDDEN, ptype={self.ptype})"

    # Gradients ------------------------------------------------------------------------------------

    no_grad = staticmethod(torch.no_grad)
    enable_grad = staticmethod(torch.enable_grad)
    set_grad_enabled = staticmethod(torch.set_grad_enabled)

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded, and `backward` computes its gradient."""
        return self.secret.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if not wanted and not self.secret.is_leaf:
            self.secret = self.secret.detach()
        self.secret.requires_grad_(wanted)

    @property
    def grad(self) -> Any:
        """The gradient of a leaf, or None."""
        grad = self.secret.grad if self.secret.is_leaf else None
        return None if grad is None else self.of(as_secret(grad))

    @grad.setter
    def grad(self, new: Any) -> None:
        self.secret.grad = None if new is None else as_secret(unwrapped(new))

    @property
    def grad_fn(self) -> Any:
        """torch's node of the graph that made this tensor."""
        return self.secret.grad_fn

    def backward(self, grad_input: Any = None, top_node: bool = True) -> None:
        """Adds the gradients to all leaves that require one; does nothing if none does."""
        if self.secret.requires_grad:
            self.secret.backward(None if grad_input is None else as_secret(unwrapped(grad_input)))

    def detach(self) -> Any:
        """Returns a copy without history."""
        return self.of(self.secret.detach().clone())

    def detach_(self) -> Self:
        """Forgets the history of this tensor."""
        self.secret = self.secret.detach()
        return self

    @property
    def data(self) -> Any:
        """The same numbers without history; writing to them in place changes this tensor."""
        return self.of(self.secret.detach())

    @data.setter
    def data(self, new: Any) -> None:
        with torch.no_grad():
            self.set(new)

    # Copies ---------------------------------------------------------------------------------------

    def shallow_copy(self) -> Any:
        """Returns another tensor that holds the same secret."""
        return self.of(self.secret)

    def set(self, enc_tensor: Any) -> Self:
        """Writes the values of another tensor to this one, which takes its shape and kind."""
        new = as_secret(unwrapped(enc_tensor))
        alike = new.shape == self.secret.shape and new.dtype == self.secret.dtype
        with torch.no_grad():
            self.secret = self.secret.copy_(new) if alike else new.clone()
        return self

    def copy_(self, other: Any) -> Self:
        """As `set`."""
        return self.set(other)

    def __getattr__(self, name: str) -> Any:
        """Returns the form of a method that writes to this tensor, such as `exp_`."""
        plain = name.removesuffix("_")
        if name == plain or name.startswith("_") or not callable(getattr(type(self), plain, None)):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return partial(in_place(plain), self)

    # Sizes ----------------------------------------------------------------------------------------

    @property
    def shape(self) -> torch.Size:
        """The sizes of all dimensions."""
        return self.secret.shape

    def size(self, dim: int | None = None) -> Any:
        """Returns the sizes of all dimensions, or of one."""
        return self.secret.shape if dim is None else self.secret.shape[dim]

    def dim(self) -> int:
        """Returns the number of dimensions."""
        return self.secret.dim()

    def numel(self) -> int:
        """Returns the number of elements."""
        return self.secret.numel()

    ndimension, nelement = dim, numel

    def __len__(self) -> int:
        return len(self.secret)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Lets torch's functions work on these tensors, and `plain + tensor`."""
        reflected = REFLECTED.get(getattr(func, "__name__", ""))
        if reflected and len(args) == 2 and not kwargs and not isinstance(args[0], CrypTensor):
            return getattr(args[1], reflected)(args[0])
        wrap = object.__new__(MPCTensor).wrapped
        return wrap(func(*operands(tuple(args)), **operands(kwargs or {})))


class MPCTensor(CrypTensor):
    """The numbers of party `src` as secrets.

    tensor: what is shared, at `src`; a tensor of that size elsewhere, or anything with `size` or
    `broadcast_size`, which tells all parties the size in one more round. precision: how many
    fraction bits are kept; 0 for integers. requires_grad: by default as the given tensor.
    """

    def __new__(cls, tensor: Any = None, ptype: Any = None, *args: Any, **options: Any) -> Any:
        """Makes a binary tensor if that is asked for."""
        if not isinstance(ptype, Ptype | None):
            raise ConfigError(f"{ptype=}", limit=f"allowed are {', '.join(map(str, Ptype))}")
        return object.__new__(cls.binary_class if ptype is Ptype.binary else cls)

    def __init__(
        self,
        tensor: Any,
        ptype: Ptype = Ptype.arithmetic,
        device: Any = None,
        *,
        size: Sequence[int] | None = None,
        broadcast_size: bool = False,
        precision: int | None = None,
        src: int = 0,
        requires_grad: bool | None = None,
    ) -> None:
        if requires_grad is None:
            requires_grad = isinstance(tensor, Tensor) and tensor.requires_grad
        self.secret = shared(tensor, src, precision, size, broadcast_size)
        self.secret.requires_grad_(requires_grad)

    @staticmethod
    def new(*args: Any, **options: Any) -> Any:
        """Returns a tensor of this class."""
        return MPCTensor(*args, **options)

    @classmethod
    def from_shares(
        cls,
        share: Tensor,
        precision: int | None = None,
        ptype: Ptype = Ptype.arithmetic,
        src: int = 0,
        device: Any = None,
    ) -> Any:
        """Returns the tensor of which each party gives its share, as `share` shows it."""
        if ptype is Ptype.arithmetic:
            return cls.of(secret_of_share(share, torch.int64 if precision == 0 else REAL))
        bits = current_session().numbers.fraction_bits if precision is None else precision
        return object.__new__(cls).of_planes(planes_of_words(share), bits)
