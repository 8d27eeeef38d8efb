"""Keys, commitments, transcripts and identities. Nothing here knows how messages travel."""

from .agreement import agree_keys, default_groups
from .base_ot import BaseReceiver, BaseSender
from .commitment import commit, open_commitment, toss_coin
from .identity import (
    Credentials,
    certificate_from_der,
    certificate_to_der,
    create_credentials,
    public_key_fingerprint,
    valid_until,
)
from .key_file import is_sealed, read_key_file
from .key_memory import lock, protect_process, wipe
from .keys import Group, Key, KeyRing
from .private_files import make_private_folder, open_private
from .rounds import Exchange
from .sealing import (
    KEY_BYTES,
    SCRYPT,
    commitments_equal,
    committed_key,
    joint_key,
    part_of_joint_key,
    stretched,
)
from .transcript import Transcript

__all__ = [
    "KEY_BYTES",
    "SCRYPT",
    "BaseReceiver",
    "BaseSender",
    "Credentials",
    "Exchange",
    "Group",
    "Key",
    "KeyRing",
    "Transcript",
    "agree_keys",
    "certificate_from_der",
    "certificate_to_der",
    "commit",
    "commitments_equal",
    "committed_key",
    "create_credentials",
    "default_groups",
    "is_sealed",
    "joint_key",
    "lock",
    "make_private_folder",
    "open_commitment",
    "open_private",
    "part_of_joint_key",
    "protect_process",
    "public_key_fingerprint",
    "read_key_file",
    "stretched",
    "toss_coin",
    "valid_until",
    "wipe",
]
