"""What gates on planes ask of their arguments: how many rows, and int64 tensors that have them."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring.reference import gates as reference

MAX_DIGIT = 7
MAX_FAN_IN = 9

Form = tuple[int, int, int]  # rows that are dealt for nodes, of their inputs, of their outputs


@cache
def table_form(digits: tuple[int, ...]) -> tuple[int, int]:
    """How many bits these digits have, and how many rows their tables."""
    if not digits or min(digits) < 1 or max(digits) > MAX_DIGIT:
        raise ConfigError(f"digits={digits}: each has 1..{MAX_DIGIT} bits")
    return sum(digits), reference.num_table_rows(digits)


@cache
def node_form(sizes: tuple[int, ...]) -> Form:
    _check_sizes(sizes)
    return reference.num_products(sizes), 2 * sum(sizes) - 1, 2 * len(sizes) - 1


@cache
def and_form(sizes: tuple[int, ...]) -> Form:
    _check_sizes(sizes)
    return reference.num_and_products(sizes), sum(sizes), len(sizes)


def _check_sizes(sizes: tuple[int, ...]) -> None:
    if not sizes or min(sizes) < 2 or max(sizes) > MAX_FAN_IN:
        raise ConfigError(f"sizes={sizes}: each is 2..{MAX_FAN_IN}")


def num_columns(planes: Tensor) -> int:
    if planes.ndim != 2:
        raise ConfigError(f"planes of shape {tuple(planes.shape)}: (planes, words) is needed")
    return planes.shape[1]


def checked_planes(words: int, *given: tuple[str, Tensor, int]) -> list[Tensor]:
    """The planes, contiguous, after a check of dtypes and shapes; each with name and rows."""
    for name, planes, rows in given:
        if planes.dtype != torch.int64:
            raise ConfigError(f"{name}: dtype={planes.dtype}: planes are int64")
        if planes.shape != (rows, words):
            found = tuple(planes.shape)
            raise ConfigError(f"{name} of shape {found}: {rows} planes of {words} words are needed")
    return [planes.contiguous() for _, planes, _ in given]


def output_like(out: Tensor | None, like: Tensor) -> Tensor:
    """Where to write: what was given, after a check, or new memory."""
    if out is None:
        return torch.empty_like(like)
    if out is like:
        return out
    if out.dtype != like.dtype or out.shape != like.shape or not out.is_contiguous():
        raise ConfigError(f"out: a contiguous int64 tensor of shape {tuple(like.shape)} is needed")
    return out
