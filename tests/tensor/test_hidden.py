"""No attribute or function of torch, numpy or Python shows the values of a secret tensor."""

from __future__ import annotations

import copy
import ctypes
import io
import pickle
import struct
import warnings
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from tests import forked
from torch.multiprocessing.reductions import reduce_tensor

import tacit
from tacit.errors import Error, ForkedUse, RevealForbidden, UnsupportedError
from tacit.tensor.substitutes import numpy_substitute

# These return an identity or an address of the Python object, another one for each tensor.
IDENTITIES = {"__hash__", "_cdata", "__dict__", "__getstate__", "__weakref__", "__sizeof__"}
NAMES = sorted({*dir(torch.Tensor)} - IDENTITIES - {"__class__", "__dir__", "__init__"})
CONTENTS = (torch.tensor([[0.5, 1.0], [2.0, 0.25]]), torch.tensor([[3.0, 0.75], [0.5, 6.0]]))


def found(tensor, name):
    """The attribute of this name, or what it returns without arguments, or the error."""
    try:
        value = getattr(tensor, name)
        return value() if callable(value) else value
    except Exception as error:
        return error


def leaves(value):
    """All parts of a result that are not containers."""
    if isinstance(value, list | tuple | dict | set) and not isinstance(value, torch.Size):
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for part in parts for leaf in leaves(part)]
    return [value]


def described(name, secret, plain):
    """What a call on a secret gave, without identities of objects; fails if it gave values."""
    value = found(secret, name)
    if isinstance(value, Error):
        assert value.remedy or value.limit or value.reason, name
        return type(value)
    if isinstance(value, Exception):  # of torch or Python: a plain tensor raises too
        assert isinstance(found(plain, name), Exception), (name, value)
        return type(value)
    parts = []
    for leaf in leaves(value):
        assert isinstance(leaf, tacit.SecretTensor) or not (
            isinstance(leaf, torch.Tensor | np.ndarray) and 0 not in leaf.shape
        ), (name, "is a plain tensor")
        is_public = isinstance(leaf, int | float | complex | str | bytes)
        parts.append(leaf if is_public else type(leaf))
    return parts


def walk(session, contents):
    return {
        name: described(name, session.share(contents, owner=0), contents.clone()) for name in NAMES
    }


def assert_nothing_depends_on_values(protocol, parties, contents):
    with warnings.catch_warnings():  # the filters of warnings are one for all threads
        warnings.simplefilter("ignore")
        walks = [
            tacit.run(walk, values, protocol=protocol, parties=parties)[0] for values in contents
        ]
    assert len(walks[0]) > 600
    different = [name for name in NAMES if walks[0][name] != walks[1][name]]
    assert not different
    return walks[0]


def test_every_attribute_is_secret_public_or_refused():
    seen = assert_nothing_depends_on_values("cleartext", 1, CONTENTS)
    assert seen["shape"] == [torch.Size]
    assert seen["numel"] == [4]
    for name in ("item", "tolist", "numpy", "data_ptr", "storage", "share_memory_", "__dlpack__"):
        assert seen[name] is RevealForbidden, name


@pytest.mark.full("test_every_attribute_is_secret_public_or_refused walks them in cleartext")
@pytest.mark.parametrize(
    ("size", "kind"),
    [("matrix", torch.float32), ("one element", torch.int64), ("one element", torch.bool)],
)
def test_every_attribute_in_three_parties(size, kind):
    contents = [(x if size == "matrix" else x[0, 0]).to(kind) for x in CONTENTS]
    assert_nothing_depends_on_values("trio", 3, contents)


