"""Starts an enclave process and relays for it; measures first what will run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Self

from ...errors import AttestationRejected, ConfigError, PeerClosed
from ..attestation.measurement import PACKAGE, Manifest
from ..attestation.simulated import LOG, WARNING
from ..configuration import EnclaveConfig
from ..edl import FRAME_BYTES, Kind, Link, Protection, Side, unpack_end
from .relay import Relay

START_SECONDS = 120.0
_STOP_SECONDS = 10.0
# Tacit's modules are compiled from the measured sources: nothing is read from a cache of Python's.
# Libraries are measured by their version, and come with their caches. The process is isolated
# before it imports them, see `trusted/process_isolation.py`.
_NO_CACHE = "/nonexistent"
_FIRST_LINES = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
sys.pycache_prefix = {_NO_CACHE!r}
from tacit.enclave.trusted.process_isolation import isolate
granted = isolate(int(sys.argv[1]))
sys.pycache_prefix = None
import cryptography.hazmat.primitives.asymmetric.ed25519, cryptography.x509, numpy, torch
sys.pycache_prefix = {_NO_CACHE!r}
from tacit.enclave.trusted.process import main
main(int(sys.argv[1]), granted)
"""


class EnclaveProcess:
    """An enclave process of this host, with the relay that serves it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        relay: Relay,
        manifest: Manifest,
        granted: Protection,
    ) -> None:
        self._process, self.relay, self.manifest, self.granted = process, relay, manifest, granted

    @classmethod
    def start(
        cls,
        config: EnclaveConfig,
        *,
        may_dial: Collection[tuple[str, int]] = (),
        threads: int = 1,
        folder: Path | None = None,
        keeps_freed_memory: bool = True,
        insecure_output: bool = False,
    ) -> Self:
        """Measures what will run, starts it, and waits until it is ready.

        threads: of torch and the kernels inside; measured as a setting.
        folder: where the process starts; whoever owns the machine reads what it writes there.
        keeps_freed_memory: for 2 s, which is faster; no if the memory of the enclave is limited.
        insecure_output: what the program prints, maybe secrets, goes to this process's stderr.
        """
        config = replace(config, settings={**config.settings, "threads": str(threads)})
        manifest = config.measure()
        near, far = socket.socketpair()
        with far:
            process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", _FIRST_LINES, str(far.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if insecure_output else subprocess.DEVNULL,
                pass_fds=(far.fileno(),),
                cwd=folder or "/",
                env=_environment(threads, keeps_freed_memory),
                start_new_session=True,
            )
        link = Link(near, Side.HOST)
        try:
            near.settimeout(START_SECONDS)
            granted = _begin(link, config, manifest)
            near.settimeout(None)
        except BaseException:
            process.kill()
            process.wait()
            link.close()
            raise
        _tell(granted)
        return cls(process, Relay(link, may_dial=may_dial), manifest, granted)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """That of the process, once `wait` has returned; minus a signal that killed it."""
        return self._process.returncode

    def wait(self, seconds: float | None = None) -> str:
        """Returns the last word of the enclave once it has ended: "" if all went well."""
        word = self.relay.ended.result(seconds)
        self._process.wait()
        return word

    def kill(self) -> None:
        """Ends the enclave at once, whatever it does."""
        self._process.kill()
        self._process.wait()
        self.relay.close()

    def stop(self) -> None:
        """Ends the enclave, at once if it does not end by itself."""
        self.relay.stop()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.relay.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _begin(link: Link, config: EnclaveConfig, manifest: Manifest) -> Protection:
    try:
        link.send(Kind.START, 0, config.encode(manifest))
        for start in range(0, len(config.data), FRAME_BYTES):
            link.send(Kind.DATA, 0, memoryview(config.data)[start : start + FRAME_BYTES])
        frame = link.receive()
    except PeerClosed:
        raise ConfigError(
            "the enclave process ended before it was ready",
            remedy="insecure_output=True shows what it prints",
        ) from None
    if frame.kind is Kind.ENDED:
        raise AttestationRejected(f"the enclave did not start: {unpack_end(frame.body)[0]}")
    return Protection(frame.body[0])


def _environment(threads: int, keeps_freed_memory: bool) -> dict[str, str]:
    """Returns all variables that an enclave gets: nothing of the host's own."""
    delay = "2000" if keeps_freed_memory else "0"  # see runtime/launch/child_process.py
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(threads),
        "MIMALLOC_PURGE_DELAY": delay,
    }


def _tell(granted: Protection) -> None:
    LOG.warning(WARNING)
    missing = [str(one.name).lower().replace("_", " ") for one in Protection if one not in granted]
    if missing:
        LOG.warning("this system does not grant it: %s", ", ".join(missing))
