"""Objects that parties send each other, as JSON: none of them can hold code."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError, FrameRejected, Party

LONGEST_OBJECT = 1 << 24
LIMIT = f"1 to {LONGEST_OBJECT} bytes"
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
KINDS = {kind.__name__: kind for kind in (list, tuple, set)}


def packed(obj: Any) -> bytes:
    """Returns the bytes of an object."""
    try:
        data = json.dumps(_tagged(obj)).encode()
    except TypeError as error:
        raise ConfigError(
            f"an object of {type(obj).__name__}",
            limit="parties send each other numbers, texts, bytes, tensors, None, and lists, "
            "tuples, sets and dicts of them",
            remedy="every party builds a model itself",
        ) from error
    if len(data) > LONGEST_OBJECT:
        raise ConfigError(f"an object of {len(data)} bytes", limit=LIMIT)
    return data


def unpacked(data: bytes, src: int) -> Any:
    """Returns the object in what a party has sent, which may be anything."""
    try:
        return _untagged(json.loads(data))
    except (ValueError, TypeError, LookupError, RuntimeError, RecursionError):
        raise FrameRejected(
            Party(src) + " sent no object of numbers, texts, tensors, lists and dicts", party=src
        ) from None


def _tagged(obj: Any) -> Any:
    """Returns the object as JSON has it; what is more than a number or text as [kind, contents]."""
    if obj is None or type(obj) in (bool, int, float, str):
        return obj
    if isinstance(obj, bytes):
        return ["bytes", b64encode(obj).decode()]
    if isinstance(obj, Tensor):
        return ["tensor", *_tensor_tag(obj)]
    if isinstance(obj, dict):
        return ["dict", [[_tagged(name), _tagged(one)] for name, one in obj.items()]]
    for name, kind in KINDS.items():
        if isinstance(obj, kind):
            return [name, [_tagged(one) for one in obj]]
    raise TypeError(type(obj).__name__)


def _tensor_tag(tensor: Tensor) -> tuple[str, list[int], str]:
    plain = tensor.detach().cpu().contiguous()
    name = str(plain.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise TypeError(name)
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return name, list(plain.shape), b64encode(data).decode()


def _untagged(tagged: Any) -> Any:
    if not isinstance(tagged, list):
        if isinstance(tagged, dict):
            raise TypeError("a dict without its kind")
        return tagged
    kind, *contents = tagged
    if kind == "bytes":
        return b64decode(contents[0], validate=True)
    if kind == "tensor":
        name, shape, text = contents
        data, dtype = bytearray(b64decode(text, validate=True)), DTYPES[name]
        values = torch.frombuffer(data, dtype=dtype) if data else torch.zeros(0, dtype=dtype)
        return values.reshape(shape)
    if kind == "dict":
        return {_untagged(name): _untagged(one) for name, one in contents[0]}
    return KINDS[kind](_untagged(one) for one in contents[0])
