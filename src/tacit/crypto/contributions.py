"""The secret of a group of three and more parties: all contribute, so that nobody chooses it."""

from __future__ import annotations

import secrets
from functools import cached_property

from .commitment import DIGEST_BYTES, NONCE_BYTES, commit, compare_views, open_commitment, view_of
from .key_memory import wipe
from .keys import KEY_BYTES, Group, Key
from .rounds import check_size

SHOWN_BYTES = DIGEST_BYTES + NONCE_BYTES + KEY_BYTES


class GroupSecret:
    """The contributions to a group's key, from the side of one party.

    Every party is committed to its contribution before it sees another's. With the contributions go
    digests of all commitments, so that a party that commits differently to different peers is found
    out. If one holder is honest, the key is uniform: the others cannot choose it.
    """

    def __init__(self, group: Group, *, rank: int, session: bytes) -> None:
        self.group = group
        self._session, self._label = session, f"key of {group}"
        own = secrets.token_bytes(KEY_BYTES)
        made = commit(own, session=session, party=rank, label=self._label)
        self.commitment, self._opening = made
        self._commitments, self._values = {rank: self.commitment}, {rank: own}

    def hear(self, peer: int, commitment: bytes) -> None:
        """Takes the commitment of another party."""
        self._commitments[peer] = commitment

    def shown(self) -> bytes:
        """Returns what the other parties are sent once all commitments are here."""
        return self._view + self._opening

    def accept(self, peer: int, shown: bytes) -> None:
        """Takes the contribution of another party; raises CheatingDetected if it changed it."""
        check_size(shown, SHOWN_BYTES, party=peer, what="its contribution to a key")
        view, opening = shown[:DIGEST_BYTES], shown[DIGEST_BYTES:]
        compare_views(self._view, view, party=peer, label=self._label)
        commitment, session = self._commitments[peer], self._session
        self._values[peer] = open_commitment(
            commitment, opening, session=session, party=peer, label=self._label
        )

    def key(self) -> Key:
        """Returns the key, from the contributions of all, the lowest rank first; wipes them."""
        material = b"".join(self._values[party] for party in self.group)
        key = Key.extract(material, salt=b"", session=self._session, group=self.group)
        wipe(material, self._opening, *self._values.values())
        return key

    @cached_property
    def _view(self) -> bytes:
        """The digest of all commitments, once they are here; each peer is shown the same."""
        return view_of(self._commitments, session=self._session, label=self._label)
