"""Arguments of statistics and metrics that have one entry for each row."""

from __future__ import annotations

from torch import Tensor

from ..errors import ConfigError


def require_one_a_row(function: str, rows: Tensor, **given: Tensor) -> None:
    """Raises ConfigError for shapes other than that of `rows`: they would broadcast."""
    for name, tensor in given.items():
        if tensor.shape != rows.shape:
            raise ConfigError(
                f"{name} has shape {tuple(tensor.shape)}",
                limit=f"{tuple(rows.shape)} is needed, one entry for each row",
                remedy=f"{name}.squeeze(1) makes a vector of a matrix with one column",
                subject=function,
            )
