"""CrypTen's modules compute what torch's do: values, gradients, updates, and both are kept."""

import copy
import io
import logging
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional

import tacit
import tacit.compat.crypten as crypten
from tacit.compat.crypten.initialization import initialized
from tacit.errors import ConfigError, UnsupportedError

LAYERS = {
    "AdaptiveAvgPool2d": (((2, 3),), (1, 2, 8, 8)),
    "AdaptiveMaxPool2d": (((2, 2),), (1, 3, 8, 8)),
    "AvgPool1d": ((2,), (2, 3, 8)),
    "AvgPool2d": ((2,), (1, 3, 8, 8)),
    "BatchNorm1d": ((25,), (8, 25)),
    "BatchNorm2d": ((3,), (8, 3, 5, 4)),
    "BatchNorm3d": ((6,), (8, 6, 3, 4, 2)),
    "ConstantPad1d": ((3, 1.0), (9,)),
    "ConstantPad2d": ((2, 2.0), (3, 6)),
    "ConstantPad3d": ((1, 0.0), (4, 2, 7)),
    "Conv1d": ((3, 6, 5), (1, 3, 16)),
    "Conv2d": ((3, 6, 5), (1, 3, 9, 9)),
    "ConvTranspose1d": ((3, 2, 3), (1, 3, 6)),
    "ConvTranspose2d": ((3, 2, 3), (1, 3, 5, 5)),
    "GroupNorm": ((2, 4), (3, 4, 5)),
    "Hardtanh": ((-3, 1), (4, 5)),
    "Linear": ((40, 12), (3, 40)),
    "LogSoftmax": ((0,), (5, 3)),
    "MaxPool1d": ((2,), (2, 3, 8)),
    "MaxPool2d": ((2,), (1, 2, 8, 8)),
    "ReLU": ((), (4, 5)),
    "ReLU6": ((), (4, 5)),
    "Sigmoid": ((), (4, 5)),
    "Softmax": ((0,), (5, 3)),
    "Tanh": ((), (4, 5)),
}


@pytest.fixture(autouse=True)
def alone():
    torch.manual_seed(7)
    crypten.init()
    yield
    crypten.uninit()


def agree(made, plain, atol=5e-3):
    shown = made.get_plain_text()
    assert shown.shape == plain.shape
    assert torch.allclose(shown.double(), plain.detach().double(), atol=atol, rtol=1e-3)


