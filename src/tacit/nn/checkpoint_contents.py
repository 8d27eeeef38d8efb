"""The contents of a checkpoint: secret and public tensors by name, and settings as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..errors import CheckpointRejected, ConfigError
from ..fixedpoint import Numbers, PlainNumbers, Value
from ..fixedpoint.extended.moments import ExtendedValue
from ..fixedpoint.flatten import full_share
from ..fixedpoint.lazy import LazyValue
from ..protocols import Arith, Bool, Plain
from ..protocols.forms import Held
from ..tensor import SecretTensor

MOST = 1 << 48  # of a dimension
MOST_PLACES = 64
UNFIT = "its parts do not fit its header"
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    )
}


@dataclass
class SavedState:
    """What a checkpoint saves: tensors by name, and `plain`, anything JSON can hold.

    Secrets are tensors when they are saved, and values after they are read.
    """

    tensors: dict[str, Any] = field(default_factory=dict)
    plain: dict[str, Any] = field(default_factory=dict)

    def table(self, *, secrets: bool = True) -> list[dict[str, Any]]:
        """Returns what is public about the tensors, in the order of `body`."""
        return [{"name": name, **_entry(one, secrets)} for name, one in self.tensors.items()]

    def body(self, *, secrets: bool = True) -> Iterator[bytes]:
        """Yields the bytes of the public tensors, and of this party's parts of the secrets."""
        for tensor in self.tensors.values():
            if secrets or _value(tensor) is None:
                yield from map(_raw, _parts(tensor))


def settle(n: Numbers, tensors: Mapping[str, Tensor]) -> None:
    """Computes all pending divisions of secrets: shares are saved without any. 1 round or none."""
    secrets = (_share(x.value) for x in tensors.values() if isinstance(x, SecretTensor))
    shares = {id(share): share for share in secrets if isinstance(share, Arith)}
    with n.protocol.parallel():
        for share in shares.values():
            if share.pending or share.dealer is not None:
                n.protocol.settled(share)


def _share(value: Value) -> Arith | Bool | Plain:
    """The share with all its bits; that of a lazy value alone would be rounded first."""
    return value.share if _is_plain(value) else full_share(value)


def _is_plain(value: Value) -> bool:
    return not isinstance(value, LazyValue) and isinstance(value.share, Plain)


def _parts_here(share: Arith | Bool | Plain) -> list[int]:
    """The parts that are saved here: a shape alone, at a party of an enclave, has none."""
    return [i for i, part in sorted(share.parts.items()) if not part.is_meta]


def _value(tensor: Any) -> Value | None:
    """The value of a secret, None for a public tensor."""
    value = tensor.value if isinstance(tensor, SecretTensor) else tensor
    return value if isinstance(value, Value) else None