CONVERSIONS = {
    "numpy.from_dlpack": np.from_dlpack,
    "torch.from_dlpack": torch.from_dlpack,
    "numpy.asarray": np.asarray,
    "numpy.array without a copy": lambda x: np.array(x, copy=False),
    "bytes": bytes,
    "a format": lambda x: f"{x:.3f}",
    "a format of a scalar": lambda x: f"{x.sum():.3f}",
    "complex": lambda x: complex(x.sum()),
    "range": lambda x: range(x.sum().long()),
    "min": lambda x: min(x.sum(), 2.0),
    "torch.tensor of a list": lambda x: torch.tensor([x.sum()]),
    "torch.full": lambda x: torch.full((2,), x.sum()),
    "torch.zeros": lambda x: torch.zeros(x.sum().long()),
    "torch.equal": lambda x: torch.equal(x, x),
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "torch.save": lambda x: torch.save({"x": x}, io.BytesIO()),
    "a queue of processes": ForkingPickler.dumps,
    "reduce_tensor": reduce_tensor,
    "ctypes": lambda x: ctypes.c_float(x.sum()),
    "apply_": lambda x: x.apply_(float),
    "map_": lambda x: x.map_(x, max),
    "map2_": lambda x: x.map2_(x, x, max),
}
UNSUPPORTED = {
    "numpy.mean": np.mean,
    "numpy.add into an array": lambda x: np.add(np.ones((2, 2)), x, out=np.ones((2, 2))),
    "numpy.add along an axis": np.add.reduce,
    "a ufunc that torch has not": np.rint,
    "numpy.linalg.norm": np.linalg.norm,
    "numpy.stack": lambda x: np.stack([x, x]),
    "copy_ to plain": lambda x: torch.zeros(2, 2).copy_(x),
    "add_ to plain": lambda x: torch.zeros(2, 2).add_(x),
    "out=": lambda x: torch.add(x, 1, out=torch.zeros(2, 2)),
    "set_": lambda x: torch.zeros(2, 2).set_(x),
    "a sparse tensor": lambda x: x.to_sparse(),
    "other bits": lambda x: x.view(torch.int32),
}
# Functions in C and C++ that no tensor class can answer: they raise an error of their own.
FOREIGN = {
    "torch.utils.dlpack.to_dlpack": torch.utils.dlpack.to_dlpack,
    "Tensor.__dlpack__": torch.Tensor.__dlpack__,
    "Tensor.data_ptr": torch.Tensor.data_ptr,
    "Tensor.numpy": torch.Tensor.numpy,
    "Tensor.tolist": torch.Tensor.tolist,
    "memoryview": memoryview,
    "torch.frombuffer": lambda x: torch.frombuffer(x, dtype=torch.float32),
    "torch.from_numpy": torch.from_numpy,
    "struct": lambda x: struct.pack("f", x.sum()),
}


def test_conversions_refuse_and_say_what_to_do():
    def main(session):
        for kinds, doors in (
            (RevealForbidden, CONVERSIONS),
            (UnsupportedError, UNSUPPORTED),
            ((TypeError, ValueError, RuntimeError, struct.error), FOREIGN),
        ):
            for name, convert in doors.items():
                x = session.share(CONTENTS[0].clone(), owner=0)
                with pytest.raises(kinds) as caught:
                    convert(x)
                assert doors is FOREIGN or caught.value.remedy, name

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tacit.run(main, parties=1, protocol="cleartext")


def test_public_facts_and_copies_stay():
    def main(session):
        x = session.share(CONTENTS[0], owner=0)
        assert (np.shape(x), np.ndim(x)) == ((2, 2), 2)
        assert f"{x}" == str(x) == "SecretTensor(shape=(2, 2), dtype=torch.float32)"
        assert session.reveal(np.float32(2) * x).equal(2 * CONTENTS[0])
        assert session.reveal(copy.deepcopy(x)).equal(CONTENTS[0])
        gradient = torch.func.grad(lambda a: (a * a).sum())(x)
        assert session.reveal(gradient).equal(2 * CONTENTS[0])

    tacit.run(main, parties=1, protocol="cleartext")


