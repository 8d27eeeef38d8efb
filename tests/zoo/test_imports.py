"""A private run imports no compiler of torch: it takes seconds, while the other parties wait.

torch's optimizers import it when they are made, in a plain run, too; so training is not run here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
import sys

import torch
from torch.nn import functional as F

import tacit
from tests.zoo.test_debug import BERT, MODELS
from tests.zoo.test_private import draw, settled
from tacit import zoo


class Refuse:
    """Finds no compiler."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch._dynamo":
            raise ImportError("a private run imports torch._dynamo")


assert "torch._dynamo" not in sys.modules, "importing tacit imports torch._dynamo"
sys.meta_path.insert(0, Refuse())
OPS = [
    F.relu6, F.hardtanh, F.hardswish, F.hardsigmoid, F.glu, F.elu, F.selu, F.celu, F.gelu, F.silu,
    F.mish, F.softplus, F.logsigmoid, F.leaky_relu, F.hardshrink, F.softshrink, F.tanhshrink,
    torch.deg2rad, torch.rad2deg, torch.sinc, torch.std, torch.var, torch.nansum, torch.tan,
    torch.nan_to_num, torch.square, torch.cov, torch.corrcoef, torch.median,
    lambda x: F.threshold(x, 0.5, 2.0), lambda x: torch.renorm(x, 2, 0, 1.0),
    lambda x: torch.ldexp(x, torch.tensor(2)), lambda x: F.pad(x, (1, 1), value=-1e30),
    lambda x: torch.isin(x, 1.0), lambda x: F.interpolate(x[None, None], scale_factor=2),
    lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])), lambda x: F.huber_loss(x, x * 2),
    lambda x: torch.linalg.vector_norm(x, 1.5), lambda x: 7 / x,
]


def ops(session):
    x = torch.rand(3, 4) + 0.5
    for op in OPS:
        secret = session.share(x, owner=0).requires_grad_()
        made = op(secret)
        if made.is_floating_point() and made.requires_grad:
            made.sum().backward()


def models(session):
    for name in NAMES:
        make, shape = MODELS[name]
        model = session.share(settled(make()), owner=0)
        with torch.no_grad():
            model(session.share(draw(*shape), owner=0))
    words = session.share(settled(zoo.bert(**BERT)), owner=0)
    with torch.no_grad():
        words(session.share(torch.tensor([[3, 1, 4, 1]]), owner=0))


FIRST = ["lenet5", "resnet", "vit", "mlp"]
PROGRAMS, NAMES = {
    "first": ([ops, models], FIRST),
    "others": ([models], [name for name in MODELS if name not in FIRST]),
}[sys.argv[1]]
for program in PROGRAMS:
    tacit.run(program, protocol="cleartext", parties=1, deadline=300.0)
assert "torch._dynamo" not in sys.modules
'''


def run(part: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, part]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-3000:]


def test_operators_and_small_models_import_no_compiler():
    run("first")


@pytest.mark.full("the other models; the quick test runs four")
def test_models_import_no_compiler():
    run("others")
