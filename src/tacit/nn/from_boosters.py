"""Boosted trees of XGBoost and LightGBM as modules, from the forms in which these write models.

Neither package is imported: a model is what `json.load` reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import UnsupportedModule
from .trees import Leaf, Split, Tree, TreeEnsemble, below, ensemble

# What turns scores into answers, by objective.
XGBOOST_LINKS = {
    "reg:squarederror": "identity",
    "reg:absoluteerror": "identity",
    "binary:logistic": "sigmoid",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
}
LIGHTGBM_LINKS = {
    "regression": "identity",
    "regression_l1": "identity",
    "quantile": "identity",
    "binary": "sigmoid",
    "multiclass": "softmax",
}


def from_xgboost(model: Any, *, leaves: int | None = None) -> TreeEnsemble:
    """Returns boosted trees of XGBoost as a module, in double precision.

    `model` is what `save_model("model.json")` writes, read by `json.load`; or a Booster, or a model
    of XGBoost's scikit-learn interface. All its trees count, as in `Booster.predict`. The module
    gives what `predict` gives, for classes what `predict_proba` gives. XGBoost compares float32: on
    plain rows give these, or one that equals a threshold may go the other way. `leaves` as in
    `from_sklearn`.

    Raises UnsupportedModule for other objectives and boosters than of numbers by trees.
    """
    learner = _xgboost_json(model)["learner"]
    objective, booster = learner["objective"]["name"], learner["gradient_booster"]
    link = _link(XGBOOST_LINKS, objective, "from_xgboost")
    if booster["name"] != "gbtree":
        raise _unsupported(f"booster {booster['name']!r}", "booster 'gbtree'", "from_xgboost")
    parameters, content = learner["learner_model_param"], booster["model"]
    outputs = max(int(parameters["num_class"]), 1)
    places = content["tree_info"]
    trees = [
        _xgboost_tree(tree, place, outputs)
        for tree, place in zip(content["trees"], places, strict=True)
    ]
    base = [float(part) for part in parameters["base_score"].strip("[]").split(",")]
    if link == "sigmoid":
        base = [math.log(p / (1 - p)) for p in base]
    base = base * outputs if len(base) == 1 else base
    return ensemble(trees, int(parameters["num_feature"]), base, link).padded(leaves)


def _xgboost_json(model: Any) -> Mapping[str, Any]:
    """Returns the form of a model in JSON, if it is not given."""
    if isinstance(model, Mapping):
        return model
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    return json.loads(booster.save_raw("json").decode())


def _xgboost_tree(tree: Mapping[str, Any], place: int, outputs: int) -> Tree:
    """Rows with x < split condition go left, as float32; at a leaf the condition is its value."""
    left, right = tree["left_children"], tree["right_children"]
    feature = tree["split_indices"]
    condition = torch.tensor(tree["split_conditions"], dtype=torch.float32).tolist()
    if any(tree["split_type"]):
        raise _unsupported("splits by category", "numbers", "from_xgboost")
    made: dict[int, Tree] = {}
    for node in reversed(range(len(left))):  # children come after their parent
        if left[node] < 0:
            made[node] = _leaf(condition[node], place, outputs)
        else:
            branches = made[left[node]], made[right[node]]
            made[node] = below(feature[node], condition[node], *branches)
    return made[0]


def from_lightgbm(model: Any, *, leaves: int | None = None) -> TreeEnsemble:
    """Returns boosted trees of LightGBM as a module, in double precision.

    `model` is what `Booster.dump_model()` gives, also through JSON; or a Booster, or a model of
    LightGBM's scikit-learn interface. The module gives what `predict` gives, for classes what
    `predict_proba` gives. `leaves` as in `from_sklearn`.

    Raises UnsupportedModule for other objectives, categories, zeros that count as missing, and
    linear trees.
    """
    content = _lightgbm_json(model)
    objective, *options = content["objective"].split(" ")
    link = _link(LIGHTGBM_LINKS, objective, "from_lightgbm")
    outputs = int(content["num_tree_per_iteration"])
    slope = _option(options, "sigmoid") if link == "sigmoid" else 1.0
    trees = [
        _lightgbm_tree(tree["tree_structure"], number % outputs, outputs, slope)
        for number, tree in enumerate(content["tree_info"])
    ]
    if content.get("average_output"):
        raise _unsupported("boosting 'rf'", "boosting 'gbdt' and 'dart'", "from_lightgbm")
    features = int(content["max_feature_idx"]) + 1
    return ensemble(trees, features, [0.0] * outputs, link).padded(leaves)


def _lightgbm_json(model: Any) -> Mapping[str, Any]:
    """Returns the form of a model as `dump_model` gives it, if it is not given."""
    if isinstance(model, Mapping):
        return model
    booster = model.booster_ if hasattr(model, "booster_") else model
    return booster.dump_model()


def _lightgbm_tree(node: Mapping[str, Any], place: int, outputs: int, slope: float) -> Tree:
    if "leaf_value" in node:
        if "leaf_coeff" in node:
            raise _unsupported("linear trees", "constant leaves", "from_lightgbm")
        return _leaf(node["leaf_value"] * slope, place, outputs)
    if node["decision_type"] != "<=":
        raise _unsupported("splits by category", "numbers", "from_lightgbm")
    if node["missing_type"] == "Zero":
        raise _unsupported("zeros that count as missing", "zero_as_missing=False", "from_lightgbm")
    left, right = (
        _lightgbm_tree(node[side], place, outputs, slope) for side in ("left_child", "right_child")
    )
    return Split(int(node["split_feature"]), float(node["threshold"]), left, right)


def _option(options: Sequence[str], name: str) -> float:
    """Returns the number after `name:`, or 1."""
    found = dict(one.partition(":")[::2] for one in options)
    return float(found.get(name, 1))


def _leaf(value: float, place: int, outputs: int) -> Leaf:
    return Leaf([value if output == place else 0.0 for output in range(outputs)])


def _link(links: Mapping[str, str], objective: str, subject: str) -> str:
    if objective not in links:
        raise _unsupported(f"objective {objective!r}", f"there are {', '.join(links)}", subject)
    return links[objective]


def _unsupported(what: str, limit: str, subject: str) -> UnsupportedModule:
    return UnsupportedModule(f"{what}: no private form", limit=limit, subject=subject)
