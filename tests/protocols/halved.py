"""Dealt values of a few words are halved between two evaluators, as long ones are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from tacit.protocols.masked import deal


@contextmanager
def halved(bits: int = 64) -> Iterator[None]:
    """Within the block, dealt values from so many bits on are halved."""
    deal.portions.cache_clear()
    with patch.object(deal, "HALVED_BITS", bits):
        yield
    deal.portions.cache_clear()


@pytest.fixture
def short_halves() -> Iterator[None]:
    """Halves all dealt values."""
    with halved():
        yield
