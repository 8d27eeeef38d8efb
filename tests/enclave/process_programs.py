"""Programs that the tests run in processes with an enclave; the enclave imports this file too."""

from __future__ import annotations

import sys

from tests.enclave.trainings import trained


def training(session):
    """The weights after some steps, in the enclave and in plain, and what this process imported."""
    found, wanted = trained(session)
    return (found - wanted).abs().max().item(), trusted_modules()


def trusted_modules():
    return [name for name in sys.modules if name.startswith("tacit.enclave.trusted")]
