"""CrypTen's operators, losses, state dicts and optimizer, against torch's."""

import copy
import itertools

import pytest
import torch
from torch import nn

import tacit.compat.crypten as crypten
from tacit.errors import ConfigError, UnsupportedError

A, B = torch.rand(2, 4, 4) + 0.5, torch.rand(2, 4, 4) + 0.5
OPERATORS = {
    "Add": ((), [A, B], A + B),
    "BatchNormalization": (
        (0.0,),
        [A, torch.ones(4), torch.zeros(4), torch.ones(4), torch.ones(4)],
        A - 1,
    ),
    "Cast": ((torch.float64,), [A], A),
    "Concat": ((1,), [A, B], torch.cat([A, B], 1)),
    "Constant": ((1.2,), [A], torch.tensor(1.2)),
    "ConstantOfShape": ((1.4,), [[2, 4]], torch.full((2, 4), 1.4)),
    "Conv": (((1,), (0,), (1,)), [A, B[:, :, :3]], nn.functional.conv1d(A, B[:, :, :3])),
    "Div": ((), [A, B], A / B),
    "Equal": ((), [A, A], torch.ones(A.shape)),
    "Erf": ((), [A], A.erf()),
    "Exp": ((), [A], A.exp()),
    "Expand": ((), [A[:1, :1], [2, 1, 4]], A[:1, :1].expand(2, 1, 4)),
    "Flatten": ((2,), [A], A.reshape(8, 4)),
    "Gather": ((1,), [A, torch.tensor([[1, 2], [0, 3]])], A[:, torch.tensor([[1, 2], [0, 3]])]),
    "Gemm": ((2.0, 3.0, True), [A, B, A], 2 * A.mT @ B + 3 * A),
    "GlobalAveragePool": ((), [A], A.mean(2, keepdim=True)),
    "MatMul": ((), [A, B], A @ B),
    "Mean": (([0, 2], True), [A], A.mean((0, 2), True)),
    "Mul": ((), [A, B], A * B),
    "Pow": ((), [A, torch.tensor(2.0)], A**2),
    "Range": ((), [1, 6, 2], torch.tensor([1, 3, 5])),
    "Reshape": (((8, 4),), [A], A.reshape(8, 4)),
    "Shape": ((), [A], torch.tensor([2, 4, 4])),
    "Slice": (([1, 0], [9, 2], [1, 2]), [A], A[:, 1:, :2]),
    "Sqrt": ((), [A], A.sqrt()),
    "Squeeze": ((0,), [A[:1]], A[0]),
    "Sub": ((), [A, B], A - B),
    "Sum": (([0], False), [A], A.sum(0)),
    "Transpose": (([1, 2, 0],), [A], A.permute(1, 2, 0)),
    "Unsqueeze": ((-1,), [A], A.unsqueeze(-1)),
    "Where": ((), [(A > 1).float(), A, B], torch.where(A > 1, A, B)),
}
PUBLIC = ("Cast", "Constant", "ConstantOfShape", "Gather", "Pow", "Range")  # whose second input is


@pytest.fixture(autouse=True)
def alone():
    torch.manual_seed(3)
    crypten.init()
    yield
    crypten.uninit()


def agree(made, plain, atol=5e-3):
    shown = made.get_plain_text() if crypten.is_encrypted_tensor(made) else made
    assert shown.shape == plain.shape
    assert torch.allclose(shown.double(), plain.detach().double(), atol=atol, rtol=1e-3)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    args, inputs, expected = OPERATORS[name]
    module = getattr(crypten.nn, name)(*args).eval().encrypt()
    secrets = [
        crypten.cryptensor(one)
        if isinstance(one, torch.Tensor) and not (i and name in PUBLIC)
        else one
        for i, one in enumerate(inputs)
    ]
    agree(module(secrets[0] if len(secrets) == 1 else secrets), expected)
    agree(module(inputs[0] if len(inputs) == 1 else inputs), expected)


def test_operators_that_hold_what_others_are_given():
    agree(crypten.nn.MatMul(B).encrypt()(crypten.cryptensor(A)), A @ B)
    agree(crypten.nn.Gather(0, [1]).encrypt()(crypten.cryptensor(A)), A[[1]])
    agree(crypten.nn.AdaptiveAvgPool2d().encrypt()(crypten.cryptensor(A), 1), A.mean((1, 2), True))
    with pytest.raises(ValueError, match="indices of Gather"):
        crypten.nn.Gather(0).encrypt()([crypten.cryptensor(A), crypten.cryptensor([1])])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["BCELoss", "BCEWithLogitsLoss", "L1Loss", "MSELoss"])
