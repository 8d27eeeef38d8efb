"""Files of CrypTen's programs: plain tensors of one party, and the shares of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError, UnsupportedError
from . import communicator
from .cryptensor import CrypTensor, MPCTensor
from .initialization import current_session
from .module_files import readable
from .shares import described, restored

MARK = "share of tacit.compat.crypten"


def save_from_party(
    obj: Any, f: Any, src: int = 0, save_closure: Callable[..., Any] = torch.save, **kwargs: Any
) -> None:
    """Writes a plain object to a file at party `src`; returns everywhere when it is written."""
    if isinstance(obj, CrypTensor):
        raise UnsupportedError(
            "a secret tensor is no plain object of one party",
            remedy="crypten.save writes the share of each party",
        )
    session = current_session()
    if session.rank == session.rank_of(src, "src"):
        save_closure(obj, f, **kwargs)
    communicator.get().barrier()


def load_from_party(
    f: Any = None,
    preloaded: Any = None,
    encrypted: bool = False,
    model_class: Callable[[], nn.Module] | None = None,
    src: int = 0,
    load_closure: Callable[..., Any] = torch.load,
    dummy_model: nn.Module | None = None,
    **kwargs: Any,
) -> Any:
    """Returns the tensor that party `src` has in its file, or `preloaded`, as a secret.

    A module is returned in plain: at `src` it is the file's, elsewhere `dummy_model`, or what
    `model_class` makes, which has the same architecture; crypten.nn.from_pytorch makes it secret.
    """
    if encrypted:
        raise UnsupportedError("encrypted=True", remedy="crypten.load reads the shares of a tensor")
    session = current_session()
    here = session.rank == session.rank_of(src, "src")
    model = model_class if dummy_model is None else type(dummy_model)
    found: Any = None
    if here:
        if (f is None) == (preloaded is None):
            raise ConfigError("f and preloaded", limit="exactly one of them is given")
        found = preloaded if f is None else _loaded(f, load_closure, model, kwargs)
    kinds = {"tensor": Tensor, "module": nn.Module}
    kind = next((name for name, one in kinds.items() if isinstance(found, one)), None)
    kind = communicator.get().broadcast_obj(kind, src)
    if kind is None:
        raise TypeError(f"party {src} loaded neither a tensor nor a module")
    if kind == "tensor":
        made = MPCTensor(found, src=src, broadcast_size=True)
        made.src = src
        return made
    if not here:
        found = dummy_model if dummy_model is not None else model_class and model_class()
    if not isinstance(found, nn.Module):
        raise ConfigError(
            "a module of another party",
            limit="no party sends code",
            remedy="give dummy_model=, or a model_class= that makes one of the same architecture",
        )
    found.src = src  # type: ignore[assignment]
    return found


def _loaded(f: Any, load_closure: Callable[..., Any], model: Any, options: dict[str, Any]) -> Any:
    """Returns the contents of a file; modules in it are made of torch's layers and `model`."""
    if load_closure is not torch.load:
        return load_closure(f, **options)
    with readable(f, [model] if isinstance(model, type) else []):
        return load_closure(f, **options)


def save(obj: Any, f: Any, save_closure: Callable[..., Any] = torch.save, **kwargs: Any) -> None:
    """Writes this party's shares of a secret tensor, or of lists and dicts of them, to a file.

    A share alone says nothing; the shares of all parties together are the numbers, unencrypted.
    """
    save_closure(_shares(obj), f, **kwargs)
    communicator.get().barrier()


def load(f: Any, load_closure: Callable[..., Any] = torch.load, **kwargs: Any) -> Any:
    """Returns what `save` wrote at this party, in a session like that one."""
    if "src" in kwargs:
        raise ConfigError("src", limit="load reads shares", remedy="use crypten.load_from_party")
    return _secrets(load_closure(f, **kwargs))


def _shares(obj: Any) -> Any:
    """Returns the object with this party's shares in the places of secret tensors."""
    if isinstance(obj, CrypTensor):
        return {MARK: True, **described(obj.secret)}
    if isinstance(obj, dict):
        return type(obj)((name, _shares(one)) for name, one in obj.items())
    if isinstance(obj, list | tuple):
        return type(obj)(map(_shares, obj))
    return obj


def _secrets(obj: Any) -> Any:
    """Returns the object with secret tensors in the places of their shares."""
    if isinstance(obj, dict) and MARK in obj:
        return CrypTensor.of(restored(obj))
    if isinstance(obj, dict):
        return type(obj)((name, _secrets(one)) for name, one in obj.items())
    if isinstance(obj, list | tuple):
        return type(obj)(map(_secrets, obj))
    return obj
