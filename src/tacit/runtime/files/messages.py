"""The message, as JSON, that every party sends before a file is shared.

All messages have the same fields, so that all parties know what each expects and decide the same.
Decoding is strict: anything that `encode_message` would not write is a ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ...nn.checkpoint_contents import DTYPES
from .announcement import Announcement, Dims, Expectation, TensorEntry

MOST_BYTES = 1 << 20  # of a message
MOST_DIMS = 16
MOST_NAME = 256  # characters
MOST_REASON = 1000  # characters
MOST = 1 << 62  # of any number
FORMS = {"tensor": [""], "pictures": ["images", "labels"], "dict": None}  # and their names

T = TypeVar("T")


@dataclass(frozen=True)
class LoadMessage:
    """Whose file it is, what this party expects of it, and what it declares of its columns; from
    the owner also what it holds, or why it is rejected.
    """

    owner: int
    expected: Expectation
    columns: Mapping[str, str] | None = None
    announced: Announcement | None = None
    failure: str = ""


def encode_message(word: LoadMessage) -> bytes:
    expected, announced = word.expected, word.announced
    fields: dict[str, Any] = {
        "owner": word.owner,
        "shape": expected.shape,
        "dtype": _by_name(expected.dtype, _name),
        "limit": expected.limit,
        "columns": None if word.columns is None else list(word.columns.items()),
        "failure": word.failure,
        "file": None,
    }
    if announced is not None:
        tensors = [(e.name, e.shape, _name(e.dtype)) for e in announced.entries]
        fields["file"] = {
            "form": announced.form,
            "classes": announced.classes,
            "tensors": tensors,
        }
    return json.dumps(fields).encode()


def decode_message(data: bytes) -> LoadMessage:
    _require(len(data) <= MOST_BYTES, f"names and shapes take more than {MOST_BYTES} bytes")
    fields = _object(json.loads(data.decode()), "owner shape dtype limit columns failure file")
    expected = read_expectation(fields["shape"], fields["dtype"], fields["limit"])
    failure, file = _text(fields["failure"], MOST_REASON), fields["file"]
    announced = None if file is None else _announcement(file)
    columns = None if fields["columns"] is None else _declared(fields["columns"])
    return LoadMessage(_integer(fields["owner"]), expected, columns, announced, failure)


def read_expectation(shape: Any, dtype: Any, limit: Any) -> Expectation:
    shapes, dtypes = _by_name(shape, _dims), _by_name(dtype, _dtype)
    return Expectation(shapes, dtypes, _integer(limit))


def _declared(written: Any) -> dict[str, str]:
    pairs = [_list(pair, 2) for pair in _list(written, MOST_BYTES)]
    columns = {_text(name, MOST_NAME): _text(kind, MOST_BYTES) for name, kind in pairs}
    _require(len(columns) == len(pairs), "a column comes twice")
    return columns


def _announcement(file: Any) -> Announcement:
    fields = _object(file, "form classes tensors")
    form = _text(fields["form"], MOST_NAME)
    entries = tuple(_entry(row) for row in _list(fields["tensors"], MOST_BYTES))
    _require(form in FORMS, "the form is unknown")
    names = [entry.name for entry in entries]
    _require(FORMS[form] in (None, names), "the form has tensors of other names")
    _require(len(set(names)) == len(names), "a name comes twice")
    return Announcement(form, entries, _integer(fields["classes"]))


def _entry(row: Any) -> TensorEntry:
    name, shape, dtype = _list(row, 3)
    sizes = tuple(_integer(size) for size in _list(shape, MOST_DIMS))
    return TensorEntry(_text(name, MOST_NAME), sizes, _dtype(dtype))


def _by_name(written: Any, of: Callable[[Any], T]) -> T | dict[str, T] | None:
    """Decodes one value for all tensors, values by name, or None."""
    if isinstance(written, Mapping):
        return {_text(name, MOST_NAME): of(each) for name, each in written.items()}
    return None if written is None else of(written)


def _dims(written: Any) -> Dims:
    sizes = _list(written, MOST_DIMS)
    return tuple(None if size is None else _integer(size) for size in sizes)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(written: Any) -> torch.dtype:
    _require(_text(written, MOST_NAME) in DTYPES, f"a dtype is one of {', '.join(DTYPES)}")
    return DTYPES[written]


def _integer(written: Any) -> int:
    _require(type(written) is int and 0 <= written < MOST, "a size is an integer from 0 on")
    return written


def _text(written: Any, most: int) -> str:
    _require(
        isinstance(written, str) and len(written) <= most and written.isprintable(),
        f"a text has at most {most} characters, all of which can be printed",
    )
    return written


def _list(written: Any, most: int) -> list[Any]:
    _require(
        isinstance(written, list) and len(written) <= most, f"a list has at most {most} entries"
    )
    return written


def _object(written: Any, fields: str) -> dict[str, Any]:
    _require(
        isinstance(written, dict) and written.keys() == set(fields.split()),
        f"an object has the fields {fields}",
    )
    return written


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)
