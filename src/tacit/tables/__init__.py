"""What the columns of a table mean, and how their text is read: for `session.load`."""

from .categories import Category
from .csv_text import CellRejected, Csv
from .dates import Date
from .kinds import Guess, Integer, Kind, Missing, Number, Truth, column_names

__all__ = [
    "Category",
    "CellRejected",
    "Csv",
    "Date",
    "Guess",
    "Integer",
    "Kind",
    "Missing",
    "Number",
    "Truth",
    "column_names",
]
