"""A folded model computes the same with fewer layers."""

from threading import Thread

import pytest
import torch
from torch import nn

from tacit import zoo
from tacit.errors import ConfigError, UnsupportedModule
from tacit.nn import batch_norm_places, fold_batch_norm, folding


def settled(model: nn.Module) -> nn.Module:
    """In eval mode, with statistics and scales that are not the initial ones."""
    generator = torch.Generator().manual_seed(1)
    for part in model.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.affine:
            for tensor in (part.weight.data, part.bias.data):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.copy_(torch.randn(part.running_mean.shape, generator=generator))
            part.running_var.copy_(torch.rand(part.running_var.shape, generator=generator) + 0.5)
    return model.double().eval()


def norms(model: nn.Module) -> int:
    return sum(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules())


MODELS = {
    "conv": (nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3)), (2, 2, 5, 5), 0),
    "linear": (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU()), (5, 4), 0),
    "plain scale": (
        nn.Sequential(nn.Conv1d(2, 4, 2), nn.BatchNorm1d(4, affine=False)), (2, 2, 6), 0,
    ),
    "features elsewhere": (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), (5, 3, 4), 1),
    "transposed": (
        nn.Sequential(nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)), (1, 4, 5, 5), 0,
    ),
    "groups": (nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)), (1, 4, 5, 5), 0),
    "no statistics": (
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, track_running_stats=False)),
        (2, 2, 5, 5),
        1,
    ),
    "norm first": (nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 2, 1)), (2, 2, 3, 3), 1),
    "activation between": (
        nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU(), nn.BatchNorm2d(2)), (2, 2, 3, 3), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_result_stays(name):
    model, shape, left = MODELS[name]
    model, x = settled(model), torch.randn(shape, dtype=torch.float64)
    folded = fold_batch_norm(model, x)
    torch.testing.assert_close(folded(x), model(x))
    assert norms(folded) == left
    assert norms(fold_batch_norm(model)) == (1 if isinstance(model[0], nn.Linear) else left)
    assert norms(model) == 1


@pytest.mark.parametrize("block", ["BasicBlock", "Bottleneck"])
def test_a_residual_network_folds_whole_and_keeps_its_class(block):
    from tacit.zoo import resnet

    model = settled(zoo.ResNet(getattr(resnet, block), (1, 1, 1, 1), num_classes=5, width=8))
    x = torch.randn(1, 3, 32, 32, dtype=torch.float64)
    folded = fold_batch_norm(model)
    assert type(folded) is zoo.ResNet
    assert norms(folded) == 0
    torch.testing.assert_close(folded(x), model(x))


class Odd(nn.Module):
    """A convolution whose result is read twice, one that runs twice, and one that is tied."""

    def __init__(self):
        super().__init__()
        self.read_twice, self.norm1 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.run_twice, self.norm2 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.tied, self.norm3 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.other = nn.Conv2d(2, 2, 1)
        self.other.weight = self.tied.weight

    def forward(self, x):
        y = self.read_twice(x)
        x = self.norm1(y) + y
        x = self.norm2(self.run_twice(self.run_twice(x)))
        return self.other(self.norm3(self.tied(x)))


def test_what_others_need_is_not_folded():
    model, x = settled(Odd()), torch.randn(2, 2, 3, 3, dtype=torch.float64)
    folded = fold_batch_norm(model)
    assert norms(folded) == 3
    torch.testing.assert_close(folded(x), model(x))


class Padded(nn.Conv2d):
    """A subclass whose forward does something before its base's."""

    def forward(self, x):
        return super().forward(nn.functional.pad(x, (1, 1, 1, 1)))


class Inherited(nn.Conv2d):
    """A subclass that computes what its base does."""


class Standardised(nn.Conv2d):
    """A subclass that computes its weight: a factor in it is lost."""

    def forward(self, x):
        weight = self.weight / self.weight.square().sum().sqrt()
        return nn.functional.conv2d(x, weight, self.bias)


