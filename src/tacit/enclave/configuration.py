"""What a host gives an enclave process at its start: all of it is measured, nothing is secret."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .attestation.measurement import Manifest, measure

MAX_DATA_BYTES = 1 << 28
DATA = "main and its arguments"  # the name under which the hash of the data is measured
_FIELDS = ("settings", "program", "function", "modules")


@dataclass(frozen=True, kw_only=True)
class EnclaveConfig:
    """The settings of an enclave, and the program that it runs.

    program: a Python file, or a module of Tacit; `function` of it is called with the
        EnclaveContext.
    modules: the files of further Python modules by their names. The program can import these, its
        libraries and Tacit, and nothing else of the machine.
    data: bytes that the program gets.
    """

    settings: Mapping[str, str]
    program: str
    function: str
    modules: Mapping[str, str] = field(default_factory=dict)
    data: bytes = b""

    def __post_init__(self) -> None:
        if len(self.data) > MAX_DATA_BYTES:
            raise ConfigError(
                f"{DATA} have {len(self.data)} bytes",
                limit=f"an enclave takes {MAX_DATA_BYTES}",
                remedy="let the owner of the data read it in main, and share it",
            )

    @property
    def is_file(self) -> bool:
        """Whether the program is a file, and not a module of Tacit."""
        return self.program.endswith(".py")

    def measure(self) -> Manifest:
        """Returns the manifest of an enclave with this configuration, of the files as they are."""
        settings = {**self.settings, "function": self.function}
        if not self.is_file:
            settings["program"] = self.program
        if self.data:
            settings[DATA] = hashlib.sha256(self.data).hexdigest()
        programs = [Path(self.program)] if self.is_file else []
        return measure(settings, programs=programs, modules=self.modules)

    def encode(self, manifest: Manifest) -> bytes:
        """Returns everything but the data, which follows by itself, and its size."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        more = {"manifest": dict(manifest.entries), "data_bytes": len(self.data)}
        return json.dumps(fields | more).encode()

    @classmethod
    def decode(cls, data: bytes) -> tuple[EnclaveConfig, Manifest, int]:
        """Returns the configuration without data, the host's manifest, and the size of the data."""
        try:
            fields = json.loads(data)
            manifest, size = Manifest(fields.pop("manifest")), fields.pop("data_bytes")
            if set(fields) != {*_FIELDS} or type(size) is not int or size < 0:
                raise ValueError("other fields are needed")
            config = cls(**fields)
            mappings = (manifest.entries, config.settings, config.modules)
            texts = [text for one in mappings for text in one.values()]
            if not all(isinstance(one, str) for one in (config.program, config.function, *texts)):
                raise ValueError("a value is not a text")
            if size > MAX_DATA_BYTES:
                raise ValueError("the data are too large")
            return config, manifest, size
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConfigError("the configuration of the enclave cannot be read") from error

    def with_data(self, data: bytes) -> EnclaveConfig:
        """Returns the same configuration with these data."""
        return replace(self, data=data)
