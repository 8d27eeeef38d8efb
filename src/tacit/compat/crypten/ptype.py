"""How a tensor is shared: as a sum of numbers, or as bits."""

from enum import Enum


class ptype(Enum):  # CrypTen's name
    """The kind of sharing."""

    arithmetic = 0
    binary = 1
