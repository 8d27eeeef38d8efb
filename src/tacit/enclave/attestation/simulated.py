"""Quotes without hardware: signed by a test key that everybody knows.

They have the form of real quotes, so everything around them can be built and tested. They prove
nothing: whoever runs the machine can read the process and can sign any measurement.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import MutableMapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ...errors import AttestationRejected
from .measurement import Manifest
from .quote import Quote

NAME = "simulated"
WARNING = (
    "the enclave is simulated: its quote is signed by a public test key, and the machine's "
    "administrator can read its memory"
)
_KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"tacit simulated enclave").digest())


class SimulatedLog(logging.LoggerAdapter[logging.Logger]):
    """Tacit's log, in which every line says that the enclave is simulated."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[str, MutableMapping[str, Any]]:
        return f"simulated enclave: {msg}", kwargs


LOG = SimulatedLog(logging.getLogger("tacit"), {})


def make_quote(manifest: Manifest, report_data: bytes) -> Quote:
    """Returns a quote of the test key for an enclave with this manifest."""
    LOG.warning(WARNING)
    evidence = _KEY.sign(_signed(manifest.digest(), report_data))
    return Quote(NAME, manifest, report_data, evidence)


def check(quote: Quote) -> None:
    """Raises AttestationRejected unless the test key has signed the quote."""
    LOG.warning(WARNING)
    try:
        _KEY.public_key().verify(quote.evidence, _signed(quote.measurement, quote.report_data))
    except InvalidSignature:
        raise AttestationRejected(
            "the signature of the simulated quote is wrong: measurement, key or nonce were changed"
        ) from None


def _signed(measurement: bytes, report_data: bytes) -> bytes:
    return b"tacit simulated quote v1" + measurement + report_data
