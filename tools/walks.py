"""Counts the files that one private layer and one shared module pass through, and callbacks.

    python -m tools.walks            # the counts
    python -m tools.walks --files    # with the files in the order of their first call

A walk is every Python function of Tacit that a party calls, from the user's call to the channel, in
a second call (the first one fills caches). The channel begins behind transport/mesh.py, which the
layers above send and receive with; its files are counted apart.

A callback is a function of a lower layer that calls one of a higher layer. A driver that resumes a
generator is no callback: the generator asks for its next round and goes on with the answer. A
generator that delegates to one of a higher layer is.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from tests.policy import sources
from torch import nn

import tacit

SOURCE = Path(tacit.__file__).parent
CHANNEL = "transport/mesh.py"
RANK = sources.rank()


@dataclass
class Walk:
    """The files that a call enters, how often one file calls another, and the callbacks."""

    files: list[str] = field(default_factory=list)
    channel: list[str] = field(default_factory=list)
    hops: int = 0
    callbacks: list[str] = field(default_factory=list)

    def enter(self, frame: FrameType) -> None:
        """Notes the start, or the resumption, of a function."""
        here = _file(frame)
        if here is None:
            return
        caller = _caller(frame)
        seen = self.channel if _inside_channel(caller) else self.files
        if here not in seen:
            seen.append(here)
        if caller is None or (there := _file(caller)) == here:
            return
        self.hops += 1
        if _rank(there) < _rank(here) and not _resumed_by_driver(frame, caller):
            self._add_callback(caller, frame)

    def _add_callback(self, caller: FrameType, called: FrameType) -> None:
        line = f"{_file(caller)}:{caller.f_code.co_name} calls {_file(called)}:"
        text = line + called.f_code.co_name
        if text not in self.callbacks:
            self.callbacks.append(text)


def _file(frame: FrameType) -> str | None:
    """The file's path under src/tacit, or None for a frame of something else."""
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(SOURCE)) if path.is_relative_to(SOURCE) else None


def _caller(frame: FrameType) -> FrameType | None:
    """The nearest frame of Tacit above; torch may be in between."""
    above = frame.f_back
    while above is not None and _file(above) is None:
        above = above.f_back
    return above


def _inside_channel(frame: FrameType | None) -> bool:
    while frame is not None:
        if _file(frame) == CHANNEL:
            return True
        frame = frame.f_back
    return False


def _rank(file: str | None) -> int:
    return RANK.get((file or "").split("/")[0].removesuffix(".py"), len(RANK))


def _resumed_by_driver(frame: FrameType, caller: FrameType) -> bool:
    def is_generator(one: FrameType) -> bool:
        return bool(one.f_code.co_flags & inspect.CO_GENERATOR)

    return is_generator(frame) and not is_generator(caller)


def follow(call: Callable[[], Any]) -> Walk:
    """The walk of one call in this thread."""
    walk = Walk()

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            walk.enter(frame)

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return walk


def _layer(session: Any) -> Walk:
    linear = session.share(nn.Linear(8, 4), owner=0)
    x = session.share(torch.ones(2, 8), owner=1)
    with torch.no_grad():
        torch.relu(linear(x))
        return follow(lambda: torch.relu(linear(x)))


def _sharing(session: Any) -> Walk:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    session.share(model, owner=0)
    again = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    return follow(lambda: session.share(again, owner=0))


PROGRAMS = {"relu(linear(x))": _layer, "session.share(module)": _sharing}


def walks(protocol: str = "trio") -> dict[str, list[Walk]]:
    """Each program's walk at every party."""
    return {
        name: tacit.run(program, protocol=protocol, deadline=120.0)
        for name, program in PROGRAMS.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="store_true", help="list the files")
    chosen = parser.parse_args()
    for name, parties in walks().items():
        for rank, walk in enumerate(parties):
            behind = len({*walk.channel} - {*walk.files})
            print(
                f"{name} at party {rank}: {len(walk.files)} files to the channel, "
                f"{behind} behind it, {walk.hops} hops, {len(walk.callbacks)} callbacks"
            )
            for text in walk.callbacks:
                print(f"  callback: {text}")
            for file in walk.files if chosen.files else ():
                print(f"  {file}")


if __name__ == "__main__":
    main()
