"""Metrics of predictions as functions of tensors, the same for plain and for secret ones.

Labels and predictions may be secret or public, and the result is a tensor: reveal it, and nothing
else of them is shown.
"""

from .classes import accuracy, confusion_matrix, log_loss
from .ranking import roc_auc
from .residuals import r2

__all__ = ["accuracy", "confusion_matrix", "log_loss", "r2", "roc_auc"]
