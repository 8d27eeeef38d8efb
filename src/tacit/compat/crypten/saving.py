"""Files of CrypTen's programs: plain tensors of one party, and the shares of all."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError, FrameRejected, Party, UnsupportedError
from ...transport.consensus import agree
from . import communicator
from .common import serial
from .cryptensor import CrypTensor, MPCTensor
from .initialization import current_session
from .module_files import readable
from .nn import Module
from .refused_call import RefusedAssertion, RefusedSyntax
from .shares import described, restored
from .sharing_inputs import checked_source

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
    if current_session().rank == checked_source(src):
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
    `model_class`, or a registered class of that name, makes without arguments: a module of the
    same architecture. crypten.nn.from_pytorch makes it secret.
    """
    if encrypted:
        raise UnsupportedError("encrypted=True", remedy="crypten.load reads the shares of a tensor")
    here = current_session().rank == checked_source(src)
    model = model_class if dummy_model is None else type(dummy_model)
    found: Any = None
    if here:
        if (f is None) == (preloaded is None):
            raise RefusedAssertion("f and preloaded", limit="exactly one of them is given")
        found = preloaded if f is None else _loaded(f, load_closure, model, kwargs)
    kinds = {"tensor": Tensor, "module": nn.Module}
    kind = next((name for name, one in kinds.items() if isinstance(found, one)), None)
    told = communicator.get().broadcast_obj([kind or "", serial.name_of(found)], src)
    kind, class_name = _checked_kind(told, src)
    if not kind:
        raise TypeError(f"party {src} loaded neither a tensor nor a module")
    if kind == "tensor":
        made = MPCTensor(found, src=src, broadcast_size=True)
        made.src = src
        return made
    if not here:
        make = model_class or serial.safe_class(class_name)
        found = dummy_model if dummy_model is not None else make and make()
    if not isinstance(found, nn.Module):
        raise ConfigError(
            "a module of another party",
            limit="no party sends code",
            remedy="give dummy_model=, or a model_class= that makes one of the same architecture; "
            "a class given to crypten.common.serial.register_safe_class is one, too",
        )
    found.src = src  # type: ignore[assignment]
    return found


def _checked_kind(told: Any, src: int) -> tuple[str, str]:
    """Returns what a party has loaded and of which class, if it has told just that."""
    if not isinstance(told, list) or [*map(type, told)] != [str, str]:
        raise FrameRejected(Party(src) + " does not tell what it has loaded", party=src)
    kind, class_name = told
    return kind, class_name


def _loaded(f: Any, load_closure: Callable[..., Any], model: Any, options: dict[str, Any]) -> Any:
    """Returns the contents of a file; modules in it are made of torch's layers and `model`."""
    if load_closure is not torch.load:
        return load_closure(f, **options)
    own = [model] if isinstance(model, type) else []
    with readable(f, own + serial.safe_classes()):
        return load_closure(f, **options)


def save(obj: Any, f: Any, save_closure: Callable[..., Any] = torch.save, **kwargs: Any) -> None:
    """Writes this party's shares of a secret tensor, or of lists and dicts of them, to a file.

    A share alone says nothing; the shares of all parties together are the numbers, unencrypted.
    The files of one call belong together: they have a number, which party 0 draws.
    """
    if isinstance(obj, Module):
        raise UnsupportedError(
            f"a file of the module {type(obj).__name__}",
            limit="files of shares hold no code",
            remedy="save model.state_dict(), and load it into a module of the same architecture",
        )
    number = communicator.get().broadcast_obj(secrets.token_hex(16), 0)
    save_closure(_shares(obj, number), f, **kwargs)
    communicator.get().barrier()


def load(f: Any, load_closure: Callable[..., Any] = torch.load, **kwargs: Any) -> Any:
    """Returns what `save` wrote at this party, in a session like that one.

    All parties load at once, and compare whether their files are of the same call of `save`.
    """
    if "src" in kwargs:
        raise RefusedSyntax("src", limit="load reads shares", remedy="use crypten.load_from_party")
    loaded = load_closure(f, **kwargs)
    numbers: list[str] = []
    _mapped(loaded, _is_share, lambda one: numbers.append(one[MARK]))
    items = {f"share {i}": f"call {number}" for i, number in enumerate(numbers)}
    agree(
        current_session().mesh,
        items,
        topic="crypten.load",
        remedy="give each party the file that the same call of crypten.save wrote there",
    )
    return _mapped(loaded, _is_share, _secret)


def _shares(obj: Any, number: str) -> Any:
    """Returns the object with this party's shares in the places of secret tensors."""

    def share(tensor: CrypTensor) -> dict[str, Any]:
        if tensor.holds_bits:
            return {MARK: number, "bits": tensor.scale_bits, **described(tensor.planes)}
        return {MARK: number, **described(tensor.secret)}

    return _mapped(obj, lambda one: isinstance(one, CrypTensor), share)


def _is_share(obj: Any) -> bool:
    return isinstance(obj, dict) and MARK in obj


def _secret(share: dict[str, Any]) -> CrypTensor:
    secret = restored(share)
    if "bits" not in share:
        return CrypTensor.of(secret)
    made: CrypTensor = object.__new__(MPCTensor).of_planes(secret, share["bits"])
    return made


def _mapped(obj: Any, applies: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Returns the object with what the test applies to changed, also in lists and dicts."""
    if applies(obj):
        return change(obj)
    if isinstance(obj, dict):
        return type(obj)((name, _mapped(one, applies, change)) for name, one in obj.items())
    if isinstance(obj, list | tuple):
        return type(obj)(_mapped(one, applies, change) for one in obj)
    return obj
