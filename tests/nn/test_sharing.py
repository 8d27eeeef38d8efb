"""Modules and nests into secrets and back: same class, same ties, public what must be public."""

import copy
import zlib
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.runtime.rogue import say
from torch import nn

import tacit
from tacit.errors import (
    ConfigError,
    PartyFailed,
    ProtocolDesync,
    PublicMismatch,
    UnsupportedModule,
)
from tacit.tensor import SecretTensor

Pair = namedtuple("Pair", "left right")
REAL = torch.float64


class Tied(nn.Module):
    """A model with tied weights, a buffer of each kind, a frozen parameter and a hook."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.inner = nn.Linear(4, 4, bias=False)
        self.outer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        for tensor in (self.inner.weight, self.outer.bias, self.norm.running_mean):
            tensor.data.copy_(torch.randn(tensor.shape, generator=generator))
        self.norm.num_batches_tracked += seed
        self.outer.weight = self.inner.weight
        self.outer.bias.requires_grad_(False)
        self.register_buffer("mask", torch.arange(4) % 2 == 0)
        self.calls: list[str] = []
        self.register_forward_hook(lambda *_: self.calls.append("hook"))

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


def run(main, *args, protocol="trio", **kwargs):
    return tacit.run(main, *args, protocol=protocol, **kwargs)


def failure(main, *args, parties=3):
    with pytest.raises(PartyFailed) as caught:
        tacit.run(main, *args, parties=parties, deadline=120.0)
    return str(caught.value)


@pytest.mark.parametrize("owner", [0, 1, 2])
@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_a_module_keeps_its_class_and_ties_and_comes_back(owner, protocol):
    want = Tied(seed=3)

    def main(session):
        model = Tied(seed=3 if session.rank == owner else 7 + session.rank)
        shared = session.share(model, owner=owner)
        assert shared is model
        assert type(shared) is Tied
        assert shared.outer.weight is shared.inner.weight
        assert isinstance(shared.inner.weight, nn.Parameter)
        secrets = dict(shared.named_parameters()) | {"mean": shared.norm.running_mean}
        assert all(isinstance(tensor, SecretTensor) for tensor in secrets.values())
        assert not shared.outer.bias.requires_grad
        assert shared.inner.weight.requires_grad
        assert shared.norm.num_batches_tracked == 3
        assert not isinstance(shared.mask, SecretTensor)
        return session.reveal(shared)

    for plain in run(main, protocol=protocol):
        assert type(plain) is Tied
        assert plain.outer.weight is plain.inner.weight
        assert not plain.outer.bias.requires_grad
        for name, tensor in want.state_dict().items():
            torch.testing.assert_close(plain.state_dict()[name], tensor, atol=2**-16, rtol=0)


def test_reveal_to_one_party_and_the_secret_model_stays():
    def main(session):
        model = session.share(Tied(seed=1), owner=1)
        plain = session.reveal(model, to=2)
        assert isinstance(model.inner.weight, SecretTensor)
        return plain

    plain = run(main)
    assert plain[0] is None
    assert plain[1] is None
    torch.testing.assert_close(plain[2].inner.weight, Tied(seed=1).inner.weight, atol=1e-4, rtol=0)


def test_others_may_build_on_the_meta_device():
    def main(session):
        with torch.device("cpu" if session.rank == 0 else "meta"):
            model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        if session.rank == 0:
            model[0].weight.data.fill_(0.5)
            model[1].num_batches_tracked.fill_(9)
        model = session.share(model, owner=0)
        return session.reveal(model)

    for plain in run(main):
        assert (plain[0].weight == 0.5).all()
        assert plain[1].num_batches_tracked == 9


def test_the_owner_must_have_values():
    def main(session):
        session.share(nn.Linear(2, 2, device="meta"), owner=1)

    assert "no values (meta device) at its owner, party 1" in failure(main)


def test_a_secret_module_computes_and_its_hooks_run():
    x, model = torch.randn(5, 4), Tied(seed=5)
    want = model(x)

    def main(session):
        shared = session.share(copy.deepcopy(model), owner=0)
        y = shared(session.share(x, owner=1))
        return session.reveal(y), shared.calls

    for got, calls in run(main):
        torch.testing.assert_close(got, want.detach(), atol=1e-3, rtol=1e-3)
        assert calls[-1] == "hook"


def test_all_parameters_in_few_messages():
    def main(session):
        model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(40)])
        with session.stats.scope("share") as cost:
            session.share(model, owner=0)
        with session.stats.scope("reveal") as back:
            session.reveal(model)
        return cost.rounds, cost.messages, back.rounds

    for rounds, messages, back in run(main):
        assert rounds <= 1  # the comparison; what the dealer shares goes ahead
        assert messages <= 3
        assert back == 1


@pytest.mark.parametrize("protocol", ["trio", "cleartext"])
def test_batches_are_cut_by_count_and_by_size(protocol, monkeypatch):
    from tacit.fixedpoint import transfer

    monkeypatch.setattr(transfer, "MOST_TENSORS", 3)
    monkeypatch.setattr(transfer, "MOST_ELEMENTS", 20)
    tensors = [torch.randn(size) for size in (5, 5, 5, 5, 30, 1, 19, 1, 0)]

    def main(session):
        return session.reveal(session.share(tensors, owner=2))

    for got in run(main, protocol=protocol):
        for one, want in zip(got, tensors, strict=True):
            torch.testing.assert_close(one, want, atol=2**-16, rtol=0)


def test_different_shapes_are_refused_with_the_path_and_both():
    def main(session):
        width = 5 if session.rank == 2 else 4
        session.share(nn.Sequential(nn.Linear(3, width), nn.ReLU()), owner=0)

    message = failure(main)
    assert "ConfigError" in message
    assert "0.weight" in message
    assert "(4, 3)" in message
    assert "(5, 3)" in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.double(), "float64"),
        (lambda m: m.eval(), "eval mode"),
        (lambda m: m[0].bias.requires_grad_(False), "frozen"),
        (lambda m: setattr(m[2], "weight", m[0].weight), "tied to"),
        (lambda m: m.append(nn.Identity()), "nothing at party"),
    ],
)
def test_other_differences_are_refused(change, words):
    def main(session):
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        if session.rank == 1:
            change(model)
        session.share(model, owner=0)

    message = failure(main)
    assert "ConfigError" in message
    assert words in message


def test_one_object_for_several_parties_is_refused():
    model = nn.Linear(2, 2)

    def main(session):
        session.share(model, owner=0)

    assert "copy.deepcopy it, inside main" in failure(main)
    assert not any(isinstance(p, SecretTensor) for p in model.parameters())


def test_nests_and_named_tuples():
    nest = {
        "a": [torch.randn(2), torch.arange(3)],
        "b": Pair(torch.tensor([True, False]), OrderedDict(c=torch.randn(2, 2))),
        "m": nn.Linear(2, 1),
    }

    def main(session):
        own = copy.deepcopy(nest)
        secret = session.share(own, owner=1)
        assert isinstance(secret["b"], Pair)
        return session.reveal(secret, to=0)

    plain, other, _ = run(main)
    assert isinstance(plain["b"], Pair)
    assert torch.equal(plain["a"][1], nest["a"][1])
    assert torch.equal(plain["b"].left, nest["b"].left)
    torch.testing.assert_close(plain["b"].right["c"], nest["b"].right["c"], atol=1e-4, rtol=0)
    torch.testing.assert_close(plain["m"].weight, nest["m"].weight, atol=1e-4, rtol=0)
    assert other["m"] is None
    assert other["a"] == [None, None]


def test_nests_that_differ_are_refused():
    def main(session):
        keys = ("x", "y") if session.rank else ("x", "z")
        session.share({key: torch.zeros(2) for key in keys}, owner=0)

    assert "the parties differ in ['" in failure(main)


class Table:
    """Like a DataFrame of pandas with text, as far as `share` looks at it."""

    def __array__(self, dtype=None, copy=None):
        return np.array([[1, "a"]], object)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "tensors, modules, numpy arrays"),
        ([torch.zeros(2), None], "is a NoneType"),
        ((1.0, 2.0), "share a list of numbers"),
        ([torch.zeros(2), 2.0], "share a list of numbers"),
        ([[1.0, 2.0], [3.0]], "lists of different lengths"),
        ([1 << 70], "too large numbers"),
        ([[1.0, None]], "is a number in a tuple, or beside"),
        (np.array(["a"]), "a numpy array of <U1"),
        (1 << 70, "which no tensor can hold"),
        (Table(), "session.load takes a frame"),
    ],
)
def test_what_is_no_tensor_is_refused(value, words):
    def main(session):
        with pytest.raises(ConfigError, match=words):
            session.share(value, owner=0)
        with pytest.raises(ConfigError, match="not a secret"):
            session.reveal(value)

    tacit.run(main, parties=1, protocol="cleartext")


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        (torch.zeros(2), {"shape": (3,)}, "is not the value's"),
        (torch.zeros(2), {"dtype": torch.int64}, "is not the value's torch.float32"),
        (torch.zeros(2), {"public": ["mask"]}, "for buffers of a module"),
        ([torch.zeros(2)], {"shape": (2,)}, "for a single tensor"),
        (nn.Linear(2, 2), {"dtype": torch.float32}, "for a single tensor"),
        (None, {}, "or shape="),
    ],
)
def test_arguments_that_do_not_fit_are_refused(value, options, words):
    def main(session):
        with pytest.raises(ConfigError, match=words):
            session.share(value, owner=0, **options)

    tacit.run(main, parties=1, protocol="cleartext")


def test_numbers_and_arrays_are_shared_as_tensors():
    given = {
        "number": 2.5,
        "count": 7,
        "flag": True,
        "array": np.arange(6.0).reshape(2, 3)[:, ::-1],
        "scalar": np.float32(1.5),
        "bytes": np.array([1, 2], dtype=np.uint8),
        "list": [[1, 2], [3, 4]],
        "floats": [1.5, np.float32(2.5)],
    }
    want = {name: torch.tensor(np.array(value)) for name, value in given.items()}
    want |= {"number": torch.tensor(2.5), "scalar": torch.tensor(1.5)}
    want |= {"floats": torch.tensor([1.5, 2.5])}

    def main(session):
        nested = session.reveal(session.share(given, owner=1))
        own = session.share(given["array"] if session.rank == 1 else None, 1, (2, 3), dtype=REAL)
        mine = [4, 5, 6] if session.rank == 2 else None
        numbers = session.share(mine, owner=2, shape=(3,), dtype=torch.int64)
        return nested, session.reveal([own, session.share(2.5, owner=2), numbers])

    for nested, [array, number, numbers] in run(main):
        assert numbers.tolist() == [4, 5, 6]
        for name, tensor in want.items():
            assert torch.equal(nested[name], tensor), name
            assert nested[name].dtype == tensor.dtype
        assert torch.equal(array, want["array"])
        assert number == 2.5


def share_shapes(session):
    return session.share(torch.zeros(3 if session.rank == 2 else 4), owner=0)


def share_integers_by_shape(session):
    return session.share(torch.arange(3) if session.rank == 1 else None, owner=1, shape=(3,))


def share_own(session):
    return session.share(torch.zeros(2), owner=session.rank % 2)


DIFFERENT = [
    (share_shapes, {": shape (4,), float32, owner 0", "party 2: shape (3,), float32, owner 0"}),
    (share_integers_by_shape, {": shape (3,), float32,", "party 1: shape (3,), int64, owner 1"}),
    (share_own, {": shape (2,), float32, owner 0", "party 1: shape (2,), float32, owner 1"}),
]


@pytest.mark.parametrize(("share", "held"), DIFFERENT)
@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_tensors_that_differ_are_named_with_their_parties(share, held, protocol):
    def main(session):
        return session.reveal(share(session))  # a party that only sends waits at the reveal

    with pytest.raises(PartyFailed) as failed:
        run(main, protocol=protocol)
    error = failed.value.__cause__
    assert isinstance(error, PublicMismatch)
    assert error.op == "share"
    assert all(text in str(error) for text in held), str(error)
    assert "shape= and dtype=" in error.remedy
    assert [note for note in failed.value.__notes__ if "in the same way" not in note] == []


def test_integers_by_shape_and_dtype_are_integers():
    labels = torch.tensor([2, 0, 1])
    logits = torch.tensor([[1.0, 2.0, 0.5], [0.0, 1.0, 3.0], [2.0, -1.0, 0.0]])

    def main(session):
        own = labels if session.rank == 1 else None
        y = session.share(own, owner=1, shape=(3,), dtype=torch.int64)
        assert y.dtype == torch.int64
        return session.reveal(F.cross_entropy(session.share(logits, owner=0), y))

    for loss in run(main):
        torch.testing.assert_close(loss, F.cross_entropy(logits, labels), atol=1e-3, rtol=0)


def test_sharing_twice_is_refused():
    def main(session):
        model = session.share(nn.Linear(2, 2), owner=0)
        with pytest.raises(ConfigError, match="weight is secret already"):
            session.share(model, owner=0)
        with pytest.raises(ConfigError, match="owner=3"):
            session.share(torch.zeros(1), owner=3)

    tacit.run(main, parties=1, protocol="cleartext")


def test_unsharable_tensors_are_all_named():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
            self.lazy = nn.LazyLinear(3)

    def main(session):
        with pytest.raises(UnsupportedModule) as caught:
            session.share(Odd(), owner=0)
        return str(caught.value)

    [message] = tacit.run(main, parties=1, protocol="cleartext")
    assert "phase is torch.complex64" in message
    assert "lazy.weight has no shape yet" in message


@pytest.mark.parametrize("said", [b"", b"no table", zlib.compress(b"[1]"), zlib.compress(b"[")])
def test_a_description_that_says_nothing_names_who_gave_it(said):
    def main(session):
        if session.rank == 1:
            return say(session.mesh, said, said)
        with pytest.raises(ProtocolDesync) as caught:
            session.share(nn.Linear(2, 4), owner=0)
        return caught.value.party

    assert run(main) == [1, None, 1]
