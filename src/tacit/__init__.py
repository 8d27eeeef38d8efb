"""Private machine learning for PyTorch: parties compute on shares, and nobody sees the data.

What needs torch is imported when it is first asked for, so that the command line answers at once.
"""

import importlib.util
import typing

from . import errors

if typing.TYPE_CHECKING:
    from .nn.calibrate import calibrate
    from .runtime.deploy.network_session import connect
    from .runtime.launch.local_run import preprocess, run
    from .runtime.rehearsal.rehearse import check
    from .runtime.session import Session
    from .tensor import SecretTensor

__version__ = "0.1.0"
__all__ = [
    "SecretTensor",
    "Session",
    "__version__",
    "calibrate",
    "check",
    "connect",
    "errors",
    "preprocess",
    "run",
]

_HOMES = {
    "SecretTensor": "tensor",
    "Session": "runtime",
    "calibrate": "nn",
    "check": "runtime",
    "connect": "runtime",
    "preprocess": "runtime",
    "run": "runtime",
}


def __getattr__(name: str) -> typing.Any:
    """A public name, or a package by its name."""
    if name in _HOMES:
        found = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = found
        return found
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
