"""All problems of a model at once, with paths and ways out."""

import copy

import pytest
import torch
from torch import nn

import tacit
from tacit.nn import validate


class Odd(nn.Module):
    """Two operations without a rule, one of them in place, and a decision on a value."""

    def forward(self, x):
        x = torch.special.bessel_j0(x)
        if x.sum() > 0:
            x = x + 1
        x = x.clone()
        x.digamma_()
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.middle = nn.Sequential(nn.ReLU(), Odd())
        self.last = Odd()

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


def test_a_good_model_has_no_problems_and_stays_as_it_is():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    before = copy.deepcopy(model.state_dict())
    assert validate(model, torch.randn(3, 4)) == []
    assert validate(model, (torch.randn(3, 4),), backward=True) == []
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_all_problems_come_at_once_with_their_paths():
    problems = validate(Model().eval(), {"x": torch.rand(2, 4)})
    found = {(p.path, p.op) for p in problems}
    for path in ("middle.1", "last"):
        assert (path, "aten.special_bessel_j0.default") in found
        assert (path, "aten.digamma_.default") in found
        assert (path, "bool()") in found
    assert all(p.reason and p.remedy for p in problems)
    assert any("torch.where" in p.remedy for p in problems if p.op == "bool()")
    assert str(problems[0]).startswith("middle.1: aten.special_bessel_j0.default: ")
    assert problems[0].line.startswith("at test_validate.py:")
    assert str(problems[0]).endswith(f" ({problems[0].line})")


def test_backward_is_looked_at_in_training_mode():
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return torch.special.bessel_j0(grad)

    class Layer(nn.Module):
        def forward(self, x):
            return Half.apply(x)

    model = nn.Sequential(nn.Linear(2, 2), Layer())
    problems = validate(model, torch.randn(1, 2))
    assert [p.op for p in problems] == ["aten.special_bessel_j0.default"]
    assert validate(model.eval(), torch.randn(1, 2)) == []


def test_what_cannot_be_shared_is_listed():
    model = nn.Sequential(nn.LazyLinear(2), nn.LazyConv2d(1, 1))
    assert [p.path for p in validate(model, torch.zeros(1))] == [
        "0.weight", "0.bias", "1.weight", "1.bias",
    ]  # fmt: skip


def test_an_error_of_the_model_ends_the_list():
    class Broken(nn.Module):
        def forward(self, x):
            torch.special.bessel_j0(x)
            raise KeyError("lost")

    problems = validate(nn.Sequential(Broken()).eval(), torch.zeros(2))
    assert problems[0].path == "0"
    assert "KeyError" in problems[-1].reason
    assert "not checked" in problems[-1].remedy


def test_a_result_beyond_the_range_is_a_problem():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU()).eval()
    model[0].weight.data.fill_(2.0**19)
    problems = validate(model, torch.full((1, 1), 64.0))
    assert problems[0].path == "0"
    assert "beyond the range: 2^20" in problems[0].reason


def test_secrets_of_a_real_run_still_refuse():
    def main(session):
        x = session.share(torch.zeros(2), owner=0)
        with pytest.raises(tacit.errors.RevealForbidden):
            bool(x.sum() > 0)

    tacit.run(main, parties=1, protocol="cleartext")