def test_losses(name, reduction):
    x, y = torch.rand(4, 5) * 0.9 + 0.05, torch.rand(4, 5)
    x.requires_grad_()
    loss = getattr(crypten.nn, name)(reduction=reduction, skip_forward=True)
    secret = crypten.cryptensor(x.detach(), requires_grad=True)
    made, plain = loss(secret, crypten.cryptensor(y)), getattr(nn, name)(reduction=reduction)(x, y)
    agree(made, plain)
    agree(loss(secret, y), plain)
    weights = torch.ones(plain.shape)
    made.backward(crypten.cryptensor(weights))
    plain.backward(weights)
    agree(secret.grad, x.grad, atol=2e-2)
    with pytest.raises(AssertionError, match="shape"):
        loss(secret, y[:3])


def test_operators_of_the_rows_of_one_tensor():
    x = torch.randn(3, 2, 2)
    agree(crypten.nn.Gemm()(crypten.cryptensor(x)), x[0] @ x[1] + x[2])
    choices = torch.tensor([[1.0, 0.0], [5.0, 6.0], [7.0, 8.0]])
    agree(crypten.nn.Where()(crypten.cryptensor(choices)), torch.tensor([5.0, 8.0]))
    assert crypten.nn.ConstantOfShape(1.5)([[2, 4]]).shape == (2, 4)
    assert crypten.nn.ConstantOfShape(1.5)([2, 4]).shape == (2, 4)


def test_losses_of_classes_and_flipped_labels():
    x, classes = torch.randn(6, 5), torch.tensor([0, 4, 2, 1, 3, 3])
    hot = nn.functional.one_hot(classes)
    loss = crypten.nn.CrossEntropyLoss()
    assert loss.reduction == "mean"
    agree(loss(crypten.cryptensor(x), crypten.cryptensor(hot)), nn.CrossEntropyLoss()(x, classes))
    y, alpha = torch.randint(2, (6, 5)).float(), 0.8
    answer = alpha * x.sigmoid() + (1 - alpha) * (1 - x.sigmoid())
    made = crypten.nn.RAPPORLoss(alpha)(crypten.cryptensor(x), crypten.cryptensor(y))
    agree(made, nn.BCELoss()(answer, y))
    with pytest.raises(UnsupportedError, match="reduction"):
        crypten.nn.MSELoss(reduction="median")


def test_cosines():
    x, y = torch.randn(5, 4, requires_grad=True), torch.randn(5, 4)
    secret = crypten.cryptensor(x.detach(), requires_grad=True)
    made, plain = (
        crypten.nn.CosineSimilarity()(secret, crypten.cryptensor(y)),
        nn.CosineSimilarity()(x, y),
    )
    agree(made, plain)
    made.backward(crypten.cryptensor(torch.ones(5)))
    plain.sum().backward()
    agree(secret.grad, x.grad)


# Modules of programs ------------------------------------------------------------------------------


class Net(crypten.nn.Module):
    """A module as a program of CrypTen defines it."""

    def __init__(self):
        super().__init__()
        self.fc1 = crypten.nn.Linear(3, 8)
        self.fc2 = crypten.nn.Linear(8, 2)
        self.register_parameter("scale", torch.tensor(2.0))
        self.register_buffer("shift", torch.tensor([0.5, -0.5]))

    def forward(self, x):
        return self.fc2(self.fc1(x)) * self.scale + self.shift


