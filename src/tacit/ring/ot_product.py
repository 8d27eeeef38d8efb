"""The sizes of a product that is made of oblivious transfers."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ConfigError
from .ring import Ring, num_words


class OtProduct(NamedTuple):
    """A product of matrices (batch, m, k) x (batch, k, n) in a ring.

    One side has the left matrix, the other the right one. Each element of the left matrix takes
    `bits` transfers, one for each of its bits, and each transfer is of a row of the right matrix.
    bits: as many as the ring has, or 1 if the left matrix holds zeros and ones.

    A transfer of bit i only matters modulo 2^(size - i), for a ring of `size` bits. So bits p and
    size - p share a word (`words`, p = 0 .. size/2 - 1), and bit size/2 has half a word (`halves`).
    """

    batch: int
    m: int
    k: int
    n: int
    bits: int
    ring: Ring

    def check(self) -> None:
        """Raises unless the sizes are allowed."""
        if min(self[:4]) < 1:
            raise ConfigError(f"a product of sizes {self[:4]}", limit="each is at least 1")
        if self.bits not in (1, self.ring.bits):
            raise ConfigError(f"bits={self.bits}", limit=f"allowed are 1 and {self.ring.bits}")

    @property
    def is_whole(self) -> bool:
        """Whether the left matrix has all bits of the ring."""
        return self.bits == self.ring.bits

    @property
    def transfers(self) -> int:
        return self.batch * self.m * self.k * self.bits

    @property
    def choice_words(self) -> int:
        """How many words of 64 bits hold a bit of each transfer."""
        return num_words(self.transfers)

    @property
    def left(self) -> tuple[int, ...]:
        return self.batch, self.m, self.k

    @property
    def right(self) -> tuple[int, ...]:
        return self.batch, self.k, self.n

    @property
    def result(self) -> tuple[int, ...]:
        return self.batch, self.m, self.n

    @property
    def words(self) -> tuple[int, ...]:
        """The shape of the corrections that take whole words; their dtype is the ring's."""
        return *self.left, self.bits // 2 if self.is_whole else 1, self.n

    @property
    def halves(self) -> tuple[int, ...]:
        """The shape of those that take half a word; there are none if each element is one bit."""
        return (*self.left, self.n) if self.is_whole else (0,)
