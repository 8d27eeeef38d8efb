"""The reader for a path, and the checks that no file escapes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from ...fixedpoint import Numbers
from .contents import Contents, Options, Refusal
from .csv_tables import read_csv
from .idx import read_idx
from .numpy_files import read_npy, read_npz
from .parquet import read_parquet
from .pictures import read_pictures
from .safetensors_files import read_safetensors

Reader = Callable[[Path, Options], Contents]

READERS: Mapping[str, Reader] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".safetensors": read_safetensors,
}
TABLES = (read_csv, read_parquet)
_IDX = re.compile(r"(\.idx\d*|[.-]idx\d*-[a-z]+|-ubyte)(\.gz)?$")


def read(path: str | Path | None, options: Options) -> Contents:
    """What a file or folder holds. Whatever is wrong with it is a Refusal."""
    if path is None:
        raise Refusal("its owner gives no path")
    path = Path(path)
    reader = _reader(path)
    if options.columns is not None and reader not in TABLES:
        raise Refusal("columns= is for .csv and .parquet")
    if options.size is not None and reader is not read_pictures:
        raise Refusal("size= is for folders of pictures")
    if options.header is not None and reader is not read_csv:
        raise Refusal("header= is for .csv")
    try:
        return reader(path, options)
    except Refusal:
        raise
    except MemoryError:
        raise Refusal("it does not fit in the owner's memory") from None
    except Exception as error:  # its own words may quote the file, or its path
        if isinstance(error, OSError) and error.errno:
            raise Refusal(f"it cannot be read ({os.strerror(error.errno)})") from None
        raise Refusal(f"it is damaged, or of another format ({type(error).__name__})") from None


def _reader(path: Path) -> Reader:
    if path.is_dir():
        return read_pictures
    if not path.exists():
        raise Refusal("there is no such file")
    if not path.is_file():
        raise Refusal("it is neither a file nor a folder")
    if _IDX.search(path.name.lower()):
        return read_idx
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise Refusal(f"its suffix is none of {known}, .idx, -ubyte, .idx.gz, -ubyte.gz")
    return reader


def check_values(n: Numbers, contents: Contents) -> None:
    """Refuses what a secret cannot hold, naming the tensor and the place."""
    for name, tensor in contents.tensors.items():
        if not tensor.numel():
            continue
        what = f"{name!r}" if name else "the tensor"
        if tensor.dtype == torch.bool:
            _within(tensor.view(torch.uint8), 1, what, "neither True nor False")
        elif tensor.is_floating_point():
            why = f"not finite or beyond 2^{n.range_bits}: scale it, or give more range_bits"
            _within(tensor, 2**n.range_bits, what, why)
        else:
            bits = n.range_bits + n.fraction_bits
            _within(tensor, 2**bits, what, f"an integer beyond 2^{bits}, the range of this session")


def _within(tensor: Tensor, most: int, what: str, why: str) -> None:
    low, high = torch.aminmax(tensor)
    if -most <= low.item() and high.item() <= most:
        return
    wide = tensor.to(torch.float64)
    wrong = ~((wide >= -most) & (wide <= most))
    place = torch.unravel_index(wrong.flatten().to(torch.uint8).argmax(), tensor.shape)
    raise Refusal(f"{what} at {tuple(int(i) for i in place)} is {why}")
