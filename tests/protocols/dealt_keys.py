"""Sessions without an agreement on keys, for tests that open thousands of short ones."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from typing import Any
from unittest.mock import patch

from tacit.crypto import Key, KeyRing
from tacit.crypto.keys import group_of
from tacit.crypto.rounds import Exchange
from tacit.runtime.launch import program


def keys_of(
    _exchange: Exchange,
    *,
    rank: int,
    parties: int,
    session: bytes,
    groups: Collection[Collection[int]],
) -> KeyRing:
    """Returns keys as `agree_keys` does, made from the session's name, which all parties know."""
    named = {*map(group_of, groups), *combinations(range(parties), 2)}
    own = [group for group in named if rank in group]
    return KeyRing(rank, {g: Key.extract(session, salt=b"", session=session, group=g) for g in own})


def dealt_keys() -> Any:
    """Within, parties that are threads do not agree on keys, which is half of a short run."""
    return patch.object(program, "agree_keys", keys_of)