def _entry(tensor: Any, secrets: bool) -> dict[str, Any]:
    shape, dtype = list(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise ConfigError(f"a tensor of {tensor.dtype} cannot be saved", subject="save")
    entry: dict[str, Any] = {"shape": shape, "dtype": dtype}
    if (value := _value(tensor)) is not None:
        share = _share(value)
        entry["parts"] = _parts_here(share) if secrets else []
        if isinstance(value, ExtendedValue):
            entry["places"] = value.fraction_bits
        if isinstance(share, Arith):
            entry["limit"] = str(share.limit)
        if isinstance(share, Plain):
            entry["plain"] = True
    return entry


def _parts(tensor: Any) -> list[Tensor]:
    value = _value(tensor)
    if value is None:
        return [tensor.detach()]
    share = _share(value)
    parts = [share.parts[i] for i in _parts_here(share)]
    if isinstance(share, Plain):  # its memory may be limited
        return [share.memory.read("save", part) for part in parts]
    return parts


def _raw(tensor: Tensor) -> bytes:
    data: bytes = tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return data


def unpack_tensors(
    n: Numbers, table: Any, body: bytearray, parts: Sequence[int] | None = None
) -> dict[str, Any]:
    """Returns values and public tensors by name, from an authenticated table and body.

    A secret has these parts, by default those of the protocol at hand; with none it is zero here.

    Everything is checked all the same: nonsense is a ValueError, or CheckpointRejected.
    """
    place = 0
    held = sorted(n.protocol.own_parts if parts is None else parts)

    def take(shape: list[int], dtype: torch.dtype) -> Tensor:
        nonlocal place
        size = prod(shape) * dtype.itemsize
        if place + size > len(body):
            raise CheckpointRejected(UNFIT, told=UNFIT)
        raw = torch.frombuffer(body[place : place + size] or bytearray(1), dtype=torch.uint8)
        place += size
        return raw[:size].view(dtype).reshape(shape)

    made: dict[str, Any] = {}
    for entry in table:
        _check(entry, held, taken=made)
        made[entry["name"]] = _rebuild(n, entry, take)
    if place != len(body):
        raise CheckpointRejected(UNFIT, told=UNFIT)
    return made


def _check(entry: dict[str, Any], held: list[int], *, taken: Mapping[str, Any]) -> None:
    """Raises ValueError for an entry that `_entry` would not write at this party."""
    name, shape, places = entry["name"], entry["shape"], entry.get("places", 0)
    sizes = isinstance(shape, list) and all(type(s) is int and 0 <= s < MOST for s in shape)
    whole = entry.get("parts", held) == held and ("places" not in entry or "limit" in entry)
    named = isinstance(name, str) and name not in taken
    if not (named and sizes and whole and type(places) is int and 0 <= places < MOST_PLACES):
        raise ValueError("an entry of the table makes no sense")
    if "limit" in entry and not (isinstance(entry["limit"], str) and int(entry["limit"]) >= 0):
        raise ValueError("a limit is a number from 0 on")


def _rebuild(n: Numbers, entry: dict[str, Any], take: Any) -> Value | Tensor:
    shape, dtype, device = entry["shape"], DTYPES[entry["dtype"]], n.protocol.device
    if "parts" not in entry:
        plain: Tensor = take(shape, dtype)
        return plain
    if entry.get("plain") is True:
        if not isinstance(n, PlainNumbers):
            raise ValueError("values of an enclave")
        return n.value(take(shape, dtype) if entry["parts"] else torch.empty(shape, dtype=dtype))
    if "limit" not in entry:
        words = -(-torch.Size(shape).numel() // 64)
        planes = {i: take([1, words], torch.int64).to(device) for i in entry["parts"]}
        none = {n.protocol.rank: torch.zeros(1, words, dtype=torch.int64)}
        return Value(Bool(planes or none, shape), dtype)
    parts = {i: take(shape, n.ring.dtype).to(device) for i in entry["parts"]}
    nothing = {n.protocol.rank: torch.zeros(shape, dtype=n.ring.dtype)}
    share = Arith(parts or nothing, n.ring, limit=int(entry["limit"]))
    return (
        ExtendedValue(n, share, entry["places"], dtype)
        if "places" in entry
        else Value(share, dtype)
    )


def refresh(n: Numbers, value: Value) -> Value:
    """Returns the same value in fresh parts. 1 round or none."""
    if _is_plain(value):
        return value
    return _with_share(n, value, n.protocol.refresh(full_share(value)))


def convert(n: Numbers, values: Mapping[str, Value], held: Held) -> dict[str, Value]:
    """Returns values whose parts the members hold as `held` says, in this session's form. 1 round.

    Without messages if the protocol shares inputs without any.
    """
    p, shares = n.protocol, {name: full_share(value) for name, value in values.items()}
    made: dict[str, Arith | Bool] = {}
    with p.parallel():
        for name, share in shares.items():
            if isinstance(share, Arith):
                made[name] = p.from_parts(share.parts, held, share.shape, limit=share.limit)
            else:
                made[name] = p.from_bit_parts(share.parts, held, share.shape)
    return {name: _with_share(n, value, made[name]) for name, value in values.items()}


def _with_share(n: Numbers, value: Value, share: Arith | Bool) -> Value:
    if isinstance(value, ExtendedValue) and isinstance(share, Arith):
        return ExtendedValue(n, share, value.fraction_bits, value.dtype)
    return Value(share, value.dtype)
