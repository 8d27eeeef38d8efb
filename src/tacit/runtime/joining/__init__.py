"""`session.join` and `session.intersect`: tables of two owners, by ids that nobody else sees.

ids: what an id is, and its hashes. bins: which rows are compared. own_table, announcing: what the
owners have, and what all parties are told. matching: the comparisons on secrets. compaction: rows
that match, moved together. joining: all of it, in order.
"""

from .joined import Joined
from .joining import Size, intersect, join

__all__ = ["Joined", "Size", "intersect", "join"]
