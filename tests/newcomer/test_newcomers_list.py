"""What new users stumbled over, each held by a test: here, or where its subject is tested.

 1. public values that differ          runtime/test_first_day.py, runtime/test_public_mismatch.py
 2. numbers beyond the range           here; runtime/test_first_day.py, nn/test_range.py
 3. range checks of the command line   cli/test_local.py
 4. joining two tables                 runtime/test_join.py
 5. csv files, frames and arrays       runtime/test_tables.py, runtime/test_files.py
 6. NaN                                here, with its place
 7. a party that prepares its data     runtime/test_run.py, transport/test_channels.py
 8. length of errors                   here; in notebooks errors/test_notebook.py
 9. functions that look at values      here; tensor/test_hidden.py, tensor/test_optimizers.py
10. the site                           docs/test_site.py
11. time left, many reveals            runtime/test_progress.py, cli/test_local.py
12. the demo                           runtime/test_demo.py
13. a program that differs             here; cli/test_run.py
14. a wrong shape in `share`           here
"""

from __future__ import annotations

import traceback
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.errors import ConfigError, ForkedUse, PartyFailed, UnsupportedError
from tacit.runtime.deploy.agreed_items import program_items
from tacit.runtime.deploy.job import load_job
from tacit.tensor.substitutes import SUBSTITUTES
from tacit.transport.consensus import difference

X = torch.arange(12.0).reshape(4, 3) / 4 - 1
MOST_LINES = 30  # of an error: one screen


def failure(main, **settings) -> PartyFailed:
    with pytest.raises(PartyFailed) as caught:
        tacit.run(main, **settings)
    return caught.value


def test_2_a_number_beyond_the_range_is_refused_by_its_owner():
    text = str(failure(lambda s: s.share(torch.tensor([1.0, 1e9]), owner=1)))
    assert "party 1" in text
    assert "the tensor is beyond the range at 1: 2^20 in magnitude; scale it" in text


def square(session):
    return session.share(torch.tensor([1e5]), owner=0) ** 2


def label_of_no_class(session):
    labels = session.share(torch.tensor([0, 7, 1, 0]), owner=1)
    return F.cross_entropy(session.share(X[:, :2], owner=0), labels)


@pytest.mark.parametrize(
    ("main", "words"), [(square, "beyond the range"), (label_of_no_class, "outside of its range")]
)
def test_2_checks_find_what_secrets_hide(main, words):
    assert words in str(failure(main, protocol="cleartext", debug=True))
    [problem] = tacit.check(main).problems
    assert words in problem.reason


def test_6_nan_is_named_with_its_place():
    x = X.clone()
    x[3, 1] = float("nan")
    assert "the tensor is NaN at row 3, column 1; replace it" in str(
        failure(lambda s: s.share(x, owner=2))
    )


