"""Real numbers, integers and truth values on shares.

`Numbers` is the façade; the other names are the types of its arguments and results, and the windows
of poolings. Other packages also use these modules: `flatten` (values as tensors, for replay and
checkpoints), `debug` (cleartext values and their range), `lazy` and `extended` (kinds of values for
which the tensor layer has rules of their own).
"""

from .numbers import Numbers
from .pool import Grid, adaptive_windows, sliding_windows
from .recurrent import LstmTrace, LstmWeights
from .transfer import Input
from .value import Operand, Value

__all__ = [
    "Grid",
    "Input",
    "LstmTrace",
    "LstmWeights",
    "Numbers",
    "Operand",
    "Value",
    "adaptive_windows",
    "sliding_windows",
]
