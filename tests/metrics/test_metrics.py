"""Metrics against scikit-learn: plain tensors tightly, secret ones within fixed point."""

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics
from tests.stats.references import BOTH, compare
from tests.tensor.comparison import on_secrets

from tacit import metrics, stats
from tacit.errors import ConfigError


def drawn(rows: int = 60) -> np.random.Generator:
    return np.random.default_rng(rows)


@BOTH
def test_accuracy_and_confusion_matrix(settings):
    r = drawn()
    labels, predicted = r.integers(0, 4, 60), r.integers(0, 4, 60)
    wanted = (
        sklearn_metrics.accuracy_score(labels, predicted),
        sklearn_metrics.confusion_matrix(labels, predicted),
    )

    def program(a, b):
        return metrics.accuracy(a, b), metrics.confusion_matrix(a, b, 4)

    errors = (2**-14, 0)
    compare(program, wanted, labels, predicted, error=errors, settings=settings, plain_error=1e-7)


def test_classes_that_are_none_count_nowhere():
    labels, predicted = torch.tensor([0, 1, 7]), torch.tensor([0, 9, 1])
    wanted = torch.tensor([[1, 0], [0, 0]])
    assert torch.equal(metrics.confusion_matrix(labels, predicted, 2), wanted)
    found = on_secrets(lambda a, b: metrics.confusion_matrix(a, b, 2), labels, predicted)
    assert torch.equal(found, wanted)


@BOTH
@pytest.mark.parametrize("levels", [3, None], ids=["ties", "distinct"])
def test_area_under_the_curve(settings, levels):
    r = drawn(50)
    labels = r.integers(0, 2, 50)
    scores = r.normal(size=50) + labels
    scores = scores if levels is None else np.round(scores * levels) / levels
    wanted = sklearn_metrics.roc_auc_score(labels, scores)
    compare(metrics.roc_auc, wanted, labels, scores, settings=settings)


@pytest.mark.parametrize(
    ("labels", "scores", "wanted"),
    [
        ([0, 1], [0.0, 1.0], 1.0),
        ([0, 1], [1.0, 0.0], 0.0),
        ([0, 1, 1], [0.5, 0.5, 0.5], 0.5),
        ([1, 0, 1, 0], [3.0, 3.0, 1.0, 1.0], 0.5),
    ],
)
def test_areas_that_are_known(labels, scores, wanted):
    compare(metrics.roc_auc, wanted, labels, np.array(scores))


def test_area_of_many_rows_keeps_its_precision():
    r = drawn(4000)
    labels = (r.random(4000) < 0.02).astype(np.int64)
    scores = np.round(r.normal(size=4000) + labels, 2)
    wanted = sklearn_metrics.roc_auc_score(labels, scores)
    compare(metrics.roc_auc, wanted, labels, scores)


def test_areas_of_public_scores_and_of_integers():
    labels, scores = torch.tensor([0, 1, 1, 0]), torch.tensor([1, 2, 2, 2])
    wanted = metrics.roc_auc(labels, scores)
    assert wanted.dtype == torch.float32
    found = on_secrets(lambda a: metrics.roc_auc(a, scores), labels)
    torch.testing.assert_close(found, wanted, atol=2**-11, rtol=0)


@BOTH
@pytest.mark.parametrize("num_classes", [2, 3])
def test_log_loss(settings, num_classes):
    r = drawn(40)
    labels = np.concatenate([np.arange(num_classes), r.integers(0, num_classes, 40)])
    probabilities = r.dirichlet(np.ones(num_classes), labels.size).clip(0.01)
    probabilities /= probabilities.sum(1, keepdims=True)
    wanted = sklearn_metrics.log_loss(labels, probabilities)
    given = probabilities[:, 1].copy() if num_classes == 2 else probabilities
    compare(metrics.log_loss, wanted, labels, given, settings=settings)


def test_log_loss_of_what_cannot_be():
    """Plain as scikit-learn; a secret probability below the unit counts as the unit."""
    labels, probabilities = torch.tensor([0, 1, 1]), torch.tensor([0.0, 1.0, 0.0]).double()
    wanted = sklearn_metrics.log_loss(labels.numpy(), probabilities.numpy())
    assert metrics.log_loss(labels, probabilities) == pytest.approx(wanted)
    found = on_secrets(metrics.log_loss, labels, probabilities)
    assert float(found) == pytest.approx(16 * np.log(2) / 3, abs=0.01)


@BOTH
def test_coefficient_of_determination(settings):
    r = drawn()
    target = r.normal(size=60) * 20 + 100
    predicted = target + r.normal(size=60) * 8
    wanted = sklearn_metrics.r2_score(target, predicted)
    compare(metrics.r2, wanted, target, predicted, settings=settings)


LABELS, SCORES = torch.tensor([0, 1, 1]), torch.tensor([-0.5, 0.5, 2.0])
MISTAKES = {
    "labels and scores swapped": (lambda y, s: metrics.roc_auc(s, y), "labels come first"),
    "scores as classes": (metrics.accuracy, "scores > 0 makes classes of scores"),
    "labels as floats": (lambda y, s: metrics.log_loss(y.float(), s), r"labels\.long\(\)"),
    "scores of a model": (lambda y, s: metrics.roc_auc(y, s[:, None]), r"scores\.squeeze\(1\)"),
    "a column of classes": (lambda y, s: metrics.accuracy(y, y[:, None]), r"\(3,\) is needed"),
    "too many classes": (lambda y, s: metrics.confusion_matrix(y, y[:2], 2), r"shape \(2,\)"),
    "a column of numbers": (
        lambda y, s: metrics.r2(s, s[:, None]),
        r"has shape \(3, 1\)",
    ),
    "probabilities of others": (lambda y, s: metrics.log_loss(y[:2], torch.ones(3, 2)), "needed"),
    "a column of targets": (
        lambda y, s: stats.linear_regression(s[:, None], s[:, None]),
        "y",
    ),
    "a column of labels": (lambda y, s: stats.logistic_regression(torch.ones(3, 1), y[:2]), "y"),
    "a column of groups": (lambda y, s: stats.group_sums(s, y[:2], 2, min_size=1), "groups"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_would_silently_be_wrong_is_refused(name):
    mistake, words = MISTAKES[name]
    with pytest.raises(ConfigError, match=words):
        mistake(LABELS, SCORES)
