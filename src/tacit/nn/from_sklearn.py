"""Fitted models of scikit-learn as modules whose parameters can be secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from .sklearn_trees import boosted, class_forest, histogram_boosted, mean_forest, unsupported
from .tabular import LinearModel, ScaledColumns
from .trees import TreeEnsemble


def from_sklearn(model: Any, *, leaves: int | None = None) -> nn.Module:
    """Returns a fitted model of scikit-learn as a module, in double precision.

    Regressors give what `predict` gives, classifiers what `predict_proba` gives, or
    `decision_function` if they have no probabilities; scalers what `transform` gives; a pipeline is
    an `nn.Sequential`. `print(module)` shows what the other parties build to share it: sizes only.
    Everything else is secret once it is shared. Trees are padded to `leaves` each, by default to
    the most that one of them has.

    Raises UnsupportedModule for other models, ConfigError for one that is not fitted.
    """
    convert = _converter(model)
    try:
        return _padded(convert(model), leaves)
    except AttributeError as error:
        raise ConfigError(
            f"{type(model).__name__} has no {error.name}",
            cause="it is not fitted, or of a version of scikit-learn that keeps it elsewhere",
            remedy="call fit before",
            subject="from_sklearn",
        ) from error


def _padded(module: nn.Module, leaves: int | None) -> nn.Module:
    if isinstance(module, nn.Sequential):
        return nn.Sequential(*(_padded(step, leaves) for step in module))
    return module.padded(leaves) if isinstance(module, TreeEnsemble) else module


def _converter(model: Any) -> Callable[[Any], nn.Module]:
    """Returns what converts models of this class, or of a class that it inherits from."""
    for kind in type(model).__mro__:
        if kind.__module__.startswith("sklearn.") and kind.__name__ in CONVERTERS:
            return CONVERTERS[kind.__name__]
    raise unsupported(type(model).__name__, f"there are {', '.join(CONVERTERS)}")


def _numbers(array: Any) -> Tensor:
    return torch.as_tensor(array, dtype=torch.float64)


# Scalers and pipelines ----------------------------------------------------------------------------


def _pipeline(model: Any) -> nn.Module:
    steps = [step for _, step in model.steps if step not in (None, "passthrough")]
    return nn.Sequential(*(from_sklearn(step) for step in steps))


def _standard_scaler(model: Any) -> nn.Module:
    return _scaler(model, model.mean_ if model.with_mean else None, model.scale_)


def _robust_scaler(model: Any) -> nn.Module:
    return _scaler(model, model.center_, model.scale_)


def _max_abs_scaler(model: Any) -> nn.Module:
    return _scaler(model, None, model.scale_)


def _scaler(model: Any, centre: Any, scale: Any) -> nn.Module:
    """Returns the module for (x - centre) / scale; either may be None."""
    nothing = torch.zeros(model.n_features_in_, dtype=torch.float64)
    shift = nothing if centre is None else _numbers(centre)
    return ScaledColumns.of(shift, 1 / (nothing + 1 if scale is None else _numbers(scale)))


def _min_max_scaler(model: Any) -> nn.Module:
    if model.clip:
        raise unsupported("MinMaxScaler(clip=True)", "without clip")
    factor = _numbers(model.scale_)
    return ScaledColumns.of(-_numbers(model.min_) / factor, factor)


# Linear models ------------------------------------------------------------------------------------


def _linear(model: Any) -> nn.Module:
    return _linear_model(model, "identity")


def _logistic(model: Any) -> nn.Module:
    return _linear_model(model, "sigmoid" if len(model.classes_) == 2 else "softmax")


def _stochastic(model: Any) -> nn.Module:
    """SGDClassifier: probabilities of two classes if its loss has them, else scores."""
    likely = model.loss == "log_loss" and len(model.classes_) == 2
    return _linear_model(model, "sigmoid" if likely else "identity")


def _linear_model(model: Any, link: str) -> nn.Module:
    weight = _numbers(model.coef_)
    weight = weight.view(-1, weight.shape[-1])
    bias = _numbers(model.intercept_).expand(weight.shape[0])
    return LinearModel.of(weight, bias.clone(), link)


CONVERTERS: dict[str, Callable[[Any], nn.Module]] = {
    "Pipeline": _pipeline,
    "StandardScaler": _standard_scaler,
    "MinMaxScaler": _min_max_scaler,
    "MaxAbsScaler": _max_abs_scaler,
    "RobustScaler": _robust_scaler,
    **dict.fromkeys(
        ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV"),
        _linear,
    ),
    **dict.fromkeys(("SGDRegressor", "LinearSVR", "LinearSVC", "RidgeClassifier"), _linear),
    **dict.fromkeys(("LogisticRegression", "LogisticRegressionCV"), _logistic),
    "SGDClassifier": _stochastic,
    **dict.fromkeys(
        ("DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"),
        class_forest,
    ),
    **dict.fromkeys(
        ("DecisionTreeRegressor", "RandomForestRegressor", "ExtraTreesRegressor"), mean_forest
    ),
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), boosted),
    **dict.fromkeys(
        ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), histogram_boosted
    ),
}
