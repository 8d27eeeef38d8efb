"""Whose line led to an error: the user's, and that of a library between it and Tacit."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import pytest
import torch
from torch import nn

import tacit
from tacit.config import Config
from tacit.errors import UnsupportedOp
from tacit.errors.call_sites import owner_of

LIBRARY = """
import torch

class Layer(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x)
"""


@pytest.fixture
def fancy(tmp_path, monkeypatch):
    """A library as pip would install it."""
    package = tmp_path / "site-packages" / "fancy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .layers import Layer\n")
    (package / "layers.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    yield __import__("fancy")
    for name in ("fancy", "fancy.layers"):
        sys.modules.pop(name, None)


def test_an_error_in_a_library_names_its_line_and_the_users(fancy):
    def main(session):
        model = nn.Sequential(fancy.Layer())
        return model(session.share(torch.eye(2), owner=0))

    with pytest.raises(tacit.errors.PartyFailed) as caught:
        tacit.run(main, parties=1, protocol="cleartext")
    error = caught.value
    assert error.kind == "UnsupportedOp"
    assert (error.path, error.module, error.model) == ("0", "Layer", "Sequential")
    assert error.line is not None
    assert error.library_line is not None
    assert (Path(error.line.file).name, error.line.function) == ("test_call_sites.py", "main")
    where = (
        f"(at fancy/layers.py:6 in forward, called at test_call_sites.py:{error.line.line} in main)"
    )
    assert error.headline.endswith(where)


def test_without_a_library_there_is_no_line_of_one():
    def main(session):
        torch.linalg.eigvals(session.share(torch.eye(2), owner=0))

    with pytest.raises(tacit.errors.PartyFailed) as caught:
        tacit.run(main, parties=1, protocol="cleartext")
    assert caught.value.library_line is None
    assert caught.value.op == "aten.linalg_eig.default"


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        (__file__, "user"),
        (tacit.__file__, "tacit"),
        (torch.__file__, "torch"),
        (pytest.__file__, "library"),
        (traceback.__file__, "python"),
    ],
)
def test_whose_file(file, owner):
    assert owner_of(file) == owner


def test_code_that_dataclasses_generate_is_not_the_users():
    with pytest.raises(tacit.errors.ConfigError) as caught:
        Config(ring=7)
    assert caught.value.line is not None
    assert caught.value.line.function == "test_code_that_dataclasses_generate_is_not_the_users"


def test_an_error_that_was_not_raised_has_no_line():
    assert UnsupportedOp("x").line is None
