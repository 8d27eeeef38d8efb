"""Plain tensors among the arguments of a recorded function that differ from call to call.

Either their owner shares them within the function, and only the owner knows them; or they are
public, such as a position. The function does not decide by them: a plan takes them from buffers.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from torch import Tensor

from .buffers import TensorBuffers


class BufferedArguments:
    """Buffers for the arguments at these places among those that are not secret.

    A party that is not the owner may have none there.
    """

    def __init__(self, others: Sequence[Any], places: Set[int]) -> None:
        tensors = [i for i in sorted(places) if isinstance(others[i], Tensor)]
        self._places = [i for i in tensors if not others[i].is_meta]
        self.buffers = TensorBuffers([others[i] for i in self._places])

    def copy_from(self, others: Sequence[Any]) -> None:
        """Overwrites the buffers with the arguments of another call."""
        self.buffers.copy_from([others[i] for i in self._places])

    def put_into(self, others: Sequence[Any]) -> list[Any]:
        """Returns the arguments with the buffers in their places."""
        made = list(others)
        for i, x in zip(self._places, self.buffers.tensors, strict=True):
            made[i] = x
        return made
