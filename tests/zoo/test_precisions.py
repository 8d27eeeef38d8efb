"""Every model of the zoo and of Hugging Face is right with 12 to 22 fraction bits, in each ring.

Weights have the scales of trained ones, and batch norms the statistics of their inputs. Plain runs
are in float64. A ring of 32 bits has room for 12 fraction bits at most; it holds all models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch
from tests.zoo.test_debug import BERT, MODELS
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.errors import PartyFailed, RangeError

BITS = (12, 18, 22)
SEED = 11
UNITS = 160  # an allowed error, in units of 2^-f: roundings of all layers add up
RELATIVE = 2.0**-11  # and that of functions that are approximated, relative to the largest output

Inputs = dict[str, Tensor]
Make = Callable[[], tuple[nn.Module, Inputs]]


def trained(model: nn.Module, inputs: Tensor, generator: torch.Generator) -> nn.Module:
    """With random weights that keep the size of what passes, and statistics of these inputs."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            fan_in = layer.weight[0].numel()
            drawn = torch.randn(layer.weight.shape, generator=generator)
            layer.weight.data = drawn * (1.5 / fan_in) ** 0.5
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None
            layer.bias.data = torch.randn(layer.bias.shape, generator=generator) / 4
    model.train()
    with torch.no_grad():
        model(inputs)
    return model.eval()


def picture(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Make:
    def both() -> tuple[nn.Module, Inputs]:
        torch.manual_seed(SEED)  # of what `trained` leaves: norms, positions
        generator = torch.Generator().manual_seed(SEED)
        drawn = torch.randn(8, *shape[1:], generator=generator)
        return Named(trained(make(), drawn, generator)), {"x": drawn[: shape[0]]}

    return both


class Named(nn.Module):
    """A model whose input has a name."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model(x)


def words() -> tuple[nn.Module, Inputs]:
    torch.manual_seed(SEED)
    return Named(zoo.bert(**BERT)).eval(), {"x": torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]])}


def counts() -> tuple[nn.Module, Inputs]:
    drawn = torch.randint(0, 3, (2, 300), generator=torch.Generator().manual_seed(SEED))
    torch.manual_seed(SEED)
    return Named(zoo.text_sentiment(words=300)).eval(), {"x": drawn.float()}


def hugging_face(name: str) -> Make:
    def both() -> tuple[nn.Module, Inputs]:
        models = pytest.importorskip("tests.tensor.test_transformers")
        torch.manual_seed(SEED)
        values = models.pictures() if name == "vit" else models.masked_tokens()
        return getattr(models, name)().eval(), values

    return both


CASES: dict[str, Make] = {name: picture(*MODELS[name]) for name in MODELS}
CASES |= {"bert": words, "text sentiment": counts}
CASES |= {f"transformers {name}": hugging_face(name) for name in ("bert", "gpt2", "vit")}
QUICK = ["lenet5", "resnet", "vit", "text sentiment"]


def outputs(model: nn.Module, values: Inputs) -> list[Tensor]:
    """The tensors that users of these models read."""
    with torch.no_grad():
        out = model(**values)
    if isinstance(out, Tensor):
        return [out]
    if isinstance(out, tuple):
        return list(out)
    return [out[name] for name in ("last_hidden_state", "logits") if name in out]


def private(model: nn.Module, values: Inputs, **settings: Any) -> list[Tensor]:
    def main(session: tacit.Session) -> list[Tensor]:
        own = session.share(copy.deepcopy(model), owner=0)
        owner = session.parties - 1
        real = {name: session.share(x, owner=owner) for name, x in values.items() if is_real(x)}
        return session.reveal(outputs(own, values | real))

    return tacit.run(main, deadline=300.0, **settings)[0]


def is_real(x: Tensor) -> bool:
    return x.is_floating_point()


@lru_cache(maxsize=1)  # tests with one model come one after the other
def plain_run(name: str) -> tuple[nn.Module, Inputs, list[Tensor]]:
    """A model, its inputs, and what it returns in float64."""
    model, values = CASES[name]()
    wide = {key: x.double() if is_real(x) else x for key, x in values.items()}
    return model, values, outputs(copy.deepcopy(model).double(), wide)


def check(name: str, **settings: Any) -> None:
    model, values, want = plain_run(name)
    for got, expected in zip(private(model, values, **settings), want, strict=True):
        largest = float(expected.abs().max())
        allowed = (UNITS * 2.0 ** -settings["fraction_bits"] + RELATIVE) * max(largest, 1.0)
        worst = float((got.double() - expected).abs().max())
        assert worst <= allowed, f"{name} is off by {worst} of {largest}, with {settings}"


ONE = {"protocol": "cleartext", "parties": 1}


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("fraction_bits", [12, 20, 22])
def test_models(name, fraction_bits):
    check(name, fraction_bits=fraction_bits, **ONE)


def test_three_parties():
    check("resnet", fraction_bits=20)


@pytest.mark.full("all models at three precisions; test_models runs four at three")
@pytest.mark.parametrize("fraction_bits", BITS)
@pytest.mark.parametrize("name", CASES)
def test_every_model(name, fraction_bits):
    check(name, fraction_bits=fraction_bits, debug=True, **ONE)


@pytest.mark.full("three parties at three precisions; test_three_parties runs one")
@pytest.mark.parametrize("fraction_bits", BITS)
@pytest.mark.parametrize("name", [*QUICK, "bert", "transformers gpt2"])
def test_every_precision_of_three_parties(name, fraction_bits):
    check(name, fraction_bits=fraction_bits)


@pytest.mark.full("every model in a ring of 32 bits; test_a_small_ring runs three")
@pytest.mark.parametrize("fraction_bits", [8, 12])
@pytest.mark.parametrize("name", CASES)
def test_every_model_in_a_small_ring(name, fraction_bits):
    check(name, ring=32, fraction_bits=fraction_bits, debug=True, **ONE)
    check(name, ring=32, fraction_bits=fraction_bits)


@pytest.mark.parametrize("name", ["lenet5", "resnet", "vit"])
def test_a_small_ring(name):
    check(name, ring=32, fraction_bits=12, debug=True, **ONE)
    check(name, ring=32, fraction_bits=12)


def test_a_ring_that_cannot_hold_a_model_is_refused_before():
    """Squares of brighter pictures leave the ring: debug mode, validate and calibrate say so."""
    model, values = CASES["vit"]()
    settings: dict[str, Any] = {"ring": 32, "fraction_bits": 12}
    tacit.nn.calibrate(model, values["x"], **settings)
    bright = values["x"] * 5
    with pytest.raises(PartyFailed, match="RangeError"):
        private(model, {"x": bright}, debug=True, **settings, **ONE)
    problems = tacit.nn.validate(model, bright, backward=False, **settings)
    assert any("beyond the range" in problem.reason for problem in problems)
    with pytest.raises(RangeError, match="beyond the range"):
        tacit.nn.calibrate(model, bright, **settings)
    tacit.nn.calibrate(model, bright)
