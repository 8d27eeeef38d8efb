"""Builds of Tacit for other machines, which an owner decides to trust.

An owner expects of an enclave what its own installation has. Compiled kernels are made for one
architecture, or for one kind of processor, so an owner with another one names builds: what `tacit
measure --export` has written on a machine that the owner trusts, and that is like the host's. The
owner's own sources, job and settings are expected of every build. What a host says of itself never
counts.
"""

from __future__ import annotations

from pathlib import Path

from ...errors import AttestationRejected, ConfigError
from .measurement import FILE, MAX_MANIFEST_BYTES, VERSION, Manifest, measure

COMPILED = (".so", ".pyd")


def measure_build() -> Manifest:
    """Returns the files and versions of this installation."""
    return measure({})


def read_build(path: str | Path) -> Manifest:
    """Returns the build that a file names; ConfigError unless it is one of the same sources."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            build = Manifest.decode(file.read(MAX_MANIFEST_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read", cause=error.strerror) from error
    except AttestationRejected as error:
        raise _no_build(path, str(error.reason)) from error
    if foreign := [name for name in build.entries if not name.startswith((FILE, VERSION))]:
        raise _no_build(path, f"it has {foreign[0]!a}, which is no file and no version")
    if differing := [name for name in build.differences(measure_build()) if _is_source(name)]:
        raise ConfigError(
            f"{path} is a build of other sources: {differing[0]!a} differs from the file here",
            limit="a build may differ in compiled files and in versions of libraries",
            remedy="export it with the version of Tacit that is installed here",
        )
    return build


def _is_source(name: str) -> bool:
    return name.startswith(FILE) and not name.endswith(COMPILED)


def _no_build(path: Path, cause: str) -> ConfigError:
    return ConfigError(
        f"{path} is no build",
        cause=cause,
        remedy="make it with `tacit measure --export FILE` on a machine like the enclave's",
    )
