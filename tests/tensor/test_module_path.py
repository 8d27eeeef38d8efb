"""An error says in which module of the model it happened."""

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import UnsupportedOp
from tacit.tensor.module_path import module_path


class Odd(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Identity(), Odd())])

    def forward(self, x):
        return self.blocks[0](x)


def test_an_unsupported_operation_names_its_module():
    def main(session):
        x = session.share(torch.eye(2), owner=0)
        with pytest.raises(UnsupportedOp) as caught:
            Model()(x)
        assert caught.value.path == "blocks.0.1"
        assert "(in Model: 'blocks.0.1', a Odd)" in str(caught.value)
        with pytest.raises(UnsupportedOp, match="the module itself"):
            Odd()(x)
        with pytest.raises(UnsupportedOp) as bare:
            torch.linalg.eigvals(x)
        assert bare.value.path is None

    tacit.run(main, parties=1, protocol="cleartext")


def test_no_module_no_path():
    assert module_path() is None
