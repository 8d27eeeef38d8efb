"""`tacit doctor`: shows what is installed here, and what a party file guarantees."""

from __future__ import annotations

import os
import platform
import warnings
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from .errors import Code, reported
from .options import Debug, Json
from .screen import Screen

PACKAGES = ("torch", "numpy", "cryptography", "triton", "tensorboard", "pyarrow", "pillow")


@dataclass(frozen=True)
class Finding:
    """The state of one thing: "ok", "missing" (Tacit works without it) or "broken"."""

    what: str
    state: str
    text: str


def doctor(
    parties: Annotated[
        Path | None, typer.Option(help="A party file to check; shows what it guarantees.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what is installed and what a party file guarantees.

    It shows versions, the compiled kernels and the processor's instructions that they use, GPUs,
    what an enclave here would be worth, and the random source. With --parties it also shows who
    must not collude with whom, what each party learns, and how channels are protected. The exit
    code is 0 unless something is broken.

    Examples:

        tacit doctor

        tacit doctor --parties parties.toml
    """
    screen = Screen(json)
    with reported(screen, debug=debug):
        security = {} if parties is None else _security(parties)
        findings = [*_installed(), _kernels(), _tls(), *_gpus(), _enclave(), _randomness()]
        screen.table(("what", "state", "found"), [(f.what, f.state, f.text) for f in findings])
        for heading, lines in security.items():
            screen.section(heading, lines)
        screen.document({"findings": [asdict(f) for f in findings], "security": security})
        if any(f.state == "broken" for f in findings):
            raise typer.Exit(Code.USAGE)


def _security(path: Path) -> dict[str, list[str]]:
    from ..runtime.deploy.party_file import read_party_file
    from ..runtime.deploy.security import security_summary

    file = read_party_file(path)
    workers = [one.name for one in file.workers]
    return security_summary(
        file.config, file.names, certificates=file.certificates, workers=workers
    )


def _installed() -> list[Finding]:
    from cryptography.hazmat.backends.openssl import backend

    from .. import __version__

    found = [
        Finding("tacit", "ok", f"{__version__} in {Path(__file__).parents[1]}"),
        Finding("python", "ok", f"{platform.python_version()} on {platform.platform()}"),
        Finding("processor", "ok", f"{platform.machine()}, {os.cpu_count()} cores"),
        Finding("openssl", "ok", backend.openssl_version_text()),
    ]
    for name in PACKAGES:
        try:
            found.append(Finding(name, "ok", version(name)))
        except PackageNotFoundError:
            found.append(Finding(name, "missing", f"optional; pip install {name}"))
    return found


def _kernels() -> Finding:
    from ..kernels import backend

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        native = backend.load_native()
    if native is not None:
        using = ", ".join(backend.features()) or "no special instructions"
        text = f"compiled, level {backend.level()} ({using}); {backend.num_threads()} threads"
        return Finding("kernels", "ok", text)
    if backend.choice() == "reference":
        return Finding("kernels", "missing", f"the slow reference, as {backend.VARIABLE} says")
    return Finding("kernels", "missing", " ".join(str(one.message) for one in caught))


def _tls() -> Finding:
    import ssl

    from ..transport.wire.openssl_session import load_openssl

    if load_openssl() is not None:
        return Finding("tls", "ok", f"compiled, over {ssl.OPENSSL_VERSION}")
    why = "compiled code cannot call it, so streams of a process take turns"
    return Finding("tls", "missing", f"Python's ssl, over {ssl.OPENSSL_VERSION}; {why}")


def _gpus() -> list[Finding]:
    import torch

    if not torch.cuda.is_available():
        return [Finding("gpu", "missing", "torch finds none; everything runs on the processor")]
    found = []
    for index in range(torch.cuda.device_count()):
        one = torch.cuda.get_device_properties(index)
        memory = f"{one.total_memory / 2**30:.0f} GiB"
        found.append(
            Finding(f"cuda:{index}", "ok", f"{one.name}, {memory}, sm_{one.major}{one.minor}")
        )
    return found


def _enclave() -> Finding:
    from ..enclave.attestation.hardware import enclave_summary

    return Finding("enclave", "missing", enclave_summary())


def _randomness() -> Finding:
    """Checks that the system's random generator, which all keys come from, works and is seeded."""
    try:
        first, second = os.urandom(32), os.urandom(32)
        if hasattr(os, "getrandom"):
            os.getrandom(32, os.GRND_NONBLOCK)  # refuses while it is not seeded
            return _random_source(first != second, "os.urandom by getrandom(2), seeded")
        return _random_source(first != second, "os.urandom")
    except (OSError, NotImplementedError) as error:
        return Finding("randomness", "broken", f"the system's random source fails: {error}")


def _random_source(differ: bool, text: str) -> Finding:
    if differ:
        return Finding("randomness", "ok", text)
    return Finding("randomness", "broken", "the system's random source repeats itself")
