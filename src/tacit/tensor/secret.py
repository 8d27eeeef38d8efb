"""The tensor that shows its shape and hides its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from torch import Tensor

from ..errors import RangeError, RevealForbidden, UnsupportedError
from ..fixedpoint import Numbers, Value
from .place import name_module

View = Callable[[Value], Value]


class SecretTensor(Tensor):
    """A `torch.Tensor` of secret numbers. Shape, dtype and device are public, the values are not.

    Made by `session.share`; opened by `session.reveal`. torch's functions, modules, autograd and
    optimizers work on it by the rules of `tacit.tensor.ops`; what has no rule raises UnsupportedOp.
    Its device is `cpu` wherever the shares are.

    NOTE [views]: a view remembers its base and how it was taken. Writing to either writes a new
    value to the base, and the others take their part of it anew when they are next read.
    """

    dispatch: ClassVar[Callable[..., Any]]  # set by the module of that name

    numbers: Numbers
    _value: Value
    _base_tensor: SecretTensor | None
    _take: View | None
    _version_count: int

    @staticmethod
    def __new__(
        cls, value: Value, numbers: Numbers, *, requires_grad: bool = False
    ) -> SecretTensor:
        made: SecretTensor = Tensor._make_wrapper_subclass(
            cls, value.shape, dtype=value.dtype, requires_grad=requires_grad
        )
        made.numbers, made._value = numbers, value
        made._base_tensor = made._take = None
        made._version_count = made._seen = 0
        return made

    def __init__(self, value: Value, numbers: Numbers, *, requires_grad: bool = False) -> None:
        """All is done in __new__: a wrapper has no storage."""

    _seen: int

    @property
    def value(self) -> Value:
        """The shares, as they are now."""
        base = self._root()
        if base is not None and self._take is not None and base._version_count != self._seen:
            self._value, self._seen = self._take(base.value), base._version_count
        return self._value

    def _root(self) -> SecretTensor | None:
        """What this is a view of. A base that was reshaped since has a base itself, alike it."""
        base = self._base_tensor
        if base is not None and base._base_tensor is not None:
            self._base_tensor = base = base._base_tensor
        return base

    def view_of(self, base: SecretTensor, take: View) -> SecretTensor:
        """Makes this tensor, which was just taken from `base`, an alias of it."""
        root, outer = base._root(), base._take
        if root is not None and outer is not None:
            self._base_tensor, self._take = root, lambda value: take(outer(value))
        else:
            self._base_tensor, self._take = base, take
        self._seen = self._base_tensor._version_count
        return self

    def reshape_by(self, take: View) -> SecretTensor:
        """Makes this tensor another view of what it shows, with the shape that `take` gives."""
        value, inner = take(self.value), self._take
        if self._base_tensor is None or inner is None:
            base = SecretTensor(self._value, self.numbers)
            base._version_count = self._seen = self._version_count
            self._base_tensor, self._take = base, take
        else:
            self._take = lambda whole: take(inner(whole))
        self.data = SecretTensor(value, self.numbers)  # torch's record of the shape
        self._value = value
        return self

    def write(self, value: Value) -> SecretTensor:
        """Overwrites this tensor, and what it is a view of. The shape and dtype stay."""
        value = _fitted(self, value)
        base = self._root()
        if base is None or self._take is None:
            self._value = value
            self._version_count += 1
        else:
            base.write(_replaced(base, self._take, value))
        return self

    # What would show the values ----------------------------------------------------------------

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"SecretTensor(shape={tuple(self.shape)}, dtype={self.dtype}{grad})"

    def __bool__(self) -> bool:
        _refuse("bool(), if or while", "choose with torch.where(condition, a, b)")

    def item(self) -> Any:
        _refuse("item(), int() or float()")

    def tolist(self) -> Any:
        _refuse("tolist()")

    def numpy(self, *, force: bool = False) -> Any:
        _refuse("numpy()")

    def __array__(self, *args: Any) -> Any:
        _refuse("numpy")

    def __int__(self) -> int:
        _refuse("int()")

    def __float__(self) -> float:
        _refuse("float()")

    def __index__(self) -> int:
        _refuse("an index", "a secret index needs torch.gather or a one-hot product")

    def __contains__(self, item: Any) -> bool:
        _refuse("in", "compare with == and take any()")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        _refuse("pickling, copying between processes and torch.save", "checkpoints are tacit.nn's")

    def __deepcopy__(self, memo: dict[int, Any]) -> SecretTensor:
        copy = SecretTensor(self.value, self.numbers, requires_grad=self.requires_grad)
        memo[id(self)] = copy
        return copy

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            return cls.dispatch(func, args, kwargs or {})
        except (UnsupportedError, RangeError) as error:
            name_module(error)
            raise


def _refuse(what: str, instead: str = "") -> NoReturn:
    way_out = instead or "session.reveal(tensor, to=...) opens it to a party or to all"
    raise RevealForbidden(f"{what} would need the values of a secret tensor: {way_out}")


def _fitted(tensor: SecretTensor, value: Value) -> Value:
    """A value as what is written to a tensor: its shape and dtype."""
    if value.dtype != tensor.dtype:
        value = tensor.numbers.convert(value, tensor.dtype)
    if value.shape != tensor.shape:
        value = value.map(lambda part: part.expand(tensor.shape))
    return value


def _replaced(base: SecretTensor, take: View, value: Value) -> Value:
    """The base's value with the part that `take` takes replaced."""
    return base.numbers.replaced(base.value, take, value)
