"""The keys of a session are overwritten when it ends, however it ends."""

from __future__ import annotations

import ctypes

import pytest
import torch

import tacit
from tacit.crypto.key_memory import address_of
from tacit.errors import PartyFailed, PeerClosed
from tacit.kernels import StreamKey
from tacit.runtime.launch import local_run

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])


def key_memory(session):
    """The keys of a session and of its streams: (address, size, what keeps the memory)."""
    ready = session.operations.context.streams._ready.values()
    words = [key.words for key in ready if isinstance(key, StreamKey)]
    secrets = [key.key if isinstance(key, StreamKey) else key for key in ready]
    secrets += [key._secret for key in session.keys._keys.values()]
    placed = [(address_of(secret), len(secret), secret) for secret in secrets]
    return placed + [(one.data_ptr(), one.nbytes, one) for one in words]


def contents(places):
    return [ctypes.string_at(address, size) for address, size, _ in places]


@pytest.mark.parametrize("ends", ["returns", "closes", "fails"])
@pytest.mark.parametrize("cipher", ["aes128-ctr", "chacha20"])
def test_keys_are_zeros_after_the_session(cipher, ends, monkeypatch):
    monkeypatch.setattr(local_run, "cipher_for", lambda *_: cipher)
    seen = []

    def main(session):
        x = session.share(X, owner=0)
        assert session.reveal((x @ x).relu()).shape == (2, 2)
        places = key_memory(session)
        assert all(any(content) for content in contents(places))
        seen.append((session, places))
        if ends == "fails":
            raise RuntimeError("the program fails")
        if ends == "closes":
            session.close()

    if ends == "fails":
        with pytest.raises(PartyFailed):
            tacit.run(main)
    else:
        tacit.run(main)
    assert len(seen) == 3 or (seen and ends == "fails")
    for session, places in seen:
        assert len(places) > 4  # four keys of groups, the rest of streams
        assert not any(any(content) for content in contents(places))
        streams = session.operations.context.streams
        assert not streams._ready
        with pytest.raises(PeerClosed, match="the session is closed"):
            session.keys.key({0, 1, 2}).derive("anything", 16)
