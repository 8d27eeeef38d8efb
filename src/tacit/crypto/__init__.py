"""Keys, commitments, transcripts and identities. Nothing here knows how messages travel."""

from .agreement import agree_keys, default_groups
from .commitment import commit, open_commitment, toss_coin
from .identity import Credentials, create_credentials, public_key_fingerprint
from .keys import Key, KeyRing
from .rounds import Exchange
from .transcript import Transcript

__all__ = [
    "Credentials",
    "Exchange",
    "Key",
    "KeyRing",
    "Transcript",
    "agree_keys",
    "commit",
    "create_credentials",
    "default_groups",
    "open_commitment",
    "public_key_fingerprint",
    "toss_coin",
]
