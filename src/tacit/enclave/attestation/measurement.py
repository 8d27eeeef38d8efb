"""What an enclave runs: its files, its configuration and its libraries, each with a name.

The enclave process runs the user's program with the whole package, so all of Tacit is trusted and
every file of it is measured. The digest of the manifest is the measurement; a manifest that differs
is refused by the names of its entries.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cryptography.hazmat.backends.openssl import backend as openssl

from ...crypto import Transcript
from ...errors import AttestationRejected

PACKAGE = Path(__file__).parents[2]
# Of the package itself; more than one where sources and kernels lie apart.
FOLDERS = tuple(map(Path, sys.modules[__name__.partition(".")[0]].__path__))
LIBRARIES = ("torch", "numpy", "cryptography")
MEASUREMENT_BYTES = 32
MAX_MANIFEST_BYTES = 1 << 20
FILE, VERSION = "file tacit/", "version "  # how names of the installation begin


@dataclass(frozen=True)
class Manifest:
    """What was measured: names such as "file tacit/config.py" and "version torch", with values.

    The value of a file is its SHA-256 in hex; settings and versions stand there as they are, so a
    setting must not be secret.
    """

    entries: Mapping[str, str]

    def digest(self) -> bytes:
        """Returns the measurement: 32 bytes that bind every name and every value."""
        transcript = Transcript("enclave manifest")
        for name, value in sorted(self.entries.items()):
            transcript.absorb(name, value.encode())
        return transcript.digest()

    def differences(self, other: Manifest) -> list[str]:
        """Returns the names of all entries that the two manifests do not have in common."""
        return sorted(dict(self.entries.items() ^ other.entries.items()))

    def with_build(self, build: Manifest) -> Manifest:
        """Returns this manifest with the files of Tacit and the versions that a build has."""
        own = {k: v for k, v in self.entries.items() if not k.startswith((FILE, VERSION))}
        return Manifest(own | dict(build.entries))

    def encode(self) -> bytes:
        """Returns the one encoding of this manifest: JSON with its names in order."""
        entries = dict(sorted(self.entries.items()))
        return json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Returns the manifest that these bytes encode; AttestationRejected if they encode none."""
        if len(data) > MAX_MANIFEST_BYTES:
            raise AttestationRejected(
                f"a manifest of {len(data)} bytes", limit=f"at most {MAX_MANIFEST_BYTES}"
            )
        try:
            entries = json.loads(data)
            if not isinstance(entries, dict) or not all(
                isinstance(v, str) for v in entries.values()
            ):
                raise ValueError("not an object of texts")
            manifest = cls(entries)
            if manifest.encode() != data:  # also where a name occurs twice
                raise ValueError("not in its one encoding")
        except (ValueError, RecursionError) as error:
            raise AttestationRejected(
                "the manifest is not a JSON object of texts in its one encoding"
            ) from error
        return manifest


def measure(
    settings: Mapping[str, str],
    *,
    programs: Iterable[Path] = (),
    modules: Mapping[str, str] | None = None,
    folders: Sequence[Path] = FOLDERS,
) -> Manifest:
    """Returns the manifest of an enclave that would start now with these settings and programs.

    modules: files of Python modules that the program may import, by their names.
    folders: those that Python finds the modules of Tacit in, the first one first.
    """
    files: dict[str, Path] = {}
    for folder in reversed(folders):
        files |= {FILE + name: path for name, path in _files(folder)}
    files |= {f"program {path.name}": path for path in programs}
    files |= {f"module {name}": Path(path) for name, path in (modules or {}).items()}
    entries = {name: _file_hash(path) for name, path in files.items()}
    entries |= {f"setting {name}": value for name, value in settings.items()}
    return Manifest(entries | {VERSION + name: text for name, text in _versions()})


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields all files but Python's caches, which the enclave does not read."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix(), path


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "machine", f"{platform.system()} {platform.machine()}"
    yield "openssl", openssl.openssl_version_text()
    for name in LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "absent"