def test_parts_by_name():
    model = Net()
    assert [name for name, _ in model.named_parameters()] == [
        *("scale", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    ]
    assert [name for name, _ in model.named_parameters(recurse=False)] == ["scale"]
    assert next(model.named_parameters(prefix="net"))[0] == "net.scale"
    assert [name for name, _ in model.named_buffers()] == ["shift"]
    assert [name for name, _ in model.named_modules()] == ["", "fc1", "fc2"]
    assert [name for name, _ in model.named_children()] == ["fc1", "fc2"]
    model.fc1.weight = nn.Parameter(torch.zeros(2, 3))
    assert torch.equal(model.fc1._parameters["weight"], torch.zeros(2, 3))
    model.fc1._buffers["kept"] = torch.ones(2)
    assert torch.equal(model.fc1.kept, torch.ones(2))
    model.fc1 = crypten.nn.ReLU()
    assert isinstance(model._modules["fc1"], crypten.nn.ReLU)
    for wrong in (
        lambda: model.set_parameter("absent", torch.ones(1)),
        lambda: model.set_buffer("absent", torch.ones(1)),
        lambda: model.register_parameter("scale", torch.ones(1)),
        lambda: model.register_buffer("fc2", torch.ones(1)),
    ):
        with pytest.raises(ValueError, match="Net has"):
            wrong()
    seen = []
    assert model.apply(seen.append) is model
    assert seen == [model.fc1, model.fc2, model]
    assert all(one.device.type == "cpu" for one in model.cpu().parameters())
    assert model.to(torch.float64).scale.dtype == torch.float64
    assert "fc2=Linear unencrypted module" in repr(model)


def test_what_is_no_module_is_refused():
    for parts in ([nn.Linear(2, 2)], [[nn.Linear(2, 2)]], ["relu"]):
        with pytest.raises(ConfigError, match="from_pytorch"):
            crypten.nn.Sequential(*parts)


def test_a_copy_has_tensors_of_its_own():
    model = Net().encrypt()
    other, before = copy.deepcopy(model), model.scale.get_plain_text()
    with crypten.no_grad():
        other.scale.add_(1.0)
    agree(model.scale, before)
    agree(other.scale, before + 1)


def test_modes_decide_whether_parameters_require_grad():
    model = Net().encrypt()
    assert model.training
    assert all(one.requires_grad for one in model.parameters())
    assert not any(one.requires_grad for one in model.buffers())
    model.eval()
    assert not model.fc1.training
    assert not any(one.requires_grad for one in model.parameters())
    with pytest.raises(AssertionError, match="training mode"):
        model.update_parameters(0.1)
    assert all(one.requires_grad for one in model.train().decrypt().parameters())


def test_a_part_that_is_encrypted_already():
    model, x = Net(), torch.randn(4, 3)
    expected = model(x)
    model.fc1.encrypt()
    assert not model.encrypted
    assert model.encrypt().fc2.encrypted
    agree(model(crypten.cryptensor(x)), expected)
    model.fc2.decrypt()
    assert torch.allclose(model.decrypt()(x), expected, atol=1e-2)


def states():
    return [
        *(crypten.nn.BatchNorm1d(4), crypten.nn.Conv1d(3, 6, 5), crypten.nn.Linear(4, 12)),
        Net(),
        crypten.nn.Sequential(crypten.nn.Linear(3, 2), crypten.nn.Linear(2, 1)),
    ]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("kind", range(len(states())))
def test_state_dicts(kind, encrypted):
    model, other = states()[kind].encrypt(encrypted), states()[kind]
    state = model.state_dict()
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    assert state.keys() == tensors.keys()
    if encrypted:
        with pytest.raises(AssertionError, match="plain in the module"):
            other.load_state_dict(state)
    other.encrypt(encrypted).load_state_dict(state)
    for name, tensor in other.state_dict().items():
        assert not tensor.requires_grad
        assert crypten.is_encrypted_tensor(tensor) is encrypted
        agree(tensor, state[name].get_plain_text() if encrypted else state[name], atol=0)
    state.pop(next(iter(state)))
    with pytest.raises(ValueError, match="not in both"):
        other.load_state_dict(state)
    other.load_state_dict(state, strict=False)


def test_a_state_of_other_sizes_is_refused():
    with pytest.raises(ValueError, match=r"weight has shape \(3, 2\)"):
        crypten.nn.Linear(2, 3).load_state_dict(crypten.nn.Linear(4, 3).state_dict())


# Training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss_name", ["BCEWithLogitsLoss", "CrossEntropyLoss", "MSELoss"])
def test_training_learns_as_torch_does(loss_name):
    x = torch.randn(32, 3)
    y = nn.functional.one_hot((x.sum(1) > 0).long()).float()
    plain = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    model = crypten.nn.from_pytorch(plain, x).encrypt()
    loss, plain_loss = getattr(crypten.nn, loss_name)(), getattr(nn, loss_name)()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
    values = []
    for _ in range(5):
        value = loss(model(crypten.cryptensor(x)), crypten.cryptensor(y))
        model.zero_grad()
        assert all(param.grad is None for param in model.parameters())
        value.backward()
        model.update_parameters(0.5)
        optimizer.zero_grad()
        plain_loss(plain(x), y).backward()
        optimizer.step()
        values.append(value.get_plain_text().item())
    assert values == sorted(values, reverse=True)
    for param, expected in zip(model.parameters(), plain.parameters(), strict=True):
        agree(param, expected, atol=1e-2)


def test_a_program_s_own_module_is_trained():
    model, x = Net().encrypt(), crypten.cryptensor(torch.randn(8, 3))
    loss = crypten.nn.MSELoss()(model(x), crypten.cryptensor(torch.zeros(8, 2)))
    loss.backward()
    before = {name: one.get_plain_text() for name, one in model.named_parameters()}
    steps = {name: one.grad.get_plain_text() for name, one in model.named_parameters()}
    model.update_parameters(0.1)
    for name, param in model.named_parameters():
        agree(param, before[name] - 0.1 * steps[name], atol=1e-3)


def test_large_gradients_count_as_zero_if_asked():
    model = crypten.nn.Linear(2, 1, bias=False)
    x = crypten.cryptensor([[50.0, 1.0]])
    for step in (
        lambda: model.update_parameters(1.0, grad_threshold=10),
        lambda: crypten.optim.SGD(model.parameters(), lr=1.0, grad_threshold=10).step(),
    ):
        model.encrypt().zero_grad()
        before = model.weight.get_plain_text()
        model(x).backward()
        step()
        agree(model.weight, before - torch.tensor([[0.0, 1.0]]), atol=1e-3)


OPTIONS = [*itertools.product((0.01, 0.5), (0.0, 0.9), (0.0, 0.1), (0.0, 0.9), (False, True))]


@pytest.mark.parametrize(("lr", "momentum", "dampening", "weight_decay", "nesterov"), OPTIONS)
def test_sgd(lr, momentum, dampening, weight_decay, nesterov):
    plain = nn.Linear(10, 2)
    model = crypten.nn.Linear(10, 2)
    model.set_parameter("weight", plain.weight)
    model.set_parameter("bias", plain.bias)
    model.encrypt()
    options = {"lr": lr, "momentum": momentum, "dampening": dampening}
    options |= {"weight_decay": weight_decay, "nesterov": nesterov}
    if nesterov and (momentum == 0 or dampening != 0):
        with pytest.raises(ValueError, match="Nesterov"):
            crypten.optim.SGD(model.parameters(), **options)
        return
    optimizer = crypten.optim.SGD(model.parameters(), **options)
    expected = torch.optim.SGD(plain.parameters(), **options)
    for _ in range(3):
        x = torch.randn(1, 10)
        expected.zero_grad()
        plain(x).sum().backward()
        expected.step()
        optimizer.zero_grad()
        assert model.weight.grad is None
        model(crypten.cryptensor(x)).backward(crypten.cryptensor(torch.ones(1, 2)))
        optimizer.step()
    agree(model.weight, plain.weight)
    agree(model.bias, plain.bias)


def test_sgd_with_groups_of_parameters():
    first, second = crypten.nn.Linear(2, 1).encrypt(), crypten.nn.Linear(2, 1).encrypt()
    before = [param.get_plain_text() for param in (*first.parameters(), *second.parameters())]
    optimizer = crypten.optim.SGD([{"params": first.parameters(), "lr": 0.5}], lr=0.1)
    optimizer.add_param_group({"params": second.parameters()})
    x = crypten.cryptensor([1.0, -2.0])
    (first(x) + second(x)).sum().backward()
    optimizer.step()
    gradients = [torch.tensor([[1.0, -2.0]]), torch.ones(1)]
    steps = [0.5 * gradients[0], 0.5 * gradients[1], 0.1 * gradients[0], 0.1 * gradients[1]]
    for param, old, step in zip(
        (*first.parameters(), *second.parameters()), before, steps, strict=True
    ):
        agree(param, old - step)


def test_sgd_runs_a_closure_and_refuses_what_is_no_number():
    model = crypten.nn.Linear(2, 1).encrypt()
    before = model.bias.get_plain_text()
    optimizer = crypten.optim.SGD([{"params": list(model.parameters()), "lr": 0.5}], lr=0.1)

    def closure():
        loss = model(crypten.cryptensor([[1.0, 2.0]]))
        loss.backward()
        return loss

    assert crypten.is_encrypted_tensor(optimizer.step(closure))
    agree(model.bias, before - 0.5)
    for wrong in ({"lr": -1.0}, {"lr": "fast"}, {"lr": 0.1, "momentum": -1.0}):
        with pytest.raises(ValueError, match=r"lr|learning rate|momentum"):
            crypten.optim.SGD(model.parameters(), **wrong)


# Initial values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("name", crypten.nn.init.__all__)
def test_initial_values(name, secret):
    shape = (5, 4) if name in ("eye_", "sparse_") else (5, 4, 3)
    args = {"constant_": (0.5,), "sparse_": (0.2,)}.get(name, ())
    torch.manual_seed(11)
    expected = getattr(nn.init, name)(torch.zeros(shape), *args)
    given = torch.zeros(shape)
    given = crypten.cryptensor(given) if secret else given
    torch.manual_seed(11)
    assert getattr(crypten.nn.init, name)(given, *args) is given
    agree(given, expected, atol=1e-4)
