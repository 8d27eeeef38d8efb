"""The check of a quote, as an owner makes it before it talks to an enclave."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import AttestationRejected
from . import sgx_dcap, simulated
from .measurement import Manifest
from .quote import Quote, report_data
from .sgx_dcap import SgxPolicy

BACKENDS = (simulated.NAME, sgx_dcap.NAME)
_MOST_NAMED = 5
_MOST_SHOWN = 80  # characters


def verify(
    quote: Quote,
    expected: Manifest,
    *,
    certificate: bytes,
    nonce: bytes,
    builds: Sequence[Manifest] = (),
    allow_simulated: bool = False,
    sgx: SgxPolicy | None = None,
) -> None:
    """Returns if an enclave that runs exactly `expected` holds the key of this certificate.

    `builds`: of Tacit for other machines, one of which it may run instead; see `read_build`.

    Raises AttestationRejected otherwise, with the names of what differs. `nonce` are 32 fresh bytes
    that this owner has drawn and sent; a quote for another nonce or another key is refused. `sgx`
    says which hardware enclaves are trusted, for a quote of the backend "sgx-dcap".
    """
    _check_evidence(quote, allow_simulated, sgx)
    if quote.report_data != report_data(certificate, nonce):
        raise AttestationRejected(
            "the quote was not made for this nonce and this key",
            cause="it is replayed, or of another enclave",
            field="report data",
        )
    _compare(quote.manifest, [expected, *map(expected.with_build, builds)])


def _check_evidence(quote: Quote, allow_simulated: bool, sgx: SgxPolicy | None) -> None:
    if quote.backend == simulated.NAME:
        if not allow_simulated:
            raise AttestationRejected(
                "the quote is simulated: it is signed by a public test key and proves nothing",
                remedy="use an enclave with hardware, or allow_simulated=True for an experiment",
                field="backend",
            )
        simulated.check(quote)
    elif quote.backend == sgx_dcap.NAME:
        if sgx is None:
            raise AttestationRejected(
                "the quote is of SGX, and no SGX enclave is trusted here",
                remedy="name the MRENCLAVE of the loader in an SgxPolicy",
                field="backend",
            )
        sgx_dcap.check(quote, sgx)
    else:
        raise AttestationRejected(
            f"the backend {quote.backend!r} of the quote has no verifier",
            limit=f"those of {', '.join(BACKENDS)} can be checked",
            field="backend",
        )


def _compare(measured: Manifest, allowed: Sequence[Manifest]) -> None:
    """Raises AttestationRejected that names in what an enclave differs from the most similar."""
    expected = min(allowed, key=lambda one: len(one.differences(measured)))
    differing = expected.differences(measured)
    if not differing:
        return
    shown = ", ".join(_described(name, measured, expected) for name in differing[:_MOST_NAMED])
    more = f" and {len(differing) - _MOST_NAMED} more" if len(differing) > _MOST_NAMED else ""
    raise AttestationRejected(
        f"the enclave is not the expected one; it differs in {shown}{more}",
        remedy="install the expected version there; for a host with another processor, trust a "
        "build that you have measured on a machine like it",
        field=_shown(differing[0]),
    )


def _described(name: str, measured: Manifest, expected: Manifest) -> str:
    there, wanted = (one.entries.get(name) for one in (measured, expected))
    if there is None:
        return f"{name} (missing there)"
    if wanted is None:
        return f"{_shown(name)} (not expected)"
    if name.startswith(("setting ", "version ")):
        return f"{name} ({_shown(there)!r} there, {_shown(wanted)!r} expected)"
    return name


def _shown(text: str) -> str:
    """Returns what a stranger wrote so that it can be printed: short, and on one line."""
    short = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    return short if short.isprintable() else ascii(short)
