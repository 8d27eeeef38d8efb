"""`tacit measure`: what an enclave would prove of this installation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .errors import reported
from .options import Debug, Json
from .screen import Screen


def measure(
    export: Annotated[
        Path | None, typer.Option("--export", help="Write the build to a file.", metavar="FILE")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the build of Tacit that is installed here.

    An owner accepts an enclave only if it runs the same files and versions as the owner has. If the
    host has another kind of processor, export the build on a machine that you trust and that is
    like the host's, and give the file to `tacit run --trusted-build`.

    Examples:

        tacit measure

        tacit measure --export arm.build
    """
    screen = Screen(json)
    with reported(screen, debug=debug):
        from ..enclave.attestation.builds import measure_build

        build = measure_build()
        if export is not None:
            try:
                export.write_bytes(build.encode())
            except OSError as error:
                raise ConfigError(f"{export} cannot be written", cause=error.strerror) from error
        machine, digest = build.entries["version machine"], build.digest().hex()
        screen.line(f"build for {machine}, {len(build.entries)} files and versions")
        screen.line(f"measurement {digest}" + (f", in {export}" if export else ""))
        screen.document({"machine": machine, "measurement": digest})
