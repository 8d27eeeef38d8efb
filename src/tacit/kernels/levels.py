"""Levels of the compiled kernels: builds of the same sources for ever more capable processors.

A level has the instructions that it needs in its build: on x86-64 `sse4`, `avx2`, `avx512`, `vnni`
(AVX-512, too) and `amx`, on ARM `neon`, `dotprod` and `i8mm`. The compiled module `processor` knows
which of them this processor runs (csrc/processor.h). `pip install .` builds the level of its own
machine, a wheel of `make wheel` has them all. All levels compute the same numbers.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..errors import ConfigError
from .openssl_aes import stream_aes128_ctr

BUILDS = {"amx": "vnni"}  # tiles are part of the build for VNNI, and used if the system permits it


def known_levels() -> dict[str, bool]:
    """Returns whether this processor runs each level of its architecture, the slowest first.

    Raises ImportError if nothing is compiled.
    """
    return dict(import_module(".processor", __package__).levels)


def usable_levels() -> list[str]:
    """Returns the levels that this processor runs and this installation has, the fastest first."""
    known = known_levels()
    return [name for name in reversed(known) if known[name] and _is_installed(name)]


def best_level() -> str:
    """Returns the fastest usable level; ImportError says why there is none."""
    if usable := usable_levels():
        return usable[0]
    installed = [name for name in known_levels() if _is_installed(name)]
    built = f"built for {', '.join(installed)}, which this processor lacks" if installed else "none"
    raise ImportError(f"kernels: {built}")


def check_level(name: str) -> None:
    """Raises ConfigError unless the level is usable."""
    if name in (usable := usable_levels()):
        return
    limit = f"usable are {', '.join(usable) or 'none'}"
    if not known_levels()[name]:
        raise ConfigError(f"this processor cannot run the kernels of level {name}", limit=limit)
    raise ConfigError(
        f"this installation has no kernels of level {name}",
        limit=limit,
        remedy="install a wheel of `make wheel`, which has all levels",
    )


def load_level(name: str) -> ModuleType:
    """Returns the compiled kernels of a level, which the processor must be able to run."""
    native = import_module(_module(name), __package__)
    native.use_amx(name == "amx")
    if not native.has_aes:
        setattr(native, stream_aes128_ctr.__name__, stream_aes128_ctr)
    return native


def _module(name: str) -> str:
    return f".native_{BUILDS.get(name, name)}"


def _is_installed(name: str) -> bool:
    return find_spec(_module(name), __package__) is not None
