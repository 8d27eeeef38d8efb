"""The keys that parties share, and the names under which they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from ..errors import ConfigError, Party, PeerClosed, RevealForbidden
from .key_memory import lock, wipe

KEY_BYTES = 32
Group = tuple[int, ...]  # ranks in ascending order


def group_of(parties: Iterable[int]) -> Group:
    """Returns a set of parties in its canonical form: ranks in ascending order."""
    return tuple(sorted(set(parties)))


def key_label(session: bytes, group: Group) -> str:
    """Returns what a key is bound to: this session and exactly these parties."""
    return f"prf|{session.hex()}|{','.join(map(str, group))}"


class Key:
    """A secret that exactly the parties of `group` know. It is never shown, compared or saved.

    Every use, such as each stream of masks, derives a key of its own. It is locked in memory, and
    the end of its session wipes it, see NOTE [best effort] in key_memory.py.
    """

    __slots__ = ("_secret", "group")

    def __init__(self, secret: bytes, group: Group) -> None:
        self._secret = lock(bytearray(secret))
        self.group = group

    @classmethod
    def extract(cls, material: bytes, *, salt: bytes, session: bytes, group: Group) -> Key:
        """Returns the HKDF-SHA256 key of shared key material, bound to session and group."""
        info = key_label(session, group).encode()
        secret = HKDF(hashes.SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(material)
        made = cls(secret, group)
        wipe(secret)
        return made

    def derive(self, label: str, size: int) -> bytes:
        """Returns `size` bytes for one use; different labels give independent bytes."""
        if not any(self._secret):
            raise PeerClosed(f"the session is closed: {self!r} was wiped")
        return HKDFExpand(hashes.SHA256(), length=size, info=label.encode()).derive(self._secret)

    def wipe(self) -> None:
        """Overwrites the secret; nothing can be derived any more."""
        wipe(self._secret)

    def __repr__(self) -> str:
        return f"Key(group={self.group})"

    def __reduce_ex__(self, _protocol: object) -> str | tuple[object, ...]:
        raise RevealForbidden(
            f"{self!r} cannot be copied, saved or sent: keys live for one session, in one process"
        )


class KeyRing:
    """The keys of one party for one session: `ring.key({0, 2})` is what parties 0 and 2 share."""

    def __init__(self, rank: int, keys: Mapping[Group, Key]) -> None:
        self.rank = rank
        self._keys = {frozenset(group): key for group, key in keys.items()}

    def key(self, parties: Iterable[int]) -> Key:
        """Returns the key of exactly these parties; this party must be one of them."""
        parties = frozenset(parties)
        if parties not in self._keys:
            raise ConfigError(
                Party(self.rank)
                + (
                    f" has no key of the parties {group_of(parties)}; it has those of "
                    f"{', '.join(map(str, self.groups))}"
                ),
                party=self.rank,
            )
        return self._keys[parties]

    def of_stored_run(self, member: int, label: str) -> dict[Group, bytes]:
        """Returns a key of its own for each group with this member, to be kept in a stored run.

        The label is that of one run: no two runs and no session have a key in common.
        """
        groups = [group for group in self.groups if member in group and len(group) > 1]
        return {g: self.key(g).derive(f"stored run|{label}", KEY_BYTES) for g in groups}

    def with_keys(self, keys: Mapping[Group, bytes]) -> KeyRing:
        """Returns a ring in which these keys take the place of those of their groups, wiped."""
        made = {group: Key(secret, group) for group, secret in keys.items()}
        for group in set(self.groups) & made.keys():
            self.key(group).wipe()
        return KeyRing(self.rank, {g: self.key(g) for g in self.groups} | made)

    def wipe(self) -> None:
        """Overwrites all keys, at the end of a session."""
        for key in self._keys.values():
            key.wipe()

    @property
    def groups(self) -> list[Group]:
        groups = (group_of(parties) for parties in self._keys)
        return sorted(groups, key=lambda group: (len(group), group))

    def __repr__(self) -> str:
        return f"KeyRing(rank={self.rank}, groups={self.groups})"
