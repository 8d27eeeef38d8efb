"""What kernels are compiled for, and the list of those that this machine needed before.

The list is a file beside Triton's cache of compiled kernels, for all processes of a user. It names
kernels, types and constants, such as sizes of tiles; it holds no values. A line is a kernel.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from triton import knobs

MOST_LISTED = 384  # kernels; a large network needs some sixty
COMMON = Path(__file__).with_name("common_kernels.jsonl")  # where no list was written yet
INTEGER = 16  # stands for all integers: kernels are not specialized on their values


@dataclass(frozen=True)
class Specification:
    """Everything that decides what Triton compiles, but the device.

    kernel: "module.name" in this package. dtypes: of the pointers, which come first. integers: how
    many of them follow. constants: the rest, in order. options: Triton's, by name.
    """

    kernel: str
    dtypes: tuple[str, ...]
    integers: int
    constants: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    def function(self) -> Any:
        """Returns the Triton function; KeyError or AttributeError if there is none of the name."""
        module, name = self.kernel.split(".")
        found = getattr(sys.modules[f"{__package__}.{module}"], name)
        return getattr(found, "function", found)

    def arguments(self) -> tuple[Any, ...]:
        """Returns arguments for Triton's `warmup`, where a dtype stands for a tensor of it."""
        dtypes = (getattr(torch, name) for name in self.dtypes)
        return *dtypes, *[INTEGER] * self.integers, *self.constants


def specification(
    function: Any,
    dtypes: Iterable[torch.dtype],
    integers: int,
    constants: Iterable[Any],
    options: dict[str, Any],
) -> Specification:
    """Returns what a launch of a function of this package needs."""
    kernel = f"{function.fn.__module__.rsplit('.', 1)[1]}.{function.fn.__name__}"
    names = tuple(str(dtype).removeprefix("torch.") for dtype in dtypes)
    return Specification(kernel, names, integers, tuple(constants), tuple(options.items()))


def list_file(capability: tuple[int, int]) -> Path:
    """Returns the file with the list for GPUs of this compute capability."""
    return folder() / "kernels-sm{}{}.jsonl".format(*capability)


def folder() -> Path:
    """Returns the folder of this package in Triton's cache, which all processes of a user share."""
    return Path(knobs.cache.dir) / "tacit"


def listed(file: Path) -> list[Specification]:
    """Returns the kernels in a list, each once; none that this version of the package lacks."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = list(dict.fromkeys(one for line in lines if (one := _parsed(line)) is not None))
    if len(lines) > 2 * MOST_LISTED:
        _replace(file, found[-MOST_LISTED:])
    return found[-MOST_LISTED:]


def append(file: Path, one: Specification) -> None:
    """Adds a kernel to a list; does nothing if the file cannot be written."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as out:
            out.write(line(one))


def line(one: Specification) -> str:
    """Returns a kernel as a line of a list."""
    return json.dumps(astuple(one)) + "\n"


def _replace(file: Path, kept: list[Specification]) -> None:
    """Shortens a list; other processes see the old one or the new one."""
    made = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        made.write_text("".join(map(line, kept)))
        made.replace(file)


def _parsed(text: str) -> Specification | None:
    """Returns the kernel of a line; None if it is cut off, or of another version."""
    try:
        kernel, dtypes, integers, constants, options = json.loads(text)
        pairs = tuple((str(name), value) for name, value in options)
        one = Specification(kernel, tuple(dtypes), int(integers), tuple(constants), pairs)
        hash(one)
        count = len(dtypes) + one.integers + len(constants)
        fits = one.integers >= 0 and count == len(one.function().arg_names)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return one if fits else None
