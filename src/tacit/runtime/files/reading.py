"""Chooses the reader for a path, and checks every value that it returns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import RangeError
from ...fixedpoint import Numbers
from ...fixedpoint.encoding import TOO_LARGE, first_position, in_words, require_in_range
from .arrays import read_idx, read_npy, read_npz, read_safetensors
from .arrow_table import read_parquet
from .contents import Contents, FileRejected, Options
from .csv_table import read_csv
from .given import read_given
from .pictures import read_pictures

Reader = Callable[[Path, Options], Contents]

READERS: Mapping[str, Reader] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".tsv": read_csv,
    ".tsv.gz": read_csv,
    ".parquet": read_parquet,
    ".safetensors": read_safetensors,
}
OTHERS = {  # files that people have instead, and what to do with them
    ".zip": "it is an archive, which may hold several files: unpack it",
    ".xls": "it is a workbook, which may hold several tables: save one as .csv",
    ".xlsx": "it is a workbook, which may hold several tables: save one as .csv",
}
TABLES = (read_csv, read_parquet, read_given)
_IDX = re.compile(r"(\.idx\d*|[.-]idx\d*-[a-z]+|-ubyte)(\.gz)?$")


def read(source: Any, options: Options) -> Contents:
    """Returns the contents of a file, a folder or data in memory.

    Whatever is wrong with it is FileRejected.
    """
    if source is None:
        raise FileRejected("its owner gives no path")
    try:
        if not isinstance(source, str | os.PathLike):
            _check_options(read_given, options)
            return read_given(source, options)
        path = Path(source)
        reader = _reader(path)
        _check_options(reader, options)
        return reader(path, options)
    except FileRejected:
        raise
    except MemoryError:
        raise FileRejected("it does not fit in the owner's memory") from None
    except Exception as error:
        raise rejection_of(error) from None


def rejection_of(error: Exception) -> FileRejected:
    """Returns what all parties are told of an error, whose text may quote the file or its path."""
    if isinstance(error, OSError) and error.errno:
        return FileRejected(f"it cannot be read ({os.strerror(error.errno)})")
    return FileRejected(f"it is damaged, or of another format ({type(error).__name__})")


def _check_options(reader: Callable[..., Contents], options: Options) -> None:
    """Rejects options that the reader would not look at."""
    if options.is_of_a_table and reader not in TABLES:
        raise FileRejected("columns=, without= and missing= are for tables: .csv, .parquet, frames")
    if options.size is not None and reader is not read_pictures:
        raise FileRejected("size= is for folders of pictures")
    if (options.header is not None or options.csv is not None) and reader is not read_csv:
        raise FileRejected("header= and csv= are for .csv")


def _reader(path: Path) -> Reader:
    if path.is_dir():
        return read_pictures
    if not path.exists():
        raise FileRejected("there is no such file")
    if not path.is_file():
        raise FileRejected("it is neither a file nor a folder")
    if _IDX.search(path.name.lower()):
        return read_idx
    name = path.name.lower()
    reader = next((reader for end, reader in READERS.items() if name.endswith(end)), None)
    if reader is None:
        if path.suffix.lower() in OTHERS:
            raise FileRejected(OTHERS[path.suffix.lower()])
        known = ", ".join(READERS)
        raise FileRejected(f"its suffix is none of {known}, .idx, -ubyte, .idx.gz, -ubyte.gz")
    return reader


def check_values(n: Numbers, contents: Contents) -> None:
    """Rejects numbers that a secret cannot hold. Only the owner is told the position."""
    for name, tensor in contents.tensors.items():
        what = f"{name!r}" if name else "the tensor"
        if tensor.dtype == torch.bool:
            _check_truth(tensor, what)
            continue
        try:
            require_in_range(n, tensor, n.bits_of(tensor.dtype), what)
        except RangeError as error:
            found = f"beyond {error.limit}" if error.number == TOO_LARGE else error.number
            reason = f"{what} has a number that is {found}: {error.remedy}"
            raise FileRejected(reason, place=in_words(error.position or ())) from None


def _check_truth(tensor: Tensor, what: str) -> None:
    """Rejects bytes of truth values that are neither 0 nor 1."""
    wrong = tensor.view(torch.uint8) > 1
    if bool(wrong.any()):
        reason = f"{what} has a truth value that is neither True nor False"
        raise FileRejected(reason, place=in_words(first_position(wrong)))
