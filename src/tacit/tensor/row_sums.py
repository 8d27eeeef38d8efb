"""Sums over the rows of a table, which the range of a session has to hold."""

from __future__ import annotations

from torch import Tensor

from ..errors import RangeError
from .secret import SecretTensor


def require_rows(function: str, *tables: Tensor) -> None:
    """Raises RangeError if a sum over the rows of a secret table leaves the range.

    Each row is taken to add about 1, as standardised columns and counts do. The number of rows is
    public, so that the error tells nothing.
    """
    for table in tables:
        if isinstance(table, SecretTensor) and not table.numbers.is_plain:
            n, rows = table.numbers, table.shape[0]
            if rows > 2**n.range_bits:
                more = "a larger range_bits or " if n.range_bits < n.most_range_bits else ""
                wider = ", or ring=64" if n.ring.bits < 64 else ""
                raise RangeError(
                    f"{rows} rows",
                    limit=f"sums over rows have to stay within the range, 2^{n.range_bits}",
                    remedy=f"take fewer rows, or give tacit.run {more}fewer fraction_bits than "
                    f"{n.fraction_bits}{wider}",
                    subject=function,
                )
