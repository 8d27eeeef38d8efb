"""CrypTen's modules with several parties: whose weights count, and what training makes of them."""

import io

import pytest
import torch
from torch import nn

import tacit.compat.crypten as crypten

SESSIONS = [(2, "beaver"), (3, "replicated")]
IMAGES = torch.linspace(-1, 1, 4 * 36).view(4, 1, 6, 6).sin()
LABELS = nn.functional.one_hot(torch.tensor([0, 2, 1, 0]), 3).float()


def at_parties(function, parties, protocol):
    """What the function returns at each party, which is a thread."""
    with crypten.cfg.temp_override({"mpc.protocol": protocol}):
        results = crypten.mpc.run_multiprocess(world_size=parties)(function)()
    assert results is not None
    return results


def weights_of(rank, model):
    """Gives a torch model the weights that a party begins with, which no other party has."""
    generator = torch.Generator().manual_seed(rank)
    with torch.no_grad():
        for param in model.parameters():
            param.copy_(torch.rand(param.shape, generator=generator) - 0.4)
    return model


def network(library):
    parts = [library.Conv2d(1, 2, 3), library.ReLU(), library.MaxPool2d(2)]
    return library.Sequential(*parts, library.Flatten(), library.Linear(8, 3))


def trained_by_torch():
    """The weights of party 1 after two steps of torch."""
    model = weights_of(1, network(nn))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(model(IMAGES), LABELS).backward()
        optimizer.step()
    return model


def own(rank, party, tensor):
    """A tensor that one party alone has."""
    return crypten.cryptensor(tensor if rank == party else torch.empty(tensor.shape), src=party)


@pytest.mark.parametrize(
    ("parties", "protocol"),
    [
        pytest.param(
            *SESSIONS[0],
            marks=pytest.mark.full("test_a_module_of_a_program trains with two parties"),
        ),
        SESSIONS[1],
    ],
)
def test_training(parties, protocol):
    def program():
        rank = crypten.communicator.get().get_rank()
        model = weights_of(rank, network(crypten.nn)).encrypt(src=1)
        optimizer = crypten.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
        images, labels = own(rank, 0, IMAGES), own(rank, parties - 1, LABELS)
        for _ in range(2):
            optimizer.zero_grad()
            crypten.nn.CrossEntropyLoss()(model(images), labels).backward()
            optimizer.step()
        file = io.BytesIO()
        crypten.save(model.state_dict(), file)
        file.seek(0)
        other = network(crypten.nn).encrypt()
        other.load_state_dict(crypten.load(file))
        return [param.detach() for param in other.decrypt().parameters()]

    for params in at_parties(program, parties, protocol):
        for made, plain in zip(params, trained_by_torch().parameters(), strict=True):
            assert torch.allclose(made, plain, atol=2e-3)


@pytest.mark.parametrize(("parties", "protocol"), SESSIONS)
def test_a_model_of_torch_that_one_party_has(parties, protocol):
    def program():
        rank = crypten.communicator.get().get_rank()
        model = nn.Sequential(network(nn), nn.BatchNorm1d(3)).eval()
        weights_of(rank, model)
        secret = crypten.nn.from_pytorch(model, torch.empty(1, 1, 6, 6)).encrypt(src=1)
        assert not secret.training
        shown = secret(own(rank, 0, IMAGES)).get_plain_text(dst=parties - 1)
        assert (shown is None) == (rank != parties - 1)
        return shown

    made = at_parties(program, parties, protocol)[-1]
    plain = weights_of(1, nn.Sequential(network(nn), nn.BatchNorm1d(3)).eval())(IMAGES)
    assert torch.allclose(made, plain, atol=2e-3)


def normalised(library):
    """A module with a parameter and a buffer of its own, of torch's classes or of CrypTen's."""

    class Net(library.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = library.Linear(2, 4), library.BatchNorm1d(4)
            self.register_parameter("scale", nn.Parameter(torch.ones(4)))
            self.register_buffer("shift", torch.tensor([1.0, 0.0, -1.0, 2.0]))

        def forward(self, x):
            return (self.norm(self.first(x)).relu() * self.scale + self.shift).sum(1)

    return Net()


@pytest.mark.parametrize(("parties", "protocol"), SESSIONS)
def test_a_module_of_a_program(parties, protocol):
    x, y = torch.tensor([[1.0, -2.0], [0.5, 0.25], [-1.0, 3.0]]), torch.tensor([1.0, 0.5, -2.0])

    def program():
        rank = crypten.communicator.get().get_rank()
        model = weights_of(rank, normalised(crypten.nn)).encrypt(src=1).train()
        loss = crypten.nn.MSELoss()(model(own(rank, 0, x)), own(rank, 1, y))
        model.zero_grad()
        loss.backward()
        model.update_parameters(learning_rate=0.1)
        return [loss.get_plain_text(), *model.decrypt().parameters(), *model.buffers()]

    model = weights_of(1, normalised(nn))
    loss = nn.MSELoss()(model(x), y)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    reals = [one for one in model.buffers() if one.is_floating_point()]
    plain = [loss, *model.parameters(), *reals]
    for made in at_parties(program, parties, protocol):
        for one, other in zip(made, plain, strict=True):
            assert torch.allclose(one, other, atol=4e-3)


SCALING = crypten.nn.Linear(2, 2, bias=False)
SCALING.set_parameter("weight", nn.Parameter(torch.eye(2) * 5))


def scaled(x):
    return SCALING(x)


def test_a_module_made_before_is_each_party_s_own():
    shift, tied = crypten.nn.Parameter(torch.ones(2)), torch.zeros(2)
    both = [tied, tied]

    def program(*given):
        rank = crypten.communicator.get().get_rank()
        tied.add_(rank)
        assert given[0] is tied
        assert SCALING.encrypt(src=0).encrypted
        x = own(rank, 1, torch.tensor([[1.0, -2.0]]))
        made = scaled(x) + shift.encrypt(src=0)()
        return made.get_plain_text().tolist(), tied.tolist()

    results = crypten.mpc.run_multiprocess(world_size=2)(program)(*both)
    assert [made for made, _ in results] == [[[6.0, -9.0]]] * 2
    assert [own for _, own in results] == [[0.0, 0.0], [1.0, 1.0]]
    assert not SCALING.encrypted
    assert not shift.encrypted
    assert tied.tolist() == [0.0, 0.0]
