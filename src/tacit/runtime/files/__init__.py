"""`session.load`: data files of one party become secrets of all."""

from .loading import LIMIT, Dtypes, Shapes, expectation, load, reading_options
from .pictures import Pictures

__all__ = ["LIMIT", "Dtypes", "Pictures", "Shapes", "expectation", "load", "reading_options"]
