"""The classes that `crypten.cryptensor` makes tensors of, by name: "mpc", and those of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ConfigError
from .cryptensor import CrypTensor, MPCTensor
from .initialization import is_initialized, keep, kept
from .repeated_definitions import is_defined_again

_types: dict[str, type[CrypTensor]] = {"mpc": MPCTensor}
_default = "mpc"


def register_cryptensor(name: str) -> Callable[[type[CrypTensor]], type[CrypTensor]]:
    """Returns a decorator that gives a class of tensors a name."""

    def registered(cls: type[CrypTensor]) -> type[CrypTensor]:
        if name in _types and not is_defined_again(cls, _types[name]):
            raise ConfigError(f"the type {name!r} of tensors", limit="a name has one class")
        if not issubclass(cls, CrypTensor):
            raise ConfigError(f"{cls.__name__}", limit="a type of tensors extends CrypTensor")
        _types[name] = cls
        return cls

    return registered


def set_default_cryptensor_type(cryptensor_type: str) -> None:
    """Makes this the type of tensors that `cryptensor` makes: in this session, or before any."""
    global _default
    class_of(cryptensor_type)
    if is_initialized():
        keep("cryptensor_type", cryptensor_type)
    else:
        _default = cryptensor_type


def get_default_cryptensor_type() -> str:
    """Returns the name of the type of tensors that `cryptensor` makes."""
    return kept("cryptensor_type", lambda: _default) if is_initialized() else _default


def get_cryptensor_type(tensor: Any) -> str:
    """Returns the name of a tensor's type."""
    for name, cls in [*_types.items()]:  # another party may add one
        if isinstance(tensor, cls) or is_defined_again(type(tensor), cls):
            return name
    raise ConfigError(f"a {type(tensor).__name__}", limit="only tensors of secrets have a type")


def cryptensor(tensor: Any, *args: Any, cryptensor_type: str | None = None, **options: Any) -> Any:
    """Returns the numbers of a party as secrets; the options are those of `MPCTensor`."""
    return class_of(cryptensor_type)(tensor, *args, **options)


def class_of(name: str | None) -> type[Any]:
    """Returns the class with this name, or the default one."""
    name = get_default_cryptensor_type() if name is None else name
    if name not in _types:
        raise ConfigError(f"the type {name!r} of tensors", limit=f"known are {', '.join(_types)}")
    return _types[name]


CrypTensor.register_cryptensor = staticmethod(register_cryptensor)
