"""The passphrase of a private key: from the environment or a prompt, never an argument."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from ..errors import ConfigError

VARIABLE = "TACIT_PASSPHRASE"


def new_passphrase() -> str:
    """One for a new key."""
    return os.environ.get(VARIABLE) or _prompt("Passphrase for the new key", twice=True)


def passphrase_of(key: Path) -> str | None:
    """That of a key file, or None if it needs none, or is for others to complain about."""
    try:
        encrypted = b"ENCRYPTED" in key.read_bytes()[:100]
    except OSError:
        return None
    if not encrypted:
        return None
    return os.environ.get(VARIABLE) or _prompt(f"Passphrase of {key}", twice=False)


def _prompt(text: str, *, twice: bool) -> str:
    if not sys.stdin.isatty():
        raise ConfigError(
            f"a passphrase is needed and there is no terminal to ask: set {VARIABLE} in the "
            "environment"
        )
    return str(typer.prompt(text, hide_input=True, confirmation_prompt=twice, err=True))
