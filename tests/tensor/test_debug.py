"""Debug mode: what leaves the range or a domain raises, with the names of operation and module."""

import copy
import math

import pytest
import torch
from tests.tensor.test_transformers import CASES as TRANSFORMERS
from tests.tensor.test_transformers import secret_run
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.config import Config
from tacit.errors import ConfigError, PartyFailed, RangeError
from tacit.nn import tighten, validate

CLEAR = {"protocol": "cleartext", "parties": 1, "debug": True}
TOP = 2.0**20


class Layer(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Model(nn.Module):
    """A function two modules deep, to be named `middle.inner`."""

    def __init__(self, function):
        super().__init__()
        self.middle = nn.ModuleDict({"inner": Layer(function)})

    def forward(self, *args):
        return self.middle["inner"](*args)


def compute(function, *inputs, **settings):
    """What the function gives of secret inputs, in a module."""

    def main(session):
        secret = [session.share(torch.as_tensor(x), owner=0) for x in inputs]
        return session.reveal(Model(function)(*secret))

    return tacit.run(main, **(CLEAR | settings))[0]


def raised(function, *inputs, **settings):
    """The RangeError of that."""
    with pytest.raises(PartyFailed) as caught:
        compute(function, *inputs, **settings)
    assert isinstance(caught.value.__cause__, RangeError)
    return caught.value.__cause__


# name of the operation: what is out of the domain or range, and in the message
WRONG = {
    "aten.exp.default": (torch.exp, [40.0], "x <= 13.86"),
    "aten.expm1.default": (torch.expm1, [14.0], "x <= 13.86"),
    "aten.exp2.default": (torch.exp2, [20.5], "x <= 20.00"),
    "aten.log.default": (torch.log, [0.0], "x > 0"),
    "aten.log2.default": (torch.log2, [-1.0], "x > 0"),
    "aten.log10.default": (torch.log10, [0.0], "x > 0"),
    "aten.log1p.default": (torch.log1p, [-1.0], "x > -1"),
    "aten.sqrt.default": (torch.sqrt, [-1.0], "x >= 0"),
    "aten.rsqrt.default": (torch.rsqrt, [0.0], "x > 0"),
    "aten.reciprocal.default": (torch.reciprocal, [0.0], "x != 0"),
    "aten.div.Tensor": (torch.div, [1.0, 0.0], "divisor"),
    "aten.pow.Tensor_Scalar": (lambda x: x**-1, [0.0], "whole y"),
    "aten.pow.Tensor_Tensor": (torch.pow, [-2.0, 0.5], "whole y"),
    "aten.pow.Scalar": (lambda x: 2.0**x, [21.0], r"2\^20"),
    "aten.tan.default": (torch.tan, [3.5 * math.pi], r"beyond the range: 2\^20"),
    "aten.asin.default": (torch.asin, [1.5], "-1 <= x"),
    "aten.acosh.default": (torch.acosh, [0.5], "x >= 1"),
    "aten.atanh.default": (torch.atanh, [1.0], "x < 1"),
    "aten.logit.default": (torch.logit, [1.0], "x < 1"),
    "aten.square": (torch.square, [1025.0], r"beyond the range: 2\^20"),
    "aten.mul.Tensor": (torch.mul, [2.0**11, 2.0**10], r"beyond the range: 2\^20"),
    "aten.mul.Scalar": (lambda x: x * 3000, [500.0], r"beyond the range: 2\^20"),
    "aten.add.Tensor": (torch.add, [TOP - 1, TOP - 1], r"beyond the range: 2\^20"),
    "aten.sub.Tensor": (torch.sub, [TOP - 1, 1 - TOP], r"beyond the range: 2\^20"),
    "aten.sum.default": (torch.sum, [[6e5, 6e5]], r"beyond the range: 2\^20"),
    "aten.cumsum.default": (lambda x: x.cumsum(0), [[6e5, 6e5]], r"beyond the range: 2\^20"),
    "aten.prod.default": (torch.prod, [[1100.0, 1000.0]], r"beyond the range: 2\^20"),
    "aten.mm.default": (torch.mm, [[[9e2] * 2], [[9e2]] * 2], r"beyond the range: 2\^20"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_out_of_the_domain_or_range_raises(name):
    function, inputs, limit = WRONG[name]
    error = raised(function, *inputs)
    name = "aten.pow.Tensor_Scalar" if name == "aten.square" else name
    name = name.replace("mul.Scalar", "mul.Tensor")
    assert str(error).startswith(f"{name}: ")
    assert error.path == "middle.inner"
    assert "(in Model: 'middle.inner', a Layer)" in str(error)
    with pytest.raises(RangeError, match=limit):
        raise error


RIGHT = [
    (torch.exp, [[13.8, -40.0, 0.0]]),
    (torch.log, [[2.0**-16, 2.0**19]]),
    (torch.sqrt, [[0.0, 2.0**-16, TOP]]),
    (torch.rsqrt, [[2.0**-16, TOP]]),
    (torch.reciprocal, [[2.0**-16, -(2.0**-16), TOP]]),
    (torch.div, [[15.0, 0.0], [2.0**-16, -1.0]]),
    (lambda x: x**2, [[1023.9, -1023.9]]),
    (lambda x: x**-2, [[2.0**-9, -(2.0**-9)]]),
    (torch.tan, [[1.5, -1.57]]),
    (torch.mul, [[2.0**10], [2.0**10]]),
    (torch.mm, [[[1e3, 1e3]], [[1e3], [-1e3]]]),
    (torch.gt, [[TOP, 1 - TOP], [1 - TOP, TOP]]),
    (torch.maximum, [[TOP, 1 - TOP], [1 - TOP, TOP]]),
    (torch.sigmoid, [[-TOP, TOP]]),
    (F.gelu, [[-1e5, 1e5]]),
    (torch.tanh, [[-TOP, TOP]]),
    (lambda x: x.softmax(0), [[-TOP, TOP, 0.0]]),
    (lambda x: x.clamp(-math.inf, 1.0), [[-TOP, TOP]]),
]


@pytest.mark.parametrize("i", range(len(RIGHT)))
@pytest.mark.parametrize("bits", [16, 20])
def test_values_at_the_edges_are_fine(i, bits):
    function, inputs = RIGHT[i]
    compute(function, *inputs, fraction_bits=bits)


def test_a_product_that_wraps_around_to_something_small_is_caught():
    """2^16 2^16 has 64 bits with its fraction: nothing is left of it in the ring."""
    x = torch.tensor([2.0**16])
    assert compute(torch.mul, x, x, debug=False) == 0
    assert "beyond the range" in str(raised(torch.mul, x, x))
    weight = torch.full((1, 1, 1, 1), 2.0**16)
    assert compute(F.conv2d, weight, weight, debug=False).abs().max() == 0
    assert "aten.convolution.default: a result is beyond" in str(raised(F.conv2d, weight, weight))


def test_what_overflows_on_the_way_is_caught():
    x = torch.tensor([[1.0, -1e6, 2.0]])
    error = raised(lambda x: F.layer_norm(x, (3,)), x)
    assert str(error).startswith("aten.native_layer_norm.default: the result is far from")


def test_integers_have_a_range_of_their_own():
    x = torch.tensor([1 << 35])
    assert compute(torch.add, x, x - 1).item() == (1 << 36) - 1
    for wrong in (torch.mul, lambda a, b: a + b + 1):
        assert r"range of integers: 2^36" in str(raised(wrong, x, x))


def test_an_index_outside_is_caught():
    table = torch.arange(6.0).view(3, 2)
    assert compute(F.embedding, torch.tensor([2]), table).tolist() == [[4.0, 5.0]]
    assert "an index is outside" in str(raised(F.embedding, torch.tensor([3]), table))


def test_the_range_is_the_sessions():
    assert compute(torch.mul, 100.0, 100.0, range_bits=14) == 1e4
    error = raised(torch.mul, 100.0, 100.0, range_bits=13)
    assert "beyond the range: 2^13 in magnitude" in str(error)
    assert "a larger range_bits, up to 29, or fewer fraction_bits than 16" in str(error)
    assert compute(torch.exp, 15.0, range_bits=24) > TOP


def test_messages_contain_no_values():
    error = raised(torch.mul, 1234567.0 / 2, 7.0)
    assert not any(text in str(error) for text in ("1234567", "617283", "4320984", "2^22", "2^23"))


# Inputs, promises, training ---------------------------------------------------------------------


def test_an_input_out_of_range_raises_with_its_name():
    def main(session):
        model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        model[1].weight.data.fill_(2 * TOP)
        session.share(model, owner=0)

    with pytest.raises(PartyFailed, match=r"share: 1.weight is beyond the range at row 0"):
        tacit.run(main, **CLEAR)
    assert "share: the tensor is beyond" in str(raised(torch.neg, 2 * TOP))


def test_a_broken_promise_raises_with_the_modules_path():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    calibration = tacit.calibrate(model, torch.ones(3, 2))

    def main(session, x):
        own = tighten(session, session.share(copy.deepcopy(model), owner=0), calibration, owner=0)
        return session.reveal(own(session.share(x, owner=0)))

    tacit.run(main, torch.ones(1, 2), **CLEAR)
    with pytest.raises(PartyFailed, match="tighten: a result is not below 2") as caught:
        tacit.run(main, torch.full((1, 2), 1000.0), **CLEAR)
    assert caught.value.__cause__.path == "0"


@pytest.mark.parametrize("rate", [1e-3, 1e6])
def test_an_overflow_of_training_is_caught(rate):
    def main(session):
        torch.manual_seed(1)
        model = session.share(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)), owner=0)
        x, y = (session.share(torch.randn(16, k) * 10, owner=0) for k in (8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for _ in range(4):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()

    if rate < 1:
        tacit.run(main, **CLEAR)
        return
    with pytest.raises(PartyFailed, match="beyond the range") as caught:
        tacit.run(main, **CLEAR)
    assert isinstance(caught.value.__cause__, RangeError)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad])
def test_optimizers_with_finer_averages_run(kind):
    def main(session):
        torch.manual_seed(2)
        model = session.share(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)), owner=0)
        x = session.share(torch.randn(8, 4), owner=0)
        optimizer = kind(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), torch.arange(8) % 3).backward()
            optimizer.step()

    tacit.run(main, **CLEAR)


