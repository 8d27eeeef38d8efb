"""Oblivious transfers from seeds, and products made of them; `ring.reference.ot` has the equations.

The two sides of a transfer are the one that chooses ("receive") and the other ("send"). All tensors
are contiguous and on the CPU. Keys of the streams are used with each operation number once: never
call a function for rows twice with the same seeds and the same number.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import WORD, OtProduct
from ..ring.reference import ot as reference
from .backend import address, load_native

COLUMNS = 128  # bits of a row, and the security of the transfers
DEPTHS = (1, 2, 4, 8)  # of a tree of seeds
NO_OFFSET = torch.zeros(2, dtype=torch.int64)


def ot_receive_rows(seeds: Tensor, choices: Tensor, *, operation: int) -> tuple[Tensor, Tensor]:
    """Returns the message (trees, words) and the rows (64 words, 2) for packed choice bits."""
    depth = _depth(seeds)
    _check(choices, (choices.numel(),), "choices")
    native = _native()
    if native is None:
        return reference.receive_rows(seeds, choices, operation=operation)
    words = choices.numel()
    message = torch.empty(len(seeds), words, dtype=torch.int64)
    rows = torch.empty(words * WORD, 2, dtype=torch.int64)
    places = address(choices), words, address(message), address(rows)
    native.ot_receive_rows(address(seeds), depth, operation, *places)
    return message, rows


def ot_send_rows(seeds: Tensor, offset: Tensor, message: Tensor, *, operation: int) -> Tensor:
    """Returns the rows of the other side, of which each chosen one is XORed with the offset."""
    depth, words = _depth(seeds), message.shape[-1]
    _check(offset, (2,), "offset")
    _check(message, (len(seeds), words), "message")
    native = _native()
    if native is None:
        return reference.send_rows(seeds, offset, message, operation=operation)
    rows = torch.empty(words * WORD, 2, dtype=torch.int64)
    places = address(offset), words, address(message), address(rows)
    native.ot_send_rows(address(seeds), depth, operation, *places)
    return rows


def ot_bits(key: Tensor, rows: Tensor, offset: Tensor = NO_OFFSET, *, first: int) -> Tensor:
    """Returns one bit of the hash of each row ^ offset, 64 in a word.

    first: the number of the first transfer; the public key and it make every hash another function.
    """
    words = len(rows) // WORD
    _check_hash(key, rows, offset, words * WORD)
    native = _native()
    if native is None:
        return reference.bits(key, rows, offset, first=first)
    out = torch.empty(words, dtype=torch.int64)
    places = address(key), address(rows), first, address(offset), words, address(out)
    native.ot_bits(*places)
    return out


def ot_multiply_send(
    product: OtProduct, key: Tensor, rows: Tensor, offset: Tensor, values: Tensor, *, first: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns corrections (words, halves) for the other side, and a share of the product.

    values: the right matrix. The two shares add up to the product in the ring.
    """
    product.check()
    _check_hash(key, rows, offset, product.choice_words * WORD)
    _check(values, product.right, "values", product.ring.dtype)
    native = _native()
    if native is None:
        return reference.multiply_send(product, key, rows, offset, values, first=first)
    words = torch.empty(product.words, dtype=product.ring.dtype)
    halves = torch.empty(product.halves, dtype=half_dtype(product))
    share = torch.empty(product.result, dtype=product.ring.dtype)
    kernel = native.ot_multiply_send64 if product.ring.bits == 64 else native.ot_multiply_send32
    places = address(key), address(rows), first, address(offset), address(values)
    made = address(words), address(halves), address(share)
    kernel(*places, *product[:5], *made)
    return words, halves, share


def ot_multiply_receive(
    product: OtProduct,
    key: Tensor,
    rows: Tensor,
    choices: Tensor,
    words: Tensor,
    halves: Tensor,
    *,
    first: int,
) -> Tensor:
    """Returns the share of the side whose packed choices are the left matrix."""
    product.check()
    _check_hash(key, rows, NO_OFFSET, product.choice_words * WORD)
    _check(choices, (product.choice_words,), "choices")
    _check(words, product.words, "words", product.ring.dtype)
    _check(halves, product.halves, "halves", half_dtype(product))
    native = _native()
    if native is None:
        return reference.multiply_receive(product, key, rows, choices, words, halves, first=first)
    share = torch.empty(product.result, dtype=product.ring.dtype)
    is_wide = product.ring.bits == 64
    kernel = native.ot_multiply_receive64 if is_wide else native.ot_multiply_receive32
    places = address(key), address(rows), first, address(choices)
    made = address(words), address(halves), address(share)
    kernel(*places, *product[:5], *made)
    return share


def half_dtype(product: OtProduct) -> torch.dtype:
    """Returns the dtype of corrections that take half a word."""
    return reference.HALF_DTYPE[product.ring.bits]


def _native() -> ModuleType | None:
    """Returns the compiled kernels, or None where they are missing or the host has no AES."""
    native = load_native()
    return native if hasattr(native, "ot_bits") else None


def _depth(seeds: Tensor) -> int:
    """Returns the depth of the trees; raises unless they make 128 columns."""
    depth = seeds.shape[1].bit_length() - 1 if seeds.ndim == 3 else 0
    if depth not in DEPTHS:
        limit = f"trees have a depth of {', '.join(map(str, DEPTHS))}"
        raise ConfigError(f"seeds of shape {tuple(seeds.shape)}", limit=limit)
    _check(seeds, (COLUMNS // depth, 1 << depth, 2), "seeds")
    return depth


def _check_hash(key: Tensor, rows: Tensor, offset: Tensor, count: int) -> None:
    _check(key, (2,), "key")
    _check(offset, (2,), "offset")
    _check(rows, (count, 2), "rows")


def _check(
    tensor: Tensor, shape: tuple[int, ...], name: str, dtype: torch.dtype = torch.int64
) -> None:
    """Raises unless a tensor has this layout, on the CPU and contiguous."""
    found = tuple(tensor.shape), tensor.dtype, tensor.device.type, tensor.is_contiguous()
    if found != (shape, dtype, "cpu", True):
        limit = f"contiguous {dtype} of shape {shape} on the CPU is needed"
        raise ConfigError(f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)}", limit=limit)
