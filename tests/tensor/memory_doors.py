"""A program that tries what could take the memory of a secret tensor, or give it to another one.

A secret has no memory (NOTE [no memory] in tensor/hidden.py), so a door that is left open crashes
the process: the test runs this program in one of its own. It prints the name of each door first.
"""

from __future__ import annotations

import copy
import ctypes
import io
import pickle

import numpy as np
import torch
from torch import nn
from torch.__future__ import set_overwrite_module_params_on_conversion as overwrite_parameters
from torch.__future__ import set_swap_module_params_on_conversion as swap_parameters

import tacit
from tacit.errors import Error

VALUES = torch.tensor([[0.5, 1.0], [2.0, 0.25]])
Base = torch._C.TensorBase


def with_data(target, source):
    target.data = source
    return target


def with_grad(target, grad):
    target.grad = grad
    return target.grad


def swapped(first, second):
    torch.utils.swap_tensors(first, second)
    return first


def loaded(x, **options):
    module = nn.Linear(2, 2, bias=False)
    module.load_state_dict({"weight": x}, **options)
    return module.weight


def applied(x, setting=None):
    module = nn.Linear(2, 2, bias=False)
    if setting is None:
        return module._apply(lambda _: x).weight
    setting(True)
    try:
        return module._apply(lambda _: x).weight
    finally:
        setting(False)


def to_parameters(x):
    module = nn.Linear(2, 2, bias=False)
    nn.utils.vector_to_parameters(x.view(-1), module.parameters())


