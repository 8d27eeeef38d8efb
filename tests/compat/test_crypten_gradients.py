"""CrypTen's functions with gradients: their own by name, and those that a program defines."""

import pytest
import torch

import tacit.compat.crypten as crypten
from tacit.compat.crypten.gradients import (
    FUNCTION_REGISTRY,
    AutogradContext,
    AutogradFunction,
    get_grad_fn,
    register_function,
)
from tacit.errors import ConfigError

SEED = 20
CLOSE = {"atol": 2e-3, "rtol": 1e-2}


@pytest.fixture
def alone():
    crypten.init()
    yield
    crypten.uninit()


def scaled_product():
    """Defines a function of two tensors, and returns the gradients of a program that uses it."""

    @register_function("scaled_product")
    class ScaledProduct(AutogradFunction):
        @staticmethod
        def forward(ctx, x, y, factor=1):
            ctx.save_multiple_for_backward([x, y, factor])
            return x * y * factor

        @staticmethod
        def backward(ctx, grad_output):
            x, y, factor = ctx.saved_tensors
            return grad_output * y * factor, grad_output * x * factor

    x = crypten.cryptensor(torch.tensor([1.0, 2.0]), requires_grad=True)
    y = crypten.cryptensor(torch.tensor([3.0, -1.0]), requires_grad=True)
    made = (x + 1).scaled_product(y, factor=2)
    made.sum().backward()
    return [one.get_plain_text().tolist() for one in (made, x.grad, y.grad)]


@pytest.fixture
def without_new_functions():
    known = set(FUNCTION_REGISTRY)
    yield
    for name in FUNCTION_REGISTRY.keys() - known:
        del FUNCTION_REGISTRY[name]
        delattr(crypten.CrypTensor, name)


@pytest.mark.usefixtures("alone", "without_new_functions")
def test_a_function_of_a_program():
    assert scaled_product() == [[12.0, -6.0], [6.0, -2.0], [4.0, 6.0]]
    assert get_grad_fn("scaled_product").name == "scaled_product"


@pytest.mark.usefixtures("without_new_functions")
def test_each_party_defines_it():
    made = crypten.mpc.run_multiprocess(world_size=2)(scaled_product)()
    assert made == [[[12.0, -6.0], [6.0, -2.0], [4.0, 6.0]]] * 2


@pytest.mark.usefixtures("alone", "without_new_functions")
def test_outputs_without_gradient():
    @register_function("maximum_and_place")
    class MaximumAndPlace(AutogradFunction):
        @staticmethod
        def forward(ctx, x):
            value, place = x.max(0)
            ctx.save_for_backward(place)
            ctx.mark_non_differentiable(place)
            return value, place

        @staticmethod
        def backward(ctx, grad_output):
            return ctx.saved_tensors[0] * grad_output

    x = crypten.cryptensor(torch.tensor([1.0, 5.0, 2.0]), requires_grad=True)
    value, place = x.maximum_and_place()
    assert (value.requires_grad, place.requires_grad) == (True, False)
    value.backward()
    assert x.grad.get_plain_text().tolist() == [0, 1, 0]


CASES = {
    "transpose": ((2, 3, 4), [2, 0]),
    "narrow": ((4, 5), [1, 2, 3]),
    "exp": ((3, 2), []),
    "matmul": ((3, 4), [torch.tensor([[1.0], [2.0], [-1.0], [0.5]])]),
    "max_pool2d": ((1, 2, 6, 6), [2]),
    "softmax": ((3, 4), [1]),
    "sum": ((3, 4), []),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("alone")
def test_own_functions(name):
    shape, rest = CASES[name]
    plain = torch.randn(shape, generator=torch.Generator().manual_seed(SEED)).requires_grad_()
    method = getattr(plain, name, None) or (lambda *args: torch.max_pool2d(plain, *args))
    expected = method(*rest)
    upstream = torch.linspace(-1, 1, expected.numel()).reshape(expected.shape)
    expected.backward(upstream)

    function = get_grad_fn(name)
    ctx = AutogradContext()
    made = function.forward(ctx, crypten.cryptensor(plain.detach()), *rest)
    assert not made.requires_grad
    torch.testing.assert_close(made.get_plain_text(), expected.detach(), **CLOSE)
    found = function.backward(ctx, crypten.cryptensor(upstream))
    torch.testing.assert_close(found.get_plain_text(), plain.grad, **CLOSE)


@pytest.mark.usefixtures("alone")
def test_names_and_marks():
    assert get_grad_fn("no_such_function") is None
    assert {get_grad_fn(name).name for name in FUNCTION_REGISTRY} == {*FUNCTION_REGISTRY}
    with pytest.raises(ConfigError, match="a name has one function"):
        register_function("view")(type("View", (AutogradFunction,), {}))
    with pytest.raises(ConfigError, match="extends AutogradFunction"):
        register_function("something")(int)
    first, second = (crypten.cryptensor(torch.ones(1)) for _ in range(2))
    ctx = AutogradContext()
    ctx.mark_non_differentiable(second)
    assert (ctx.is_differentiable(first), ctx.is_differentiable(second)) == (True, False)
    ctx.reset()
    assert ctx.is_differentiable(second)


OF_PUBLIC = {
    "mul": lambda x, y: x.mul(y),
    "right add": lambda x, y: y + x,
    "right mul": lambda x, y: y * x,
    "right div": lambda x, y: y / x,
    "matmul": lambda x, y: x.matmul(y),
    "pos_pow": lambda x, y: x.pos_pow(y),
    "where": lambda x, y: x.where(torch.tensor([True, False, True]), y),
    "secret where": lambda x, y: x.where(x > 1.5, y),
    "cat": lambda x, y: crypten.cat([x, crypten.cryptensor(y)]),
    "torch's add": torch.add,
    "conv1d": lambda x, y: x.view(1, 1, 3).conv1d(y.view(1, 1, 3)),
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", OF_PUBLIC)
def test_a_public_operand_gets_no_gradient(name):
    """Its gradient would be secret; it may have one of a plain computation."""
    y = torch.tensor([0.5, 2.0, 1.0], requires_grad=True)
    plain = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y.sum().backward()
    x = crypten.cryptensor(plain.detach(), requires_grad=True)
    OF_PUBLIC[name](x, y).sum().backward()
    assert torch.equal(y.grad, torch.ones(3))
    assert x.grad.get_plain_text().shape == x.size()


@pytest.mark.usefixtures("alone")
def test_gradients_beside_public_operands_are_torchs():
    y = torch.tensor([0.5, 2.0, 1.0], requires_grad=True)
    plain = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = crypten.cryptensor(plain.detach(), requires_grad=True)
    (y / (plain * y)).sum().backward()
    (y / (x * y)).sum().backward()
    torch.testing.assert_close(x.grad.get_plain_text(), plain.grad, **CLOSE)
