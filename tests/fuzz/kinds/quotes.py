"""What a host answers to an owner who asks for a quote: a certificate, a quote, its evidence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.enclave.sgx_quotes import MR_ENCLAVE, SAMPLE, SAMPLE_TIME, Processor
from tests.runtime.party_files import credentials

from tacit.enclave.attestation import Manifest, Quote, SgxPolicy, report_data, simulated, verify
from tacit.enclave.attestation.request import AttestedKey
from tacit.enclave.attestation.sgx_dcap import INTEL_ROOT_KEY, read_report

from ..attempts import Case, plant
from ..mutate import mutations

NONCE = bytes(32)
EXPECTED = Manifest(
    {"file tacit/config.py": "00" * 32, "setting budget": "90", "version torch": "2"}
)
ODD = {
    "a line break": {"setting a\nb": "c"},
    "a long name": {"x" * 500_000: ""},
    "a long value": {"setting budget": "9" * 500_000},
    "control characters": {"setting budget": "\x1b[2J\x07"},
    "many names": {str(number): "" for number in range(20_000)},
    "nothing": {},
}


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    own = credentials("alice")
    plant("the private key", own.private_key.split(b"\n")[1])
    bound = report_data(own.certificate, NONCE)
    logging.getLogger("tacit").setLevel(logging.ERROR)
    processor = Processor()
    policy = SgxPolicy(frozenset([MR_ENCLAVE]), root_key=processor.root_key)
    evidence = processor.quote(bound + EXPECTED.digest())

    def answer(data: bytes) -> None:
        given = AttestedKey.decode(data)
        verify(
            given.quote,
            EXPECTED,
            certificate=given.certificate,
            nonce=NONCE,
            allow_simulated=True,
            sgx=policy,
        )

    def of(quote: Quote) -> bytes:
        return AttestedKey(own.certificate, quote).encode()

    valid = (
        of(simulated.make_quote(EXPECTED, bound)),
        of(Quote("sgx-dcap", EXPECTED, bound, evidence)),
    )
    yield Case("valid", lambda: [answer(one) for one in valid])
    for what, entries in ODD.items():
        manifest = Manifest(dict(EXPECTED.entries) | entries if entries else {})
        data = of(simulated.make_quote(manifest, bound))
        yield Case(what, lambda d=data: answer(d), hostile=True)
    for bomb in (
        b"[" * 900_000,
        b"9" * 900_000,
        b'{"a":"\\ud800"}',
        b'{"a":' * 100_000,
        b"[[]," * 200_000,
    ):
        yield Case("a manifest of nests", lambda b=bomb: Manifest.decode(b), hostile=True)
    for start in valid:
        for what, data in mutations(start, seed=random.randrange(1 << 30), count=count):
            yield Case(what, lambda d=data: answer(d))
    for what, data in mutations(SAMPLE, seed=random.randrange(1 << 30), count=count):
        yield Case(
            f"{what} of a real quote",
            lambda d=data: read_report(d, root_key=INTEL_ROOT_KEY, at=SAMPLE_TIME),
            names="SGX quote",
        )
