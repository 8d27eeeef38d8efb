"""Dtypes of labels and predictions."""

from __future__ import annotations

from torch import Tensor

from ..errors import ConfigError


def require_classes(function: str, **given: Tensor) -> None:
    """Raises ConfigError for floats where numbers of classes belong."""
    for name, classes in given.items():
        if classes.is_floating_point():
            raise ConfigError(
                f"{name} is {classes.dtype}",
                limit="classes are integers or truth values, and labels come first",
                remedy="scores.argmax(1) or scores > 0 makes classes of scores, and labels.long() "
                "of labels that are floats",
                subject=function,
            )
