"""Quotes of Intel SGX: a public one of a real processor, and our own with one thing wrong each."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.enclave.sgx_quotes import (
    MR_ENCLAVE,
    SAMPLE,
    SAMPLE_ENCLAVE,
    SAMPLE_SIGNER,
    SAMPLE_TIME,
    Processor,
)
from tests.enclave.test_attestation import CERTIFICATE, MANIFEST, NONCE
from tests.tiers import draws

from tacit.enclave.attestation import Quote, SgxPolicy, report_data, verify
from tacit.enclave.attestation.sgx_dcap import INTEL_ROOT_KEY, read_report
from tacit.errors import AttestationRejected

BOUND = report_data(CERTIFICATE, NONCE)


def check(evidence, root_key, *, enclaves=(MR_ENCLAVE,), at=None, manifest=MANIFEST):
    policy = SgxPolicy(frozenset(enclaves), root_key=root_key, at=at)
    quote = Quote("sgx-dcap", manifest, BOUND, evidence)
    verify(quote, manifest, certificate=CERTIFICATE, nonce=NONCE, sgx=policy)


def test_a_quote_of_a_real_processor_is_read():
    report = read_report(SAMPLE, root_key=INTEL_ROOT_KEY, at=SAMPLE_TIME)
    assert report.mr_enclave.hex() == SAMPLE_ENCLAVE
    assert report.mr_signer.hex() == SAMPLE_SIGNER
    assert report.data == bytes.fromhex("0130fd34a0e3139da00ce0a9b845cb3ccf039b1bf7").ljust(
        64, b"\0"
    )


def test_a_quote_of_a_real_processor_for_somebody_else_is_refused():
    enclaves = [bytes.fromhex(SAMPLE_ENCLAVE)]
    with pytest.raises(AttestationRejected, match="another measurement, key or nonce"):
        check(SAMPLE, INTEL_ROOT_KEY, enclaves=enclaves, at=SAMPLE_TIME)
    with pytest.raises(AttestationRejected, match=f"MRENCLAVE {SAMPLE_ENCLAVE}"):
        check(SAMPLE, INTEL_ROOT_KEY, at=SAMPLE_TIME)


@draws(400)
@given(st.integers(0, 8 * len(SAMPLE) - 1))
def test_every_bit_of_a_real_quote_counts(bit):
    """Except where the PEM text around the certificates says the same with other characters."""
    changed = bytearray(SAMPLE)
    changed[bit // 8] ^= 1 << bit % 8
    try:
        report = read_report(bytes(changed), root_key=INTEL_ROOT_KEY, at=SAMPLE_TIME)
    except AttestationRejected:
        return
    assert bit // 8 >= SAMPLE.index(b"-----BEGIN")
    assert report == read_report(SAMPLE, root_key=INTEL_ROOT_KEY, at=SAMPLE_TIME)


@draws(50)
@given(st.integers(0, len(SAMPLE) - 1))
def test_a_real_quote_that_is_cut_short_is_refused(size):
    with pytest.raises(AttestationRejected):
        read_report(SAMPLE[:size], root_key=INTEL_ROOT_KEY, at=SAMPLE_TIME)


def test_a_real_quote_is_refused_outside_the_time_of_its_certificates():
    with pytest.raises(AttestationRejected, match="not valid at this time"):
        read_report(SAMPLE, root_key=INTEL_ROOT_KEY, at=datetime(2032, 1, 1, tzinfo=UTC))


def test_an_sgx_enclave_with_the_expected_manifest_is_accepted():
    processor = Processor()
    check(processor.quote(BOUND + MANIFEST.digest()), processor.root_key)


def test_a_quote_for_another_measurement_is_refused():
    processor = Processor()
    evidence = processor.quote(BOUND + hashlib.sha256(b"other").digest())
    with pytest.raises(AttestationRejected, match="another measurement, key or nonce"):
        check(evidence, processor.root_key)


def test_without_a_policy_sgx_is_refused():
    quote = Quote("sgx-dcap", MANIFEST, BOUND, SAMPLE)
    with pytest.raises(AttestationRejected, match="no SGX enclave is trusted here"):
        verify(quote, MANIFEST, certificate=CERTIFICATE, nonce=NONCE)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"version": 4}, "not version 3"),
        ({"vendor": bytes(16)}, "not Intel's"),
        ({"attributes": 7}, "debug enclave"),
        ({"quoting_signer": bytes(32)}, "another signer"),
        ({"quoting_product": 2}, "another product"),
        ({"quoting_attributes": 0x17}, "in debug mode"),
        ({"certified": False}, "not certified"),
        ({"issuer_is_authority": False}, "no authority"),
        ({"days": -1}, "not valid at this time"),
        ({"forged": "root"}, "certificate with a bad signature"),
        ({"forged": "issuer"}, "certificate with a bad signature"),
        ({"forged": "pck"}, "signature of the quoting enclave"),
        ({"forged": "attestation"}, "signature of the report"),
    ],
)
def test_one_wrong_thing_is_refused_by_name(wrong, reason):
    processor = Processor(**wrong)
    with pytest.raises(AttestationRejected, match=reason):
        check(processor.quote(BOUND + MANIFEST.digest()), processor.root_key)


def test_a_chain_of_another_root_is_refused():
    processor = Processor()
    with pytest.raises(AttestationRejected, match="another root than Intel's"):
        check(processor.quote(BOUND + MANIFEST.digest()), INTEL_ROOT_KEY)


def test_a_quote_with_the_evidence_of_another_backend_is_refused():
    quote = Quote("simulated", MANIFEST, BOUND, SAMPLE)
    with pytest.raises(AttestationRejected):
        verify(quote, MANIFEST, certificate=CERTIFICATE, nonce=NONCE, allow_simulated=True)
    with pytest.raises(AttestationRejected, match="cut short"):
        check(replace(quote, evidence=bytes(64)).evidence, INTEL_ROOT_KEY)
