"""Hands malformed inputs to Tacit, in a process of limited memory, and reports what came of each.

python -m tests.fuzz.attempts SEED COUNT FOLDER KIND ...
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import resource
import sys
import threading
import time
import traceback
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tacit.errors import Error

ROOM = 300 << 20  # bytes of address space beyond what the process has after a first attempt
HANGS = 300.0  # s after which an attempt is given up, and the process with it


class Case(NamedTuple):
    """One input: what is wrong with it, how it is handed over, and what has to come of it.

    A hostile one has to be refused; of another a change may be harmless. `names` is what the
    message of the error says.
    """

    what: str
    act: Callable[[], object]
    hostile: bool = False
    names: str = ""


Cases = Callable[[Random, int, Path], Iterator[Case]]

KINDS = {
    "frames": "frames",
    "last words": "last_words",
    "hellos": "hellos",
    "hellos in TLS": "secure_hellos",
    "certificates in TLS": "shown_certificates",
    "party files": "party_files",
    "key files": "key_files",
    "certificates": "certificates",
    "checkpoints": "checkpoints",
    "contents of checkpoints": "checkpoint_contents",
    "agreements": "agreements",
    "announcements": "announcements",
    "announcements of a join": "join_announcements",
    "probes": "probes",
    "session keys": "session_keys",
    "stored runs": "stored_runs",
    "quotes": "quotes",
    "messages of a host": "enclave_messages",
}

_secrets: dict[str, set[str]] = {}
_background: list[str] = []


def plant(name: str, secret: bytes | str) -> None:
    """From now on no error may show this secret, however it is written."""
    data = secret.encode() if isinstance(secret, str) else secret
    forms = {data.hex(), b64encode(data).decode().rstrip("="), repr(data)[2:-1]}
    if len(data) == 8:
        forms = {str(int.from_bytes(data, "little", signed=True)), data.hex()}
    _secrets[name] = {form for form in forms if len(form) >= 8}


def shown(error: BaseException) -> str:
    """All that a traceback could show of an error and of what led to it."""
    texts = traceback.format_exception(error)
    link: BaseException | None = error
    while link is not None:
        texts += [repr(link), str(link), str(getattr(link, "field", ""))]
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "\n".join(texts)


def attempt(case: Case) -> dict[str, object]:
    _background.clear()
    faulthandler.dump_traceback_later(HANGS, exit=True)
    started, computed = time.perf_counter(), time.process_time()
    caught: BaseException | None = None
    try:
        case.act()
    except BaseException as error:
        caught = error
    seconds, computing = time.perf_counter() - started, time.process_time() - computed
    faulthandler.cancel_dump_traceback_later()
    text = shown(caught) if caught else ""
    return {
        "what": case.what,
        "hostile": case.hostile,
        "names": case.names,
        "error": type(caught).__name__ if caught else "",
        "ours": caught is None or isinstance(caught, Error),
        "message": str(caught) if caught else "",
        "traceback": "" if caught is None or isinstance(caught, Error) else text[-3000:],
        "leaks": [name for name, forms in _secrets.items() if any(f in text for f in forms)],
        "background": list(_background),
        "seconds": seconds,
        "computing": computing,
    }


def limit_memory(room: int | None) -> None:
    """So many bytes more than now, or again as many as there are."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + room if room else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _died(args: threading.ExceptHookArgs) -> None:
    _background.append(f"{args.exc_type.__name__}: {args.exc_value}")


def main(seed: str, count: str, folder: str, *kinds: str) -> None:
    warnings.simplefilter("ignore")
    threading.excepthook = _died
    for kind in kinds:
        limit_memory(None)
        cases: Cases = importlib.import_module(f"tests.fuzz.kinds.{KINDS[kind]}").cases
        made = cases(Random(int(seed)), int(count), Path(folder))
        valid = attempt(next(made))  # what is valid comes first, and every library is imported
        assert valid["error"] == "", valid
        limit_memory(ROOM)
        for case in made:
            print(json.dumps({"kind": kind, "what": case.what}), flush=True)  # in case of a crash
            print(json.dumps({"kind": kind, **attempt(case)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
