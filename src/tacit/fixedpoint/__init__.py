"""Real numbers, integers and truth values on shares.

`Numbers` is the façade; the other names are the types of its arguments and results, and the windows
of poolings. Other packages use besides only these modules:
- `format`: the fixed-point format; `encoding`: which public numbers it takes, and which are masks;
- `lazy`, `extended`: kinds of values for which the tensor layer has rules of their own;
- `flatten`: values as tensors, for replayed functions and checkpoints;
- `symbolic`: public numbers that differ in each replay of a function;
- `debug`: the numbers behind cleartext values, and their range.
tests/fixedpoint/test_facade.py checks this. Inside, imports point one way:

    format < encoding < value < logic < arithmetic < compare < reduce < functions
                  < norm, pool, indexing, attention, recurrent, cells < wavefront, ...
                  < numbers < plain
"""

from .numbers import Numbers
from .plain import PlainNumbers
from .pool import Grid, adaptive_windows, sliding_windows
from .recurrent import LstmTrace, LstmWeights
from .sampling import LARGEST_DEVIATION
from .shared_norm import Statistics
from .transfer import Input
from .value import Operand, Value
from .wavefront import CellWeights, Kind

__all__ = [
    "LARGEST_DEVIATION",
    "CellWeights",
    "Grid",
    "Input",
    "Kind",
    "LstmTrace",
    "LstmWeights",
    "Numbers",
    "Operand",
    "PlainNumbers",
    "Statistics",
    "Value",
    "adaptive_windows",
    "sliding_windows",
]