class Rows(torch.utils.data.Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.x[row]


def product_of_wrong_shapes(session):
    return nn.Sequential(nn.Linear(4, 2))(session.share(X, owner=0))


def workers(session):
    rows = Rows(session.share(X, owner=0))
    return list(torch.utils.data.DataLoader(rows, num_workers=1, multiprocessing_context="fork"))


@pytest.mark.parametrize("main", [product_of_wrong_shapes, workers, label_of_no_class])
def test_8_an_error_fits_on_one_screen(main):
    error = failure(main, protocol="cleartext", debug=True)
    shown = "".join(traceback.format_exception(error))
    assert f"in {main.__name__}" in shown
    assert shown.count("\n") <= MOST_LINES


WRONG_SHAPES = {
    "matmul of (4, 3) and (5, 2): 3 != 5": lambda x, w: F.linear(x, w.T),
    "matmul of (1, 4, 3) and (1, 5, 2): 3 != 5": lambda x, w: torch.bmm(x[None], w[None]),
    "layer_norm of (4, 3) with normalized_shape=[5]": lambda x, w: F.layer_norm(x, (5,)),
    "attention of query, key and value of shapes (1, 1, 4, 3), (1, 1, 4, 3), (1, 1, 3, 3)": (
        lambda x, w: F.scaled_dot_product_attention(*(y[None, None] for y in (x, x, x[:3])))
    ),
    "embedding with a table of shape (5,)": lambda x, w: F.embedding(x[0].long(), w[:, 0]),
}


@pytest.mark.parametrize("words", WRONG_SHAPES)
def test_8_every_party_names_the_shapes_of_the_program(words):
    def main(session):
        secrets = session.share([X, torch.ones(5, 2)], owner=0)
        with pytest.raises(ConfigError) as caught:
            WRONG_SHAPES[words](*secrets)
        return words in str(caught.value)

    assert tacit.run(main) == [True] * 3


@pytest.mark.full("test_8_an_error_fits_on_one_screen, in threads")
def test_8_an_error_of_a_process_fits_on_one_screen():
    error = failure(product_of_wrong_shapes, transport="processes")
    assert "Your lines at party" in str(error)
    assert "in product_of_wrong_shapes" in str(error)
    assert "".join(traceback.format_exception(error)).count("\n") <= MOST_LINES


def test_9_workers_of_a_data_loader():
    error = failure(workers).__cause__
    assert isinstance(error, ForkedUse)
    assert "Traceback" not in str(error)


A = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
REFUSED = {
    "solve": lambda a: torch.linalg.solve(a, a),
    "inverse": torch.linalg.inv,
    "eigh": torch.linalg.eigh,
    "pca": torch.linalg.svd,
    "cholesky": torch.linalg.cholesky,
    "histogram": lambda a: torch.histc(a, bins=2, min=0, max=2),
}


REFUSED_OF_NUMPY = {
    "solve": lambda a: np.linalg.solve(a, a),
    "inverse": np.linalg.inv,
    "eigh": np.linalg.eigvalsh,
    "pca": np.linalg.svd,
    "cholesky": np.linalg.cholesky,
    "histogram": np.histogram,
}


def test_9_what_has_no_rule_names_what_computes_instead():
    def main(session):
        a = session.share(A, owner=0)
        for name, function in REFUSED.items():
            with pytest.raises(UnsupportedError, match=rf"tacit\.stats\.{name}\("):
                function(a)
        for name, function in REFUSED_OF_NUMPY.items():
            with pytest.raises(UnsupportedError, match=rf"tacit\.stats\.{name}\("):
                function(a)
        with pytest.raises(UnsupportedError, match=r"session\.reveal\("):
            np.linalg.eig(a)
        return session.reveal(tacit.stats.solve(a, torch.eye(2)))

    for found in tacit.run(main):
        assert torch.allclose(found, A.inverse(), atol=1e-3)
    for operation, text in SUBSTITUTES.items():
        assert hasattr(torch.ops.aten, operation)
        names = [part.split("(")[0] for part in text.split("tacit.stats.")[1:]]
        assert names
        assert all(name in tacit.stats.__all__ for name in names)


def test_9_counts_of_classes():
    def main(session):
        x = session.share(torch.tensor([0, 1, 1, 3]), owner=0)
        with pytest.raises(UnsupportedError, match="one_hot"):
            torch.bincount(x, minlength=5)
        return session.reveal(F.one_hot(x, 5).sum(0)).tolist()

    assert tacit.run(main) == [[1, 2, 0, 1, 0]] * 3


def test_9_func_grad():
    def main(session):
        x, w = session.share(X, owner=0), session.share(torch.ones(3), owner=1)
        return session.reveal(torch.func.grad(lambda w: (x @ w).square().sum())(w))

    wanted = torch.func.grad(lambda w: (X @ w).square().sum())(torch.ones(3))
    assert torch.allclose(tacit.run(main)[0], wanted, atol=1e-2)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_9_an_optimizer_of_one_kernel(kind):
    """transformers' Trainer chooses such a one."""

    def main(session):
        model = session.share(nn.Linear(3, 1), owner=0)
        model(session.share(X, owner=1)).sum().backward()
        optimizer = kind(model.parameters(), lr=0.1, fused=True)
        with pytest.raises(UnsupportedError, match=r'fused=False .*optim="adamw_torch"'):
            optimizer.step()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tacit.run(main)


class Line(nn.Module):
    """A model as transformers' Trainer has them: it returns its loss."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 1)
        nn.init.zeros_(self.line.weight)
        nn.init.zeros_(self.line.bias)

    def forward(self, x, labels):
        return {"loss": (self.line(x) - labels).square().mean()}


@pytest.mark.filterwarnings("ignore")
def test_9_the_trainer_of_transformers(tmp_path):
    """As docs/guides/training.md shows it."""
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    options = {"max_steps": 3, "per_device_train_batch_size": len(X), "learning_rate": 0.1}
    options |= {"adam_epsilon": 1e-3, "use_cpu": True, "disable_tqdm": True, "report_to": []}

    def trained(trainer, model, x, y):
        arguments = transformers.TrainingArguments(
            str(tmp_path), optim="adamw_torch", save_strategy="no", **options
        )
        rows = [{"x": row, "labels": label} for row, label in zip(x, y, strict=True)]
        trainer(model, arguments, train_dataset=rows).train()
        return model.line.weight.detach()

    def main(session):
        class SecretTrainer(transformers.Trainer):
            def training_step(self, *args, **kwargs):
                return session.reveal(super().training_step(*args, **kwargs))

            def _get_grad_norm(self, *args, **kwargs):
                return None

        secrets = session.share([X, X.sum(1, keepdim=True)], owner=0)
        return session.reveal(trained(SecretTrainer, session.share(Line(), owner=0), *secrets))

    wanted = trained(transformers.Trainer, Line(), X, X.sum(1, keepdim=True))
    assert wanted.abs().min() > 0.1
    [found] = tacit.run(main, protocol="cleartext", parties=1)
    assert torch.allclose(found, wanted, atol=1e-2)


def test_9_a_secret_attention_mask():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=20, num_hidden_layers=1, **sizes)
    model = transformers.BertModel(config).eval()
    ids, mask = torch.arange(8).reshape(2, 4), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])

    def main(session):
        secret = session.share(mask, owner=0)
        with pytest.raises(tacit.errors.RevealForbidden, match=r"expand\(batch, 1, length, length"):
            model(ids, attention_mask=secret)
        pairs = secret[:, None, None, :].expand(2, 1, 4, 4) == 1
        return session.reveal(model(ids, attention_mask=pairs).last_hidden_state[:, 0].detach())

    wanted = model(ids, attention_mask=mask).last_hidden_state[:, 0]
    assert torch.allclose(tacit.run(main)[0], wanted, atol=1e-2)


def test_13_the_first_line_of_a_program_that_differs_is_named(tmp_path):
    tables = []
    for place, noise in (("here", "0.5"), ("there", "0.25")):
        folder = tmp_path / place
        folder.mkdir()
        (folder / "job.py").write_text("import beside\n\n\ndef main(session):\n    pass\n")
        (folder / "beside.py").write_text(f"SIZE = 3\nNOISE = {noise}\n# the same\n")
        tables.append(program_items(load_job(folder / "job.py")))
    error = difference(tables, topic="job", remedy="compare the files")
    assert "the parties differ in file beside.py of the program, line 2: " in str(error)


def test_14_a_wrong_shape_is_told_with_both():
    text = str(failure(lambda s: s.share(X if s.rank else X.T, owner=0)))
    assert "public operands of share differ" in text
    assert "shape (3, 4)" in text
    assert "shape (4, 3)" in text