@pytest.mark.parametrize("converted", [False, True], ids=["own", "from_pytorch"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, converted):
    args, shape = LAYERS[name]
    reference = getattr(nn, name)(*args)
    x = (2 * torch.randn(shape)).requires_grad_()
    if converted:
        module = crypten.nn.from_pytorch(reference, x)
    else:
        module = getattr(crypten.nn, name)(*args)
        for key, param in reference.named_parameters():
            module.set_parameter(key, param)
    for mode in (False, True, True, False, True):
        assert module.encrypt(mode=mode) is module
        assert module.encrypted is mode
    secret = crypten.cryptensor(x.detach(), requires_grad=True)
    made, plain = module(secret), reference(x)
    agree(made, plain)
    weights = torch.randn(plain.shape)
    made.backward(crypten.cryptensor(weights))
    plain.backward(weights)
    agree(secret.grad, x.grad)
    params = dict(reference.named_parameters())
    assert dict(module.named_parameters()).keys() == params.keys()
    for key, param in module.named_parameters():
        agree(param.grad, params[key].grad, atol=2e-2)
    for key, buffer in module.named_buffers():
        agree(buffer, dict(reference.named_buffers())[key])
    agree(module.eval()(secret), reference.eval()(x))


def test_settings_of_layers_are_seen():
    assert crypten.nn.Conv2d(1, 2, 3, stride=2).stride == (2, 2)
    assert crypten.nn.Dropout(0.25).p == 0.25
    assert not hasattr(crypten.nn.Linear(2, 2, bias=False), "absent")
    assert crypten.nn.Linear(2, 2, bias=False).bias is None
    assert crypten.nn.MaxPool2d(2, 2, 0, True).ceil_mode


def test_nothing_is_done_in_place(caplog):
    with caplog.at_level(logging.WARNING, "tacit"):
        relu = crypten.nn.ReLU(inplace=True).encrypt()
    assert "inplace" in caplog.text
    x = crypten.cryptensor([-1.0, 2.0])
    agree(relu(x), torch.tensor([0.0, 2.0]))
    agree(x, torch.tensor([-1.0, 2.0]))


@pytest.mark.parametrize("name", ["Dropout", "DropoutNd", "Dropout2d", "Dropout3d"])
def test_dropout(name):
    x = torch.rand(4, 6, 2, 2, 2) + 1 if name != "Dropout2d" else torch.rand(4, 6, 2, 2) + 1
    x = x[..., 0] if name == "DropoutNd" else x
    module = getattr(crypten.nn, name)(0.4).encrypt()
    secret = crypten.cryptensor(x, requires_grad=True)
    made = module(secret)
    kept = made.get_plain_text() != 0
    assert 0 < kept.float().mean() < 1
    agree(made, kept * x / 0.6)
    made.backward(crypten.cryptensor(torch.ones(x.shape)))
    agree(secret.grad, kept / 0.6)
    assert torch.equal(module.eval()(secret).get_plain_text(), secret.get_plain_text())


def test_plain_and_secret_do_not_mix():
    linear, x = crypten.nn.Linear(3, 2), torch.rand(4, 3)
    assert isinstance(linear(x), torch.Tensor)
    with pytest.raises(RuntimeError, match="is not encrypted"):
        linear(crypten.cryptensor(x))
    linear.encrypt()
    with pytest.raises(NotImplementedError, match="is encrypted, and its input is not"):
        linear(x)
    linear.decrypt()
    linear(x).sum().backward()
    before = linear.weight.detach().clone()
    linear.update_parameters(0.5)
    assert torch.allclose(linear.weight, before - 0.5 * x.sum(0))


def test_parties_encrypt_the_module_of_one():
    def main(session):
        with initialized(session):
            linear = crypten.nn.Linear(3, 2)
            with torch.no_grad():
                linear.weight.fill_(session.rank + 1)
                linear.bias.zero_()
            model = crypten.nn.Sequential(linear, crypten.nn.ReLU()).encrypt(src=1)
            made = model(crypten.cryptensor(torch.ones(1, 3), src=0)).get_plain_text()
            model.decrypt()
            return made, linear.weight.detach()

    for made, weight in tacit.run(main, parties=2, protocol="additive"):
        assert torch.allclose(made, torch.full((1, 2), 6.0), atol=1e-3)
        assert torch.equal(weight, torch.full((2, 3), 2.0))


def test_a_parameter_comes_from_shares():
    linear, share = crypten.nn.Linear(3, 2), torch.tensor([2 << 16, 1 << 15])
    with pytest.raises(AssertionError, match="not encrypted"):
        linear.set_parameter_from_shares("bias", share)
    linear.encrypt().set_parameter_from_shares("bias", share)
    with pytest.raises(ValueError, match="absent"):
        linear.set_parameter_from_shares("absent", share)
    assert torch.equal(linear.decrypt().bias, torch.tensor([2.0, 0.5]))


class Residual(nn.Module):
    """Nested, with code of its own, a buffer of integers, and a tied weight."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.block = nn.ModuleDict({"a": nn.Linear(16, 16), "b": nn.Linear(16, 16)})
        self.block["b"].weight = self.block["a"].weight
        self.register_buffer("order", torch.tensor([3, 1, 2, 0]))

    def forward(self, x):
        x = functional.relu(self.features(x))[:, self.order].flatten(2)
        return x + self.block["b"](torch.tanh(self.block["a"](x)))


def test_a_torch_model_is_converted():
    model = Residual()
    with torch.no_grad():
        model(torch.randn(8, 1, 4, 4))  # statistics
    model.eval()
    converted = crypten.nn.from_pytorch(model, torch.empty(1, 1, 4, 4))
    assert not converted.training
    before = copy.deepcopy(model.state_dict())
    converted.encrypt()
    assert converted.features.encrypted
    x = torch.randn(2, 1, 4, 4)
    agree(converted(crypten.cryptensor(x)), model(x))
    assert all(torch.equal(one, before[key]) for key, one in model.state_dict().items())
    with pytest.raises(ConfigError, match="decrypt"):
        converted.to_pytorch()
    converted.train()
    converted(crypten.cryptensor(x)).backward(crypten.cryptensor(torch.ones(2, 4, 16)))
    converted.update_parameters(0.1)
    changed = converted.decrypt().to_pytorch()
    assert changed is model
    assert not torch.equal(model.block["a"].weight, before["block.a.weight"])
    assert torch.equal(model.block["a"].weight, model.block["b"].weight)


def test_an_onnx_model_is_converted():
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weight, x = torch.randn(3, 4), torch.randn(2, 4)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "weight"], ["h"], transB=1),
            helper.make_node("Relu", ["h"], ["y"]),
        ],
        "model",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])],
        [onnx.numpy_helper.from_array(weight.numpy(), "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    written = model.SerializeToString()
    for source in (written, io.BytesIO(written)):
        converted = crypten.nn.from_onnx(source).encrypt()
        agree(converted(crypten.cryptensor(x)), (x @ weight.T).relu())


def test_tensorflow_is_refused():
    with pytest.raises(UnsupportedError, match="from_onnx"):
        crypten.nn.from_tensorflow(None, [], [])


# Containers ---------------------------------------------------------------------------------------


def converted_linear(size):
    plain = nn.Linear(size, size)
    return plain, crypten.nn.from_pytorch(plain, None)


def test_a_graph_of_two_inputs():
    (plain1, linear1), (plain2, linear2) = converted_linear(4), converted_linear(4)
    graph = crypten.nn.Graph(["a", "b"], "output")
    graph.add_module("output", linear2, ["residual"])
    graph.add_module("sum", crypten.nn.Add(), ["a", "b"])
    graph.add_module("linear", linear1, "sum")
    graph.add_module("residual", crypten.nn.Add(), ["sum", "linear"])
    graph.encrypt()
    assert all(module.encrypted for module in graph.modules())
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    made = graph(crypten.cryptensor(a), crypten.cryptensor(b))
    agree(made, plain2(plain1(a + b) + a + b))
    with pytest.raises(AssertionError, match="2: a, b"):
        graph(crypten.cryptensor(a))
    with pytest.raises(AssertionError, match="sum"):
        graph.add_module("sum", crypten.nn.Add(), ["a", "b"])


def test_a_graph_with_several_outputs():
    norm = crypten.nn.BatchNormalization()
    names = ["x", "weight", "bias", "mean", "variance"]
    graph = crypten.nn.Graph(names, ["new_mean", "made"])
    outputs = ["made", "new_mean", "new_variance", "none1", "none2"]
    graph.add_module("norm", norm, names, outputs)
    graph.encrypt().train()
    plain = nn.BatchNorm1d(3)
    x = torch.randn(8, 3)
    given = [x, torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3)]
    mean, made = graph(*map(crypten.cryptensor, given))
    agree(made, plain(x))
    agree(mean, plain.running_mean)
    unconnected = crypten.nn.Graph("x", "y")
    with pytest.raises(ValueError, match="computes y"):
        unconnected(x)


def test_sequential():
    plain = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    parts = [crypten.nn.Linear(5, 4), crypten.nn.ReLU(), crypten.nn.Linear(4, 2)]
    for own, part in zip(parts, plain, strict=True):
        for name, param in part.named_parameters():
            setattr(own, name, param)
    x = torch.randn(3, 5)
    for model in (
        crypten.nn.Sequential(*parts),
        crypten.nn.Sequential(parts),
        crypten.nn.Sequential(OrderedDict(zip("abc", parts, strict=True))),
    ):
        assert len(list(model.modules())) == len(list(plain.modules()))
        assert torch.allclose(model(x), plain(x), atol=1e-3)
        model.encrypt()
        agree(model(crypten.cryptensor(x)), plain(x))
        model.decrypt()
    assert next(name for name, _ in model.named_parameters()) == "a.weight"


def test_lists_and_dicts_of_modules():
    modules = crypten.nn.ModuleList([crypten.nn.Conv2d(2, 2, 3), crypten.nn.MaxPool2d(3)])
    modules.append(crypten.nn.ReLU())
    modules.extend([crypten.nn.Linear(10, 5), crypten.nn.ReLU()])
    modules.insert(1, crypten.nn.Sigmoid())
    modules += [crypten.nn.Tanh()]
    assert len(modules) == 7
    assert isinstance(modules[1], crypten.nn.Sigmoid)
    del modules[1]
    del modules[1:3]
    assert [type(module).__name__ for module in modules] == ["Conv2d", "Linear", "ReLU", "Tanh"]
    assert [name for name, _ in modules.named_children()] == ["0", "1", "2", "3"]
    assert len(modules[1:]) == 3
    named = crypten.nn.ModuleDict({"conv": crypten.nn.Conv2d(2, 2, 3)})
    named["relu"] = crypten.nn.ReLU()
    named.update([["pool", crypten.nn.MaxPool2d(3)]])
    assert list(named.keys()) == ["conv", "relu", "pool"]
    assert isinstance(named.pop("relu"), crypten.nn.ReLU)
    assert "relu" not in named
    assert {named: 1}[named] == 1
    named.clear()
    assert len(named) == 0


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("make", [torch.clone, nn.Parameter, crypten.cryptensor])
def test_a_parameter_is_a_module(make, trainable):
    plain = torch.randn(5, 4)
    param = crypten.nn.Parameter(make(plain), trainable=trainable)
    assert param.requires_grad is trainable
    assert len(list(param.parameters())) == trainable
    assert len(list(param.buffers())) == (not trainable)
    assert param.encrypted is (make is crypten.cryptensor)
    agree(param.encrypt().data, plain)
    assert crypten.is_encrypted_tensor(param(None))
    assert isinstance(param.decrypt()(None), torch.Tensor)
    with pytest.raises(AssertionError, match="list"):
        crypten.nn.Parameter([1, 2])


def test_a_module_that_is_used_twice_counts_once():
    shared = crypten.nn.Linear(2, 2)
    model = crypten.nn.Sequential(shared, crypten.nn.ReLU(), shared).encrypt()
    assert [path for path, _ in model.named_modules()] == ["", "0", "1"]
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias"]
    x = torch.tensor([[1.0, -2.0]])
    made = model(crypten.cryptensor(x)).get_plain_text()
    weight, bias = (param.get_plain_text() for param in shared.parameters())
    linear = nn.functional.linear
    plain = linear(linear(x, weight, bias).relu(), weight, bias)
    assert torch.allclose(made, plain, atol=1e-3)
