"""Fixtures of several tests of protocols."""

from functools import partial

import pytest

from tacit import kernels


@pytest.fixture
def encoding(monkeypatch):
    """Encodes operands, as all processors do that have dot products of bytes."""
    if not {"VNNI", "DotProd"} & {*kernels.backend.features()}:
        for name in ("plan_matmul", "plan_conv"):
            monkeypatch.setattr(kernels, name, partial(getattr(kernels, name), method="encoded"))
