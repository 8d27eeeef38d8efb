"""Loops of a party that take long: whoever shows progress is told how far they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


class Loops:
    """Shows nothing; `RunningLoops` of the runtime does."""

    def counted(self, items: Iterable[Item], name: str, total: int) -> Iterable[Item]:
        """Returns the items, of which there are `total`; each is done when the next is asked for.

        name: what the loop does, in a few words.
        """
        return items
