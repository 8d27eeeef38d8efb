"""What a recorded function does in each replay, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RecordingSummary:
    """What one replay does at this party, for arguments of one form.

    arguments: the shapes of the secrets among the arguments. num_calls: of kernels and of torch,
    those that draw random words included; None for a graph, whose kernels are not counted.
    rounds, bytes_sent and bytes_received: as `session.stats` counts them, in each replay.
    rounds_of_call: what a call takes that is not replayed, where no rounds are merged.
    memory_bytes: what the recording keeps. num_replays: how often it was replayed so far.
    """

    arguments: tuple[tuple[int, ...], ...]
    num_calls: int | None
    num_draws: int | None
    rounds: int
    rounds_of_call: int
    bytes_sent: int
    bytes_received: int
    memory_bytes: int
    num_replays: int

    def __str__(self) -> str:
        shapes = ", ".join(str(list(shape)) for shape in self.arguments) or "no secrets"
        calls = "a graph" if self.num_calls is None else f"{self.num_calls} calls"
        draws = f", {self.num_draws} of them draw" if self.num_draws else ""
        merged = self.rounds_of_call - self.rounds
        before = f" ({self.rounds_of_call} before merging)" if merged else ""
        return (
            f"{shapes}: {calls}{draws}, {self.rounds} rounds{before}, "
            f"{self.bytes_sent:,} bytes sent, {self.bytes_received:,} received, "
            f"{self.memory_bytes / 1e6:.1f} MB kept, replayed {self.num_replays} times"
        )


def described(name: str, recordings: Sequence[RecordingSummary], obstacle: str | None) -> str:
    """Returns what is recorded of a function of this name, or why nothing is, as text."""
    if obstacle is not None:
        return f"{name} is not recorded: {obstacle}"
    if not recordings:
        return f"{name} is not recorded yet: the third call with arguments of one form is"
    return "\n".join([f"{name}, for secrets of the shapes", *(f"  {one}" for one in recordings)])
