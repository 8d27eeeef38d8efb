"""Real numbers, integers and truth values on shares."""

from .numbers import Numbers
from .value import Operand, Value

__all__ = ["Numbers", "Operand", "Value"]