SUBCLASSES = {Inherited: (0, 0), Padded: (1, 0), Standardised: (1, 1)}


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_subclasses_are_folded_where_they_compute_the_same(kind, monkeypatch):
    """The norms that are left without an example, and with one."""
    torch.manual_seed(1)
    logged = []
    monkeypatch.setattr(folding.log, "log", lambda _, text, *args: logged.append(text % args))
    model = settled(nn.Sequential(kind(2, 3, 3), nn.BatchNorm2d(3)))
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64)
    for example, left in zip((None, x), SUBCLASSES[kind], strict=True):
        folded = fold_batch_norm(model, example)
        assert norms(folded) == left, logged
        assert logged.pop().startswith(f"folded {1 - left} of 1 batch norms")
        torch.testing.assert_close(folded(x), model(x))


@pytest.mark.parametrize("example", [None, torch.ones(1, 2, 5, 5)])
def test_how_many_were_folded_goes_to_the_logger(example, caplog, monkeypatch):
    monkeypatch.setattr(folding.log, "disabled", False)  # a library may have disabled all
    monkeypatch.setattr(folding.log, "propagate", True)
    with caplog.at_level("INFO", "tacit"):
        fold_batch_norm(nn.Sequential(Inherited(2, 3, 3), nn.BatchNorm2d(3)).eval(), example)
    assert "folded 1 of 1 batch norms" in caplog.messages


class Branching(nn.Module):
    """Branches on values, which torch.fx cannot trace; reads some outputs twice, returns one."""

    def __init__(self):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.twice, self.norm2 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.viewed, self.norm3 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.shown, self.norm4 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.last, self.norm5 = nn.Linear(2, 3), nn.BatchNorm1d(3)
        self.never, self.norm6 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

    def forward(self, x):
        x = self.norm1(self.first(x))
        if x.sum() > 1e9:
            x = self.norm6(self.never(x))
        y = self.twice(x)
        x = self.norm2(y) + y
        z = self.viewed(x)
        x = self.norm3(z) * z.flatten()[0]
        shown = self.shown(x)
        x = self.norm4(shown)
        return self.norm5(self.last(x.mean((2, 3)))), shown


def test_a_model_that_cannot_be_traced_is_observed():
    model, x = settled(Branching()), torch.randn(4, 2, 3, 3, dtype=torch.float64)
    with pytest.raises(UnsupportedModule, match=r"Branching cannot be traced.* example"):
        fold_batch_norm(model)
    places = {place.norm: place for place in batch_norm_places(model, x)}
    assert {norm for norm, place in places.items() if place.layer} == {"norm1", "norm5"}
    assert all(place.layer or place.reason for place in places.values())
    folded = fold_batch_norm(model, x)
    assert norms(folded) == 4
    torch.testing.assert_close(folded(x), model(x))


def test_what_differs_on_the_example_is_refused(monkeypatch):
    model = settled(nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)))
    monkeypatch.setattr(folding, "_fold", lambda layer, norm: None)
    with pytest.raises(UnsupportedModule, match="another result"):
        fold_batch_norm(model, torch.randn(2, 2, 5, 5, dtype=torch.float64))


def test_other_threads_call_modules_while_a_model_is_traced():
    """torch.fx replaces methods of all modules: calls of other threads are none of the trace."""
    found = []

    class Busy(nn.Sequential):
        def forward(self, x):
            other, y = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.rand(4, 3)
            thread = Thread(target=lambda: found.append((other(y), other[0].weight)))
            thread.start()
            thread.join()
            return super().forward(x)

    called = nn.Module.__call__
    model = Busy(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    folded = fold_batch_norm(model, torch.rand(4, 3))
    assert nn.Module.__call__ is called
    assert isinstance(folded[1], nn.Identity)
    assert found
    for result, weight in found:
        assert type(result) is torch.Tensor
        assert type(weight) is nn.Parameter


def test_training_mode_is_refused():
    with pytest.raises(ConfigError, match="training mode"):
        fold_batch_norm(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))
