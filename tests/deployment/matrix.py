"""What the failure tests saw, for the table in the documents.

Each test notes how its case ended in build/failures.json, under its own name, and compares it with
docs/reference/failures.json: a copy that somebody has looked at, and of which `make docs` makes
the page. Exit codes and errors must agree; what parties say and how long it took may differ.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from tests.deployment.site import Ended

ROOT = Path(__file__).parents[2]
SEEN = ROOT / "build" / "failures.json"
KNOWN = ROOT / "docs" / "reference" / "failures.json"
RESUME = "`--resume` goes on from the newest checkpoint"
NOTHING = "nothing: all finish, with the right model"
# Of two parties, the one that notices first says that a third is silent, the other that it is told.
ALIKE = {"PeerTimeout": "PeerClosed"}


def record(test: str, case: str, ended: Mapping[str, Ended], then: str) -> None:
    """Notes how the parties ended in a case, and what is to be done then."""
    parties = {name: outcome(one) for name, one in sorted(ended.items())}
    today = datetime.now(UTC).date().isoformat()
    seen = {"date": today, "machine": platform.machine()}
    found = {"case": case, "parties": parties, "then": then, **seen}
    SEEN.parent.mkdir(exist_ok=True)
    with SEEN.open("a+") as file:
        flock(file, LOCK_EX)  # other tests may run at the same time
        file.seek(0)
        content = json.loads(file.read() or '{"cases": {}}')
        content["cases"][test] = found
        file.truncate(0)
        file.write(json.dumps(content, indent=1) + "\n")
    known = json.loads(KNOWN.read_text())["cases"].get(test)
    assert known is not None, f"if {SEEN} is right, copy it to {KNOWN} and run make docs"
    assert (known["case"], known["then"]) == (case, then)
    assert ends(known) == ends(found), f"if {SEEN} is right, copy it to {KNOWN} and run make docs"


def outcome(ended: Ended) -> dict[str, Any]:
    """How a party ended, without the paths of this machine."""
    said = re.sub(r"/\S*/(?=\S)", "", ended.said.partition("\n")[0])
    return {
        "exit_code": ended.code,
        "error": ended.report.get("kind") if ended.out else None,
        "says": re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1…", said),
        "seconds": round(ended.seconds, 1),
    }


def ends(case: Mapping[str, Any]) -> dict[str, tuple[int, str | None]]:
    """Exit codes and errors by party."""
    return {
        name: (one["exit_code"], ALIKE.get(one["error"], one["error"]))
        for name, one in case["parties"].items()
    }