NUMPY = {
    "array + secret": lambda a, x: a + x,
    "secret - array": lambda a, x: x - a,
    "array * secret": lambda a, x: a * x,
    "array / secret": lambda a, x: a / x,
    "array @ secret": lambda a, x: a @ x,
    "array < secret": lambda a, x: a < x,
    "array == secret": lambda a, x: np.equal(a, x),
    "array ** 2": lambda a, x: np.power(x, 2),
    "exp": lambda a, x: np.exp(x),
    "maximum": lambda a, x: np.maximum(x, a),
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpys_elementwise_functions_compute_as_torch_does(name):
    """The array of numpy is public, as a plain tensor is."""
    array = np.array([[0.5, 2.0], [1.0, 0.25]], np.float32)
    compute = NUMPY[name]

    def main(session):
        x = session.share(CONTENTS[0], owner=0)
        made = compute(array, x)
        assert isinstance(made, tacit.SecretTensor)
        return session.reveal(made)

    [revealed] = tacit.run(main, parties=1, protocol="cleartext")
    want = compute(array, CONTENTS[0].numpy())
    assert tuple(revealed.shape) == want.shape
    assert revealed.dtype == torch.as_tensor(want).dtype
    np.testing.assert_allclose(revealed.numpy(), want, atol=2e-3)


def test_torchmetrics_is_refused_with_what_to_use():
    metrics = pytest.importorskip("torchmetrics")

    def main(session):
        scores, labels = session.share([0.25, 0.75], owner=0), session.share([0, 1], owner=0)
        for metric in (metrics.Accuracy(task="binary"), metrics.AUROC(task="binary")):
            with pytest.raises(Error, match=r"tacit\.metrics computes on secrets"):
                metric.update(scores, labels)
        with pytest.raises(Error, match=r"tacit\.metrics computes on secrets"):
            metrics.MeanSquaredError().update(scores, scores)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tacit.run(main, parties=1, protocol="cleartext")


class Rows(torch.utils.data.Dataset):
    """Secret rows, or a function of them."""

    def __init__(self, x, function):
        self.x, self.function = x, function

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.function(self.x[row])


@pytest.mark.parametrize("function", [torch.clone, torch.relu])
def test_workers_of_a_data_loader_get_no_secrets(function):
    """A forked worker would use masks and connections of the party once more."""

    def main(session):
        x = session.share(CONTENTS[0], owner=0)
        batches = torch.utils.data.DataLoader(
            Rows(x, function), num_workers=1, multiprocessing_context="fork"
        )
        with pytest.raises(ForkedUse, match="num_workers=0") as caught:
            list(batches)
        assert "Traceback" not in str(caught.value)
        indices = torch.utils.data.DataLoader(torch.arange(2), num_workers=1)
        return [session.reveal(x[rows]).tolist() for rows in indices]

    for found in tacit.run(main):
        assert found == [CONTENTS[0][:1].tolist(), CONTENTS[0][1:].tolist()]


def test_memory_is_neither_taken_nor_given():
    """tests/tensor/memory_doors.py lists the doors; one that is open ends its process."""
    code, out, err = forked.run(["-m", "tests.tensor.memory_doors"])
    assert (code, out.splitlines()[-1:]) == (0, ["all doors are closed"]), (out[-200:], err[-2000:])


def given_to_torch(x):
    """Arguments of a secret matrix with which one or another function computes."""
    v = x[0]
    yield from ((x,), (x, x), (v, v), ((x, x),), (x, 0), (x, 0, 1), (v, 3), (x, (0,)), (v, (3,)))
    yield from ((x > 1, x, x), ("ij->ji", x), (x[None], 1))


def is_computed_by_torch(name, x):
    for arguments in given_to_torch(x):
        try:
            getattr(torch, name)(*arguments)
        except Exception:  # of arguments that it does not take
            continue
        return True
    return False


@pytest.mark.full("test_9_what_has_no_rule_names_what_computes_instead, of some functions")
@pytest.mark.filterwarnings("ignore")
def test_what_numpy_is_told_to_be_computed_by_torch_is():
    modules = (np, np.linalg, np.fft)
    functions = [getattr(one, name) for one in modules for name in dir(one)]
    names = {one.__name__ for one in functions if hasattr(one, "_implementation")}
    called = {n for n in names if numpy_substitute(n) == f"torch.{n} computes on secrets"}
    assert len(called) > 80

    def main(session):
        x = session.share(torch.eye(3) + 0.5, owner=0)
        return {name for name in called if not is_computed_by_torch(name, x)}

    assert tacit.run(main, protocol="cleartext", parties=1) == [set()]
