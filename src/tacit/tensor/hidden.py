"""What a secret tensor refuses: every way of torch, numpy and Python to read its values.

NOTE [no memory] A secret tensor is a wrapper without memory: its storage has no data. Some
functions of torch take the address of that data without looking, and would crash or hand out
memory that is not theirs. The methods among them are refused here; functions in C++ raise because
`hide_memory` marks the storage, and `assigned_data.py` guards the setter of `.data`. What is left
is a storage that a program takes with the method of torch's base class, past the refusal, and
makes the memory of a plain tensor: nothing is there to be read, and the process crashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import torch
import torch.utils.data

from ..errors import ForkedUse, RevealForbidden, UnsupportedError
from .module_path import name_place
from .substitutes import numpy_substitute

if TYPE_CHECKING:
    from .secret import SecretTensor

REVEAL = "session.reveal(tensor, to=...) opens it to a party or to all"
WORKERS = "num_workers=0 reads secrets in this process"

hide_memory = torch._C._set_throw_on_mutable_data_ptr


class HiddenValues:
    """The methods of a tensor that would need its values; they raise RevealForbidden."""

    def __bool__(self) -> bool:
        remedy = "choose with torch.where(condition, a, b)"
        return bool(_refuse(self, "__bool__", "bool(), if or while", remedy))

    __nonzero__ = is_nonzero = __bool__

    def item(self) -> Any:
        """Raises RevealForbidden."""
        return _refuse(self, "item", "item(), int() or float()")

    def tolist(self) -> Any:
        """Raises RevealForbidden."""
        return _refuse(self, "tolist", "tolist()")

    def numpy(self, *, force: bool = False) -> Any:
        """Raises RevealForbidden."""
        return _refuse(self, "numpy", "numpy()")

    def __int__(self) -> int:
        return int(_refuse(self, "__int__", "int()"))

    __long__ = __int__

    def __float__(self) -> float:
        return float(_refuse(self, "__float__", "float()"))

    def __complex__(self) -> complex:
        return complex(_refuse(self, "__complex__", "complex()"))

    def __index__(self) -> int:
        remedy = "a secret index needs torch.gather or a one-hot product"
        return int(_refuse(self, "__index__", "an index", remedy))

    def __contains__(self, item: Any) -> bool:
        remedy = "compare with == and take any()"
        return bool(_refuse(self, "__contains__", "in", remedy, item))

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return str(_refuse(self, "__format__", f"the format {spec!r}", REVEAL, spec))

    # Pickling -------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        what = "pickling, copying to the workers of a DataLoader and torch.save"
        raise _needs_values(what, f"tacit.nn saves checkpoints; of a DataLoader, {WORKERS}")

    def __reduce__(self) -> NoReturn:
        self.__reduce_ex__(2)

    # numpy and other libraries --------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return _refuse(self, "__array__", "numpy", REVEAL, *([] if dtype is None else [dtype]))

    def __array_function__(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if func.__name__ in ("shape", "ndim"):  # these are public
            return func._implementation(*args, **kwargs)
        raise _no_numpy(func.__name__)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Computes `array + secret`, `numpy.exp(secret)` and the like as torch does."""
        name = {"power": "pow", "equal": "eq"}.get(ufunc.__name__, ufunc.__name__)
        if method != "__call__" or options or not hasattr(torch, name):
            raise _no_numpy(name)
        return getattr(torch, name)(*map(_for_torch, inputs))

    __dlpack_c_exchange_api__: object = None  # torch's own would read memory without asking

    def __dlpack__(self, **options: Any) -> Any:
        return _refuse(self, "__dlpack__", "DLPack")

    def __dlpack_device__(self) -> Any:
        return _refuse(self, "__dlpack_device__", "DLPack")

    # Memory: see NOTE [no memory] -----------------------------------------------------------------

    def data_ptr(self) -> int:
        """Raises RevealForbidden."""
        return int(_refuse(self, "data_ptr", "data_ptr()"))

    const_data_ptr = data_ptr

    def untyped_storage(self) -> Any:
        """Raises RevealForbidden."""
        return _refuse(self, "untyped_storage", "the storage")

    storage = _typed_storage = untyped_storage

    def share_memory_(self) -> Any:
        """Raises RevealForbidden."""
        return _refuse(self, "share_memory_", "shared memory")

    def apply_(self, function: Any) -> Any:
        """Raises RevealForbidden."""
        return _refuse(self, "apply_", "a Python function of every element", REVEAL, function)

    def map_(self, other: Any, function: Any) -> Any:
        """Raises RevealForbidden."""
        return _refuse(self, "map_", "a Python function of every element", REVEAL, other, function)

    def map2_(self, x: Any, y: Any, function: Any) -> Any:
        """Raises RevealForbidden."""
        what = "a Python function of every element"
        return _refuse(self, "map2_", what, REVEAL, x, y, function)


def _refuse(hidden: HiddenValues, method: str, what: str, remedy: str = REVEAL, *args: Any) -> Any:
    """Raises RevealForbidden; a run that rehearses a model may answer instead, and goes on."""
    if torch.utils.data.get_worker_info() is not None:
        raise ForkedUse
    error = _needs_values(what, remedy)
    tensor = cast("SecretTensor", hidden)
    if tensor.numbers.on_refusal is None:
        raise error
    return tensor.numbers.on_refusal(error, tensor, method, args)


def _no_numpy(name: str) -> UnsupportedError:
    return name_place(
        UnsupportedError(
            f"numpy.{name} of a secret tensor",
            limit="numpy computes on values",
            remedy=numpy_substitute(name) or REVEAL,
        )
    )


def _for_torch(value: Any) -> Any:
    """Returns an operand of numpy as torch takes it."""
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    return value.item() if isinstance(value, np.generic) else value


def _needs_values(what: str, remedy: str) -> RevealForbidden:
    reason = f"{what} would need the values of a secret tensor"
    return name_place(RevealForbidden(reason, remedy=remedy))
