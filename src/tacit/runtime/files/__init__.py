"""Data files of one party into secrets of all; one small reader for each format."""

from .loading import load
from .pictures import Pictures
from .settings import LIMIT, Dtypes, Shapes, expectation, reading_options

__all__ = ["LIMIT", "Dtypes", "Pictures", "Shapes", "expectation", "load", "reading_options"]
