"""What a host gives an enclave process at its start: all of it is measured, nothing is secret."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError
from .attestation.measurement import Manifest, measure


@dataclass(frozen=True, kw_only=True)
class EnclaveConfig:
    """The settings of an enclave, and the program that it runs.

    program: a Python file; `function` of it is called with the EnclaveContext.
    """

    settings: dict[str, str]
    program: str
    function: str

    def measure(self) -> Manifest:
        """Returns the manifest of an enclave with this configuration, of the files as they are."""
        return measure(self.settings | {"function": self.function}, programs=[Path(self.program)])

    def encode(self, manifest: Manifest) -> bytes:
        fields = {
            "settings": self.settings,
            "program": self.program,
            "function": self.function,
            "manifest": dict(manifest.entries),
        }
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes) -> tuple[EnclaveConfig, Manifest]:
        """Returns the configuration and the manifest that the host has measured."""
        try:
            fields = json.loads(data)
            manifest = Manifest(fields.pop("manifest"))
            config = cls(**fields)
            texts = [*manifest.entries.values(), *config.settings.values()]
            if not all(isinstance(one, str) for one in (config.program, config.function, *texts)):
                raise ValueError("a value is not a text")
            return config, manifest
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConfigError("the configuration of the enclave cannot be read") from error