def test_validate_finds_what_debug_mode_raises():
    problems = validate(Model(torch.log).eval(), torch.tensor([0.0, 1.0]))
    assert [(p.path, p.op) for p in problems] == [("middle.inner", "aten.log.default")]
    assert problems[0].reason == "an argument is outside of its domain: x > 0"
    assert "torch.where" in problems[0].remedy


# What is right --------------------------------------------------------------------------------


@pytest.mark.parametrize("low", [-math.inf, torch.finfo(torch.float32).min, -1e9])
def test_masks_are_no_overflow(low):
    mask = torch.tensor([[False, True, True], [True, True, True]])

    def program(x):
        added = x + torch.where(mask, low, 0.0)
        filled = x.masked_fill(mask, low)
        return added.softmax(1) + filled.log_softmax(1).exp()

    compute(program, torch.tensor([[3.0, -2.0, 5.0], [7.0, 1.0, -1.0]]))


@pytest.mark.parametrize("low", [-math.inf, -1e9])
def test_masked_attention_is_no_overflow(low):
    q = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(3))
    mask = torch.full((4, 4), low).triu(1)
    mask[0] = low  # nobody to attend to
    compute(lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=mask), q)


@pytest.mark.full("smaller models, and zoo/test_debug.py")
@pytest.mark.parametrize(("make", "values"), TRANSFORMERS)
def test_transformers(make, values):
    torch.manual_seed(5)
    secret_run(make().eval(), values(), **CLEAR)


# Security -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["trio", "replicated", "none"])
def test_only_in_clear(protocol):
    with pytest.raises(ConfigError, match=r"debug=True.*looks at every value.*cleartext"):
        tacit.run(lambda session: None, protocol=protocol, debug=True)
    with pytest.raises(ConfigError, match="on data that you may see"):
        Config(protocol=protocol, debug=True)


def test_not_on_a_network():
    with pytest.raises(ConfigError, match="one process only"):
        tacit.run(print, protocol="cleartext", debug=True, transport="processes")


def test_all_parties_raise_alike():
    def main(session):
        return session.share(torch.zeros(1), owner=1).log()

    with pytest.raises(PartyFailed, match=r"aten\.log\.default"):
        tacit.run(main, protocol="cleartext", parties=3, debug=True)


def test_a_comparison_with_a_public_number_beyond_the_range_is_right():
    x = torch.tensor([-TOP, 0.0, TOP])
    for number in (1e5, 3e6, -3e6, 1e12, math.inf, -math.inf):
        assert torch.equal(compute(lambda x, c=number: x > c, x), x > number)
        assert torch.equal(compute(lambda x, c=number: c >= x, x), number >= x)
