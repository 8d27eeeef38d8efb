"""A party that says what a test wants it to, and listens to nobody."""

from tacit.transport import Mesh


def say(mesh: Mesh, *messages: bytes) -> None:
    """These messages of this party to all others, in as many rounds; then it waits for their end.

    As many as they wait for: one that comes too late for them ends the run with another error.
    """
    peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
    for message in messages:
        mesh.exchange_bytes(dict.fromkeys(peers, message), ())
    for peer in peers:
        mesh._channels[peer].last_word(seconds=30)
