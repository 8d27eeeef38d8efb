"""Makes tests/nn/samples/: models of XGBoost and LightGBM as they write them, with their answers.

`python -m tests.nn.booster_samples` needs both packages, which nothing else here does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

FOLDER = Path(__file__).parent / "samples"
ROWS = 24  # with answers


def datasets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Few columns; those of `binary` are whole numbers, which thresholds hit exactly."""
    cancer, diabetes, iris = (f() for f in (load_breast_cancer, load_diabetes, load_iris))
    return {
        "binary": (np.round(cancer.data[:, :6] / 5), cancer.target),
        "classes": (iris.data, iris.target),
        "numbers": (np.round(diabetes.data[:, :5] * 100, 2), diabetes.target / 100),
    }


def fitted(kind: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The models' own forms, and their answers."""
    import lightgbm
    import xgboost

    names = ("Regressor", "Regressor") if kind == "numbers" else ("Classifier", "Classifier")
    made = {
        "xgboost": getattr(xgboost, "XGB" + names[0])(n_estimators=4, max_depth=3),
        "lightgbm": getattr(lightgbm, "LGBM" + names[1])(n_estimators=4, num_leaves=6, verbose=-1),
    }
    answers = {}
    for package, model in made.items():
        model.fit(x, y)
        give = model.predict if kind == "numbers" else model.predict_proba
        answers[package] = give(x[:: len(x) // ROWS][:ROWS]).tolist()
    raw = made["xgboost"].get_booster().save_raw("json")
    forms = {"xgboost": json.loads(raw), "lightgbm": made["lightgbm"].booster_.dump_model()}
    return {name: {"model": forms[name], "answers": answers[name]} for name in forms}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for kind, (x, y) in datasets().items():
        rows = x[:: len(x) // ROWS][:ROWS].tolist()
        for package, made in fitted(kind, x, y).items():
            content = {"x": rows, **made}
            path = FOLDER / f"{package}_{kind}.json"
            path.write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
