"""A session that says which of its calls the program makes."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from .session import Session


@dataclass(frozen=True, kw_only=True)
class PlacedSession(Session):
    """A session whose calls that share, load, join or reveal are places of the program."""

    @abstractmethod
    def within(self, call: str) -> AbstractContextManager[None]:
        """Within, what the party does belongs to this call of the session."""

    def share(self, *args: Any, **kwargs: Any) -> Any:
        with self.within("share"):
            return super().share(*args, **kwargs)

    def load(self, source: Any, owner: int | str, **options: Any) -> Any:
        with self.within("load"):
            return super().load(source, owner, **options)

    def join(self, *args: Any, **kwargs: Any) -> Any:
        with self.within("join"):
            return super().join(*args, **kwargs)

    def intersect(self, *args: Any, **kwargs: Any) -> Any:
        with self.within("intersect"):
            return super().intersect(*args, **kwargs)

    def reveal(self, *args: Any, **kwargs: Any) -> Any:
        with self.within("reveal"):
            return super().reveal(*args, **kwargs)