# An error of Tacit with a remedy.
REFUSED = {
    "plain.data": lambda x: with_data(torch.zeros(2, 2), x),
    "plain.data of another shape": lambda x: with_data(torch.zeros(3), x),
    "plain.data of another dtype": lambda x: with_data(torch.zeros(2, 2).long(), x),
    "plain.data by a view": lambda x: with_data(torch.zeros(2, 2), x.t()),
    "parameter.data": lambda x: with_data(nn.Parameter(torch.zeros(2, 2)), x),
    "TensorBase.data": lambda x: Base.data.__set__(torch.zeros(2, 2), x),
    "aten.set_data": lambda x: torch.ops.aten.set_data(torch.zeros(2, 2), x),
    "plain.set_": lambda x: torch.zeros(2, 2).set_(x),
    "secret.set_": lambda x: x.set_(torch.zeros(2, 2)),
    "secret.set_ to nothing": lambda x: x.set_(),
    "secret.set_ to a storage": lambda x: x.set_(torch.zeros(4).untyped_storage()),
    "plain.copy_": lambda x: torch.zeros(2, 2).copy_(x),
    "_foreach_copy_": lambda x: torch._foreach_copy_([torch.zeros(2, 2)], [x]),
    "resize_": lambda x: x.resize_(100),
    "resize_as_": lambda x: x.resize_as_(torch.zeros(9)),
    "untyped_storage": lambda x: x.untyped_storage(),
    "Tensor.storage": torch.Tensor.storage,
    "from_dlpack": torch.from_dlpack,
    "numpy.from_dlpack": np.from_dlpack,
    "numpy.asarray": np.asarray,
    "pickle": pickle.dumps,
    "torch.save": lambda x: torch.save(x, io.BytesIO()),
    "torch.save of old": lambda x: torch.save(
        x, io.BytesIO(), _use_new_zipfile_serialization=False
    ),
    "share_memory_": lambda x: x.share_memory_(),
    "Tensor.share_memory_": torch.Tensor.share_memory_,
    "pin_memory": lambda x: x.pin_memory(),
    "module._apply": applied,
    "module._apply that swaps": lambda x: applied(x, swap_parameters),
    "module._apply that overwrites": lambda x: applied(x, overwrite_parameters),
    "vector_to_parameters": to_parameters,
    "secret lengths": lambda x: nn.utils.rnn.pack_padded_sequence(
        torch.ones(1, 2, 2), x.view(-1)[:1].long(), batch_first=True
    ),
    "to_mkldnn": lambda x: x.to_mkldnn(),
    "nested": lambda x: torch.nested.nested_tensor([x, x]),
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
}
# An error of torch, numpy or Python: nothing asks the class.
FOREIGN = {
    "TensorBase.data of a secret": lambda x: Base.data.__set__(x, torch.ones(2, 2)),
    "secret.data from numpy": lambda x: with_data(x, np.ones(3)),
    "TensorBase.data_ptr": Base.data_ptr,
    "TensorBase.apply_": lambda x: Base.apply_(x, float),
    "bytes of a storage": lambda x: bytes(Base.untyped_storage(x)),
    "pickle of a storage": lambda x: pickle.dumps(Base.untyped_storage(x)),
    "load_state_dict": loaded,
    "module.weight": lambda x: setattr(nn.Linear(2, 2), "weight", x),
    "_make_subclass of a parameter": lambda x: torch.Tensor._make_subclass(nn.Parameter, x),
    "_make_subclass of a plain tensor": lambda x: torch.Tensor._make_subclass(
        tacit.SecretTensor, torch.ones(2)
    ).sum(),
    "as_strided beyond the end": lambda x: torch.as_strided(x, (200,), (1,)),
    "memoryview": memoryview,
    "ctypes": ctypes.c_float.from_buffer,
    "plain.map_": lambda x: torch.zeros(2, 2).map_(x, max),
    "sparse indices": lambda x: torch.sparse_coo_tensor(x.long(), torch.zeros(2)),
}
# A secret with these values.
WORKS = {
    "secret.data from plain": (lambda x: with_data(x, 2 * VALUES), 2 * VALUES),
    "secret.data of another shape": (lambda x: with_data(x, torch.ones(3)), torch.ones(3)),
    "secret.data from secret": (lambda x: with_data(x.clone(), x.t()), VALUES.t()),
    "Parameter.data": (lambda x: with_data(nn.Parameter(x), 2 * x), 2 * VALUES),
    "swap_tensors": (lambda x: swapped(torch.zeros(2, 2), x), VALUES),
    "Tensor": (torch.Tensor, VALUES),
    "torch.tensor": (torch.tensor, VALUES),
    "as_tensor": (torch.as_tensor, VALUES),
    "_make_subclass": (lambda x: torch.Tensor._make_subclass(torch.Tensor, x), VALUES),
    "as_subclass": (lambda x: x.as_subclass(torch.Tensor), VALUES),
    "deepcopy": (copy.deepcopy, VALUES),
    "as_strided": (lambda x: torch.as_strided(x, (2,), (3,)), torch.tensor([0.5, 0.25])),
    "load_state_dict by assigning": (lambda x: loaded(x, assign=True), VALUES),
    "parameter.grad": (lambda x: with_grad(nn.Parameter(torch.ones(2, 2)), x), VALUES),
    "secret.copy_": (lambda x: x.copy_(2 * VALUES), 2 * VALUES),
    "out=": (lambda x: torch.mm(VALUES, torch.eye(2), out=x), VALUES),
    "new_tensor": (lambda x: x * 0 + x.new_tensor([1.0, 2.0]), torch.tensor([[1.0, 2.0]] * 2)),
}


def tried(session, door):
    """Tries one door: what it returned, or its error."""
    x = session.share(VALUES.clone(), owner=0)
    try:
        return door(x)
    except Exception as error:
        return error


def main(session):
    """Tries all doors in all modes of autograd."""
    for grad, inference in ((True, False), (False, False), (False, True)):
        with torch.set_grad_enabled(grad), torch.inference_mode(inference):
            for name, door in REFUSED.items():
                print(name, flush=True)
                error = tried(session, door)
                assert isinstance(error, Error), (name, error)
                assert error.remedy, name
            for name, door in FOREIGN.items():
                print(name, flush=True)
                error = tried(session, door)
                assert isinstance(error, Exception), (name, error)
                assert not isinstance(error, Error), (name, "belongs to REFUSED")
            for name, (door, expected) in WORKS.items():
                print(name, flush=True)
                result = tried(session, door)
                assert isinstance(result, tacit.SecretTensor), (name, result)
                assert session.reveal(result).equal(expected), name


if __name__ == "__main__":
    tacit.run(main, parties=1, protocol="cleartext")
    print("all doors are closed")
