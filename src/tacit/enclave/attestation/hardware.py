"""What of a machine's hardware can make evidence for a quote."""

from __future__ import annotations

from pathlib import Path

from .simulated import WARNING

DEVICES = {
    "Intel SGX": "/dev/sgx_enclave",
    "Intel TDX": "/dev/tdx_guest",
    "AMD SEV-SNP": "/dev/sev-guest",
    "AWS Nitro": "/dev/nsm",
}


def enclave_hardware() -> list[str]:
    """Returns the kinds of enclave hardware that this machine shows."""
    return [kind for kind, device in DEVICES.items() if Path(device).exists()]


def enclave_summary() -> str:
    """Returns what an enclave on this machine would be worth, in one sentence."""
    kinds = enclave_hardware()
    found = f"{', '.join(kinds)} found, and not used" if kinds else "no hardware for enclaves"
    return f"{found}; {WARNING}"
