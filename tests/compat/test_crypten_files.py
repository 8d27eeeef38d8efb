"""What CrypTen's parties send each other and read from files, and what they refuse of it."""

import io

import pytest
import torch
from torch import nn

import tacit.compat.crypten as crypten
from tacit.compat.crypten.common.serial import register_safe_class
from tacit.errors import ConfigError, FrameRejected

binary = crypten.mpc.binary


def at_parties(function, parties=2):
    """What the function returns at each party, which is a thread."""
    results = crypten.mpc.run_multiprocess(world_size=parties)(function)()
    assert results is not None
    return results


OBJECTS = [
    *(None, True, 3, -2.5, "text", b"\x00\xff", (2, (3,)), {4, 5}, {1: "a", (2, 3): None}),
    *(torch.Size([2, 3]), [], {}, [{"a": [1.0]}]),
]
TENSORS = [
    *(torch.tensor(7), torch.zeros(0, 3), torch.tensor([True, False])),
    torch.tensor([[0.1, -2.0]], dtype=torch.float64).t(),
]


def test_objects_keep_their_kinds():
    def program():
        comm = crypten.communicator.get()
        rank, given = comm.get_rank(), (OBJECTS, TENSORS, nn.Linear(2, 2).state_dict())
        sent = comm.broadcast_obj(given if rank == 1 else None, src=1)
        if rank == 0:
            comm.send_obj(given[2], 1)
        return sent, comm.recv_obj(0) if rank == 1 else given[2]

    first, second = at_parties(program)
    for (objects, tensors, _), _ in (first, second):
        assert objects == OBJECTS
        assert [type(one) for one in objects[:8]] == [type(one) for one in OBJECTS[:8]]
        for made, plain in zip(tensors, TENSORS, strict=True):
            assert made.dtype == plain.dtype
            assert torch.equal(made, plain)
    assert all(torch.equal(first[1][name], one) for name, one in second[1].items())


@pytest.mark.parametrize(
    "rubbish",
    [
        *(
            b"{}",
            b'["list"]',
            b'["magic", [1]]',
            b'["dict", [[["list", []], 1]]]',
            b'["bytes", "?"]',
        ),
        *(b'["tensor", "int64", [2], "AAAA"]', b'["tensor", "object", [1], ""]'),
        b'["tensor", "float32", [-1, -1], "AAAAAA=="]',
    ],
)
def test_objects_that_are_none(rubbish):
    def program():
        mesh = crypten.communicator.get()._mesh
        if mesh.rank == 1:
            mesh.exchange_bytes({0: rubbish}, [])
            return
        with pytest.raises(FrameRejected, match="party 1 sent no object"):
            crypten.communicator.get().broadcast_obj(None, 1)

    at_parties(program)


@pytest.mark.parametrize("told", [None, 3, ["tensor"], ["module", [1]], [None, "x"], {"a": 1}])
def test_a_party_that_does_not_tell_what_it_has_loaded(told):
    def program():
        if crypten.communicator.get().get_rank() == 1:
            crypten.communicator.get().broadcast_obj(told, 1)
            return
        with pytest.raises(FrameRejected, match="party 1 does not tell what it has loaded"):
            crypten.load_from_party("unread", src=1)

    at_parties(program)


def test_what_is_gathered_is_a_copy():
    def program():
        own = torch.tensor([crypten.communicator.get().get_rank()])
        gathered = crypten.communicator.get().all_gather(own)
        own += 1
        return [one.item() for one in gathered]

    assert at_parties(program) == [[0, 1], [0, 1]]


def test_parameters_are_sent_and_received():
    def program():
        comm, param = crypten.communicator.get(), nn.Parameter(torch.zeros(2))
        with torch.no_grad():
            param += comm.get_rank()
        assert comm.broadcast(param, 1) is param
        if comm.get_rank() == 1:
            comm.send(param * 2, 0)
            comm.send(param * 3, 0)
        else:
            assert comm.recv(param, 1).tolist() == [2.0, 2.0]  # and param is what it was
            assert param.tolist() == [1.0, 1.0]
            comm.irecv(param, 1).wait()
        return param.tolist(), param.requires_grad

    assert at_parties(program) == [([3.0, 3.0], True), ([1.0, 1.0], True)]


def test_files_of_two_calls_are_not_mixed():
    def program():
        rank, files = crypten.communicator.get().get_rank(), []
        for value in (1.0, 2.0):
            files.append(io.BytesIO())
            crypten.save([crypten.cryptensor([value])], files[-1])
            files[-1].seek(0)
        with pytest.raises(ConfigError, match=r"differ in share 0: .*same call of crypten\.save"):
            crypten.load(files[rank])
        for file in files:
            file.seek(0)
        return [crypten.load(file)[0].get_plain_text().item() for file in files]

    assert at_parties(program) == [[1.0, 2.0]] * 2


def test_modules_are_not_saved_but_their_states():
    crypten.init()
    with pytest.raises(NotImplementedError, match="state_dict"):
        crypten.save(crypten.nn.Linear(2, 1).encrypt(), io.BytesIO())
    crypten.uninit()


def test_bits_in_files():
    x = torch.tensor([[5, -3, 2**62]])

    def program():
        reals = crypten.cryptensor([0.5, -1.25]).to(binary)
        file = io.BytesIO()
        crypten.save({"x": crypten.cryptensor(x, ptype=binary), "reals": reals}, file)
        file.seek(0)
        read = crypten.load(file)
        assert read["x"].ptype is read["reals"].ptype is binary
        return read["x"].get_plain_text(), read["reals"].get_plain_text().tolist()

    for parties in (1, 2):
        for read, reals in at_parties(program, parties):
            assert torch.equal(read, x)
            assert reals == [0.5, -1.25]


class Net(nn.Module):
    """A model with a class of its own."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


def test_registered_classes_of_models(tmp_path):
    register_safe_class(Net)
    x = torch.tensor([[1.0, -2.0, 0.5]])

    def program():
        model, comm = Net(), crypten.communicator.get()
        with torch.no_grad():
            for param in model.parameters():
                param.fill_(comm.get_rank() + 1.0)
        crypten.save_from_party(model, tmp_path / "model.pth", src=1)
        loaded = crypten.load_from_party(tmp_path / "model.pth", src=1)
        secret = crypten.nn.from_pytorch(loaded, torch.empty(1, 3)).encrypt(src=loaded.src)
        return secret(crypten.cryptensor(x)).get_plain_text()

    for made in at_parties(program):
        assert torch.allclose(made, torch.full((1, 2), 2 * (1 - 2 + 0.5) + 2), atol=1e-3)


@pytest.mark.parametrize("src", [None, "party0", -1, 2])
def test_sources_that_are_no_parties(src):
    def program():
        for refused in (
            lambda: crypten.cryptensor([1.0], src=src),
            lambda: crypten.cryptensor([1], src=src, ptype=binary),
            lambda: crypten.load_from_party(preloaded=torch.ones(1), src=src),
            lambda: crypten.save_from_party(torch.ones(1), "file", src=src),
        ):
            with pytest.raises(AssertionError, match="0 to 1"):
                refused()

    at_parties(program)


def test_a_tensor_of_another_party():
    crypten.init()
    own = torch.ones(2)
    own.src = 1
    with pytest.raises(AssertionError, match="a tensor of party 1 is shared as one of party 0"):
        crypten.cryptensor(own, src=0)
    crypten.uninit()
