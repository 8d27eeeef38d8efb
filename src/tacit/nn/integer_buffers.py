"""Integer and bool buffers of a shared module: which stay public, and which become secret.

Positions, masks and counters have to be public: torch's code branches on them. Quantised weights
must not be. A buffer stays public if all parties hold the same values already, because then nobody
learns anything. Otherwise it becomes secret, unless the caller names it in `public=` or it counts
training steps; those of the owner are revealed to all, through the reveal policy and its record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256
from logging import getLogger

import torch

from ..errors import ConfigError
from ..fixedpoint import Numbers
from ..transport import Mesh
from ..transport.consensus import broadcast_from
from .module_tensors import ModuleTensor

LOG = getLogger("tacit")
DIGEST_BYTES = 32


def named_public(tensors: Sequence[ModuleTensor], public: Collection[str]) -> list[str]:
    """Returns the paths of the buffers that `public` names, by their paths or the last part of one.

    Raises ConfigError for a name that is not that of an integer or bool buffer.
    """
    if isinstance(public, str):
        raise _refused(f"public={public!r}", "give a list of names of buffers")
    found: set[str] = set()
    for name in public:
        meant = [x for x in tensors if not x.has_secret_kind and x.is_called(name)]
        if not meant:
            have = [entry.path for entry in tensors if not entry.has_secret_kind]
            listed = f"there are {', '.join(have)}" if have else "there are none"
            raise _refused(f"public= names {name!r}, no integer or bool buffer", listed)
        found |= {entry.path for entry in meant}
    return sorted(found)


def publish(
    n: Numbers, buffers: Sequence[ModuleTensor], owner: int, public: Collection[str]
) -> list[ModuleTensor]:
    """Returns the buffers that become secret; gives the others their public values, in place.

    The other parties tell the owner digests of theirs, and it tells all which are the same. Two
    rounds; one more if it reveals some of its own. `public`: the paths that the caller named.
    Raises RevealForbidden at every party if the policy forbids to reveal one of those.
    """
    context = n.protocol.context
    counters_too = context.reveal_policy.allows(None)
    shown, hidden = list[ModuleTensor](), list[ModuleTensor]()
    for i in _differing(context.mesh, buffers, owner):
        entry = buffers[i]
        is_shown = entry.path in public or (entry.counts_steps and counters_too)
        (shown if is_shown else hidden).append(entry)
    _reveal(n, shown, owner)
    if hidden and context.rank == owner:
        paths = ", ".join(entry.path for entry in hidden)
        LOG.warning("share: secret, as not all parties hold the same: %s (see public=)", paths)
    return hidden


def _reveal(n: Numbers, buffers: Sequence[ModuleTensor], owner: int) -> None:
    """Gives all members the owner's values, after the policy has admitted and recorded it."""
    context, to_dealer = n.protocol.context, bool(n.protocol.helpers)
    for entry in buffers:
        dtype = str(entry.tensor.dtype).removeprefix("torch.")
        shape, policy = entry.tensor.shape, context.reveal_policy
        policy.admit(context.operation, shape, dtype, None, to_dealer=to_dealer)
    tensors = broadcast_from(context.mesh, [entry.tensor for entry in buffers], owner)
    for entry, tensor in zip(buffers, tensors, strict=True):
        entry.replace(tensor)


def _differing(mesh: Mesh, buffers: Sequence[ModuleTensor], owner: int) -> list[int]:
    """Returns which buffers are not the same at all parties. Only the owner compares.

    From a digest of the owner's, others could find short values by trying; so it tells none.
    """
    own = [_digest(entry.tensor) for entry in buffers]
    peers = [rank for rank in range(mesh.parties) if rank != owner]
    flags = torch.zeros(len(buffers), dtype=torch.int64)
    if mesh.rank == owner:
        for told in mesh.exchange_bytes({}, peers).values():
            theirs = [told[i : i + DIGEST_BYTES] for i in range(0, len(told), DIGEST_BYTES)]
            for i, digest in enumerate(own):
                flags[i] |= i >= len(theirs) or theirs[i] != digest
    else:
        mesh.exchange_bytes({owner: b"".join(own)}, [])
    [flags] = broadcast_from(mesh, [flags], owner)
    return [i for i, flag in enumerate(flags.tolist()) if flag]


def _digest(tensor: torch.Tensor) -> bytes:
    """Returns a digest of the values; of a tensor without values, zeros that no digest equals."""
    if tensor.is_meta:
        return bytes(DIGEST_BYTES)
    return sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).digest()


def _refused(reason: str, remedy: str) -> ConfigError:
    return ConfigError(reason, remedy=remedy, subject="share")
