"""Modules on secrets: sharing, revealing, validating, calibrating, folding, saving them.

Models of scikit-learn, XGBoost, LightGBM and ONNX files become modules by `from_sklearn` and its
siblings.
"""

from .calibrate import Calibration, calibrate, tighten
from .checkpoint import load, save
from .checkpoint_file import Checkpoint
from .folding import BatchNormPlace, batch_norm_places, fold_batch_norm
from .from_boosters import from_lightgbm, from_xgboost
from .from_sklearn import from_sklearn
from .onnx import from_onnx, onnx_structure
from .sharing import reveal, share
from .tabular import LinearModel, ScaledColumns
from .trees import TreeEnsemble
from .validate import Problem, Survey, survey, validate

__all__ = [
    "BatchNormPlace",
    "Calibration",
    "Checkpoint",
    "LinearModel",
    "Problem",
    "ScaledColumns",
    "Survey",
    "TreeEnsemble",
    "batch_norm_places",
    "calibrate",
    "fold_batch_norm",
    "from_lightgbm",
    "from_onnx",
    "from_sklearn",
    "from_xgboost",
    "load",
    "onnx_structure",
    "reveal",
    "save",
    "share",
    "survey",
    "tighten",
    "validate",
]
