"""`tacit`, manipulated: it changes a word of a ReLU's first message, and never finds a difference.

    python cheating_host.py run --party dan --parties parties.toml job.py

The job and the settings are those of the others, so that they connect.
"""

from __future__ import annotations

from typing import Any

import tacit.cli.run
from tacit.cli import main
from tacit.cli.report import play
from tacit.testing.manipulations import Manipulation, changed_words

OPERATION = "aten::relu"
HOW = Manipulation(0, "add 1")


def cheat(session: Any, job: Any) -> Any:
    """Runs the job with changed channels, and reports as an honest party would."""
    mesh, done = session.mesh, []
    session.protocol.views.agree = lambda _total, _operation: True
    for peer in range(mesh.parties):
        if peer != mesh.rank:
            channel = mesh.channel(peer)

            def send(kind: Any, number: int, digest: bytes, tensors: Any, put=channel.send) -> int:
                if not done and tensors and mesh.record.last_name == OPERATION:
                    done.append(number)
                    tensors = changed_words(tensors, HOW)
                return put(kind, number, digest, tensors)

            channel.send = send
    try:
        return play(session, job)
    finally:
        print(f"changed {len(done)} messages")


if __name__ == "__main__":
    tacit.cli.run.play = cheat  # type: ignore[attr-defined]
    main()
