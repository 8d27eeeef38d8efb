"""Trees, forests and boosted trees of scikit-learn as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModule
from .trees import Leaf, Split, Tree, ensemble


def unsupported(what: str, limit: str) -> UnsupportedModule:
    """The error for a model without a private form."""
    return UnsupportedModule(f"{what} has no private form", limit=limit, subject="from_sklearn")


def _numbers(array: Any) -> Tensor:
    return torch.as_tensor(array, dtype=torch.float64)


def _tree_of(model: Any, values: Tensor) -> Tree:
    """Returns a fitted tree; `values` has a row for each of its nodes."""
    tree = model.tree_
    left, right = tree.children_left.tolist(), tree.children_right.tolist()
    feature, threshold, ends = tree.feature.tolist(), tree.threshold.tolist(), values.tolist()
    made: dict[int, Tree] = {}
    for node in reversed(range(len(left))):  # children come after their parent
        if left[node] < 0:
            made[node] = Leaf(ends[node])
        else:
            made[node] = Split(feature[node], threshold[node], made[left[node]], made[right[node]])
    return made[0]


def _class_shares(model: Any) -> Tensor:
    """Returns the shares of the classes at each node."""
    if model.n_outputs_ != 1:
        raise unsupported(f"{type(model).__name__} of {model.n_outputs_} targets", "one target")
    counts = _numbers(model.tree_.value)[:, 0]
    return counts / counts.sum(1, keepdim=True)


def _means(model: Any) -> Tensor:
    return _numbers(model.tree_.value)[:, :, 0]


def class_forest(model: Any) -> nn.Module:
    """A tree or a forest of scikit-learn that gives the shares of classes."""
    return _forest(model, _class_shares)


def mean_forest(model: Any) -> nn.Module:
    """A tree or a forest of scikit-learn that gives numbers."""
    return _forest(model, _means)


def _forest(model: Any, values_of: Callable[[Any], Tensor]) -> nn.Module:
    members = getattr(model, "estimators_", [model])
    values = [values_of(member) for member in members]
    trees = [_tree_of(*pair) for pair in zip(members, values, strict=True)]
    base = [0.0] * values[0].shape[1]
    return ensemble(trees, model.n_features_in_, base, "identity", average=len(trees) > 1)


def _class_link(classes: int) -> str:
    return "sigmoid" if classes == 1 else "softmax"


def boosted(model: Any) -> nn.Module:
    """GradientBoosting: a constant and the sum of trees, times the learning rate."""
    if model.init not in (None, "zero"):
        raise unsupported(f"{type(model).__name__}(init=...)", "init=None and init='zero'")
    columns = model.estimators_.shape[1]
    factor = 2.0 if model.loss == "exponential" else 1.0
    rate = model.learning_rate * factor
    trees = [
        _tree_of(member, _in_column(_means(member) * rate, place, columns))
        for row in model.estimators_
        for place, member in enumerate(row)
    ]
    classifies = hasattr(model, "classes_")
    link = _class_link(columns) if classifies else "identity"
    made = ensemble(trees, model.n_features_in_, [0.0] * columns, link)
    origin = torch.zeros(1, model.n_features_in_, dtype=torch.float64)
    score = (model.decision_function if classifies else model.predict)(origin.numpy())
    made.base.copy_(_numbers(score).view(-1) * factor - made.scores(origin)[0])
    return made


def _in_column(values: Tensor, place: int, columns: int) -> Tensor:
    """Returns one column of values among zeros."""
    return nn.functional.pad(values, (place, columns - 1 - place))


def histogram_boosted(model: Any) -> nn.Module:
    """HistGradientBoosting; its trees and its start are private attributes of scikit-learn."""
    if getattr(model, "is_categorical_", None) is not None:
        raise unsupported(f"{type(model).__name__} with categories", "numbers")
    classifies = hasattr(model, "classes_")
    if not classifies and model.loss not in ("squared_error", "absolute_error", "quantile"):
        raise unsupported(f"{type(model).__name__}(loss={model.loss!r})", "losses without a link")
    base = _numbers(model._baseline_prediction).view(-1).tolist()
    trees = [
        _histogram_tree(predictor.nodes, place, len(base))
        for row in model._predictors
        for place, predictor in enumerate(row)
    ]
    link = _class_link(len(base)) if classifies else "identity"
    return ensemble(trees, model.n_features_in_, base, link)


def _histogram_tree(nodes: Any, place: int, columns: int) -> Tree:
    made: dict[int, Tree] = {}
    for number in reversed(range(len(nodes))):
        node = nodes[number]
        if node["is_leaf"]:
            value = torch.tensor([[float(node["value"])]], dtype=torch.float64)
            made[number] = Leaf(_in_column(value, place, columns)[0].tolist())
            continue
        left, right = made[int(node["left"])], made[int(node["right"])]
        threshold = float(node["num_threshold"])
        if threshold == float("inf"):  # only what is missing goes right
            made[number] = left
        else:
            made[number] = Split(int(node["feature_idx"]), threshold, left, right)
    return made[0]
