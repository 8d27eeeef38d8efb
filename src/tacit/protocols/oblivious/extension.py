"""As many oblivious transfers as are needed, from the seeds of `setup`.

The receiver chooses, the sender has an offset of 128 secret bits. An extension takes one message of
the receiver. After it both have a row of 128 bits for each transfer, and the rows differ by the
offset where the receiver chose 1. Hashes of the rows are the messages of the transfers. (Roy,
"SoftSpokenOT", CRYPTO 2022; with trees of depth 1 it is Ishai, Kilian, Nissim and Petrank's.)

NOTE [depth]: trees of depth d send 128 / d bits for a transfer, and each side makes 2^d streams for
each tree. Depth 4 sends a quarter of the bytes of depth 1 and is no slower, because the streams of
a tree are added up before they leave the cache. Depth 8 would halve the bytes once more, at a fifth
of the speed. `benchmarks/ot.py` measures all of them.

NOTE [one use]: each extension has a number of its own, which is the nonce of all its streams, and
each transfer has one, which goes into its hash. Both only grow, so no (key, counter) is used twice.
All hashes hide the same offset: after q hashed blocks, t evaluations of AES find it with a
probability of about t q / 2^128. So q is limited.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import Party, ProtocolError
from ...kernels import ot_receive_rows, ot_send_rows
from ...ring import WORD
from ...transport import Spec

DEPTH = 4  # of a tree of seeds
SECURITY = 128  # bits of a row
TREES = SECURITY // DEPTH
MOST_BLOCKS = 1 << 40  # hashed under one offset: 88 bits of security are left


class Extended(NamedTuple):
    """What one side has of transfers: its rows, and the number of the first of them."""

    rows: Tensor
    first: int


class _Side:
    """One of the two sides. Both count extensions, transfers and hashed blocks alike.

    seeds: of the streams, secret. key: of the hash, public.
    """

    def __init__(self, seeds: Tensor, key: Tensor, *, peer: int) -> None:
        self.key, self.peer = key, peer
        self._seeds = seeds
        self._extensions = self._transfers = self._blocks = 0

    def _take(self, words: int, blocks: int) -> tuple[int, int]:
        """Returns the numbers of the next extension and of its first transfer."""
        first = self._transfers
        if self._blocks + words * WORD * blocks > MOST_BLOCKS:
            raise ProtocolError(
                "the oblivious transfers with " + Party(self.peer) + " are used up",
                limit=f"one setup is for {MOST_BLOCKS} blocks of 128 bits",
                remedy="start a new session",
                party=self.peer,
            )
        self._extensions += 1
        self._transfers += words * WORD
        self._blocks += words * WORD * blocks
        return self._extensions, first

    def wipe(self) -> None:
        """Overwrites the seeds, at the end of a session."""
        self._seeds.zero_()


class TransferReceiver(_Side):
    """The side that chooses."""

    def extend(self, choices: Tensor, blocks: int = 1) -> tuple[Tensor, Extended]:
        """Returns the message for the sender, and the rows for packed choices.

        blocks: how many blocks of 128 bits are hashed for each transfer.
        """
        number, first = self._take(len(choices), blocks)
        message, rows = ot_receive_rows(self._seeds, choices, operation=number)
        return message, Extended(rows, first)


class TransferSender(_Side):
    """The side with both messages of each transfer. offset: two words, secret."""

    def __init__(self, seeds: Tensor, offset: Tensor, key: Tensor, *, peer: int) -> None:
        super().__init__(seeds, key, peer=peer)
        self.offset = offset

    def extend(self, message: Tensor, blocks: int = 1) -> Extended:
        """Returns the rows, from the receiver's message."""
        words = message.shape[-1]
        if message.shape != (TREES, words) or message.dtype != torch.int64:
            raise ProtocolError(
                Party(self.peer)
                + f" sent {message.dtype} of shape {tuple(message.shape)} for oblivious transfers",
                limit=f"{TREES} rows of 64-bit words are needed",
                party=self.peer,
            )
        number, first = self._take(words, blocks)
        rows = ot_send_rows(self._seeds, self.offset, message, operation=number)
        return Extended(rows, first)

    def wipe(self) -> None:
        super().wipe()
        self.offset.zero_()


class Transfers(NamedTuple):
    """Both directions between this party and a peer."""

    sender: TransferSender
    receiver: TransferReceiver
    peer: int

    def wipe(self) -> None:
        """Overwrites all secrets, at the end of a session."""
        self.sender.wipe()
        self.receiver.wipe()


def extension_spec(words: int) -> Spec:
    """Returns the layout of the message for 64 transfers a word."""
    return Spec((TREES, words), torch.int64)
