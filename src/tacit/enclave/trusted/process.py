"""The enclave process: it makes its key, answers the host, and runs the program it was given."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from ...crypto import Credentials, create_credentials, wipe
from ...errors import (
    AttestationRejected,
    CheatingDetected,
    ConfigError,
    WorkerFailed,
    told_to_peers,
)
from ..attestation import Manifest, report_data, simulated
from ..attestation.request import AttestedKey
from ..configuration import EnclaveConfig
from ..edl import Kind, Link, Protection, Side, pack_end
from .host_link import HostLink
from .measured_modules import TACIT, FromSource, MeasuredModules, TacitFromSource
from .secret_memory import has_secret_memory

_PROGRAM = "enclave_program"  # the name of a program that is a file


@dataclass(frozen=True)
class EnclaveContext:
    """What the program of an enclave gets.

    settings: as the host gave them; the owners know them, because they are measured.
    manifest: what was measured; its digest belongs to keys of sealed memory.
    credentials: the key that the quote binds; owners pin its certificate.
    data: as the host gave them; measured too.
    host: relayed connections, for `transport.connect(hello, host.listen("owners"), addresses,
        dial=host.dial, ...)`.
    """

    settings: Mapping[str, str]
    manifest: Manifest
    credentials: Credentials
    host: HostLink
    data: bytes = b""


def main(descriptor: int, granted: Protection) -> None:
    """Runs the enclave on its one socket; called by the launcher's first line."""
    TacitFromSource().install()
    link = Link(socket.socket(fileno=descriptor), Side.ENCLAVE)
    frame = link.receive()
    if frame.kind is not Kind.START:
        raise ConfigError("the host did not begin with START")
    credentials = create_credentials("enclave")
    end, host = pack_end(""), None
    try:
        config, manifest, size = EnclaveConfig.decode(bytes(frame.body))
        config = config.with_data(_receive_data(link, size))
        _check(config, manifest)

        def quote(nonce: bytes) -> bytes:
            bound = report_data(credentials.certificate, nonce)
            return AttestedKey(
                credentials.certificate, simulated.make_quote(manifest, bound)
            ).encode()

        granted |= Protection.SECRET_MEMORY if has_secret_memory() else Protection(0)
        link.send(Kind.READY, 0, bytes([granted]))
        host = HostLink(link, quote)
        MeasuredModules(config.modules, manifest).install()
        context = EnclaveContext(config.settings, manifest, credentials, host, config.data)
        _load(config)(context)
    except BaseException as error:
        at_fault = error.workers if isinstance(error, WorkerFailed | CheatingDetected) else ()
        end = pack_end(_last_word(error), at_fault)
    wipe(credentials.private_key)
    if host is not None:
        host.finish(end)
    else:
        link.send(Kind.ENDED, 0, end)
    os._exit(0 if end == pack_end("") else 1)


def _last_word(error: BaseException) -> str:
    """Returns what the host may know of an error; which measured file has changed, if one has."""
    word = told_to_peers(error) or "an error"
    return (
        f"{word}: {error.field}" if isinstance(error, AttestationRejected) and error.told else word
    )


def _receive_data(link: Link, size: int) -> bytes:
    """Returns the data of the configuration, which follow it in parts."""
    data = bytearray()
    while len(data) < size:
        frame = link.receive()
        if frame.kind is not Kind.DATA or len(data) + len(frame.body) > size:
            raise ConfigError("the host did not send the data that it announced")
        data += frame.body
    return bytes(data)


def _check(config: EnclaveConfig, measured: Manifest) -> None:
    """Raises AttestationRejected if a file is not what the host has measured before the start."""
    if differing := config.measure().differences(measured):
        raise AttestationRejected(
            f"{differing[0]} was changed after it was measured",
            field=differing[0],
            told="a trusted file was changed after it was measured",
        )


def _load(config: EnclaveConfig) -> Any:
    if not config.is_file:
        if not config.program.startswith(TACIT):
            raise ConfigError(f"{config.program} is no module of Tacit")
        return getattr(import_module(config.program), config.function)
    loader = FromSource(_PROGRAM, config.program)
    spec = spec_from_file_location(_PROGRAM, config.program, loader=loader)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{config.program} is not a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, config.function)
