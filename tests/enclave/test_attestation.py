"""A quote is believed for one measurement, one key and one nonce; all else is refused by name."""

from __future__ import annotations

import base64
import logging
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.crypto import create_credentials
from tacit.enclave.attestation import Manifest, Quote, measure, report_data, simulated, verify
from tacit.enclave.attestation.measurement import FOLDERS
from tacit.errors import AttestationRejected
from tacit.kernels.backend import compiled

SETTINGS = {"budget": "90000000", "owners": "alice bob"}
CERTIFICATE = create_credentials("enclave").certificate
NONCE = bytes(range(32))
MANIFEST = Manifest(
    {"file tacit/config.py": "00" * 32, "setting budget": "90", "version torch": "2"}
)


def quote_of(manifest=MANIFEST, *, certificate=CERTIFICATE, nonce=NONCE):
    return simulated.make_quote(manifest, report_data(certificate, nonce))


def check(quote, expected=MANIFEST, *, certificate=CERTIFICATE, nonce=NONCE, **options):
    options = {"allow_simulated": True} | options
    verify(quote, expected, certificate=certificate, nonce=nonce, **options)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the trusted package, whose files a test may change."""
    copy = tmp_path_factory.mktemp("installed") / "tacit"
    for folder in FOLDERS:
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, copy, ignore=without, dirs_exist_ok=True)
    return copy


def test_the_expected_enclave_is_accepted():
    check(Quote.decode(quote_of().encode()))


def test_everything_that_is_trusted_is_measured(package):
    manifest = measure(SETTINGS, programs=[Path(__file__)])
    assert manifest == measure(SETTINGS, programs=[Path(__file__)])
    assert manifest.differences(measure(SETTINGS, folders=[package])) == [
        f"program {Path(__file__).name}"
    ]
    names = set(manifest.entries)
    sources = {
        f"file tacit/{p.relative_to(f).as_posix()}" for f in FOLDERS for p in f.rglob("*.py")
    }
    assert sources <= names
    assert f"file tacit/kernels/{Path(compiled().__file__).name}" in names
    assert {"setting budget", "setting owners", "version python", "version torch"} <= names
    assert not any("__pycache__" in name for name in names)


@pytest.mark.parametrize("suffix", [".py", ".so"])
def test_one_changed_byte_of_a_file_is_refused_by_name(package, suffix):
    file = next(p for p in sorted(package.rglob(f"*{suffix}")) if p.stat().st_size)
    expected = measure(SETTINGS, folders=[package])
    before = file.read_bytes()
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    quote = quote_of(measure(SETTINGS, folders=[package]))
    file.write_bytes(before)
    name = f"tacit/{file.relative_to(package).as_posix()}"
    with pytest.raises(AttestationRejected, match=name) as caught:
        check(quote, expected)
    assert caught.value.field == f"file {name}"
    check(quote_of(measure(SETTINGS, folders=[package])), expected)


def test_an_added_and_a_removed_file_are_refused_by_name(package):
    expected = measure(SETTINGS, folders=[package])
    added = package / "added.py"
    added.write_text("")
    larger = measure(SETTINGS, folders=[package])
    added.unlink()
    with pytest.raises(AttestationRejected, match=r"tacit/added\.py \(not expected\)"):
        check(quote_of(larger), expected)
    with pytest.raises(AttestationRejected, match=r"tacit/added\.py \(missing there\)"):
        check(quote_of(expected), larger)


@pytest.mark.parametrize("name", ["setting budget", "version torch"])
def test_another_setting_or_version_is_refused_by_name_with_both_values(name):
    other = Manifest(dict(MANIFEST.entries) | {name: "91"})
    value = MANIFEST.entries[name]
    with pytest.raises(
        AttestationRejected, match=f"{name} .'91' there, '{value}' expected"
    ) as caught:
        check(quote_of(other))
    assert caught.value.field == name


def test_many_differences_are_counted():
    other = Manifest({f"setting {i}": "" for i in range(9)})
    with pytest.raises(AttestationRejected, match="and 7 more"):
        check(quote_of(other))


def test_a_simulated_quote_is_refused_unless_it_is_allowed():
    with pytest.raises(AttestationRejected, match="public test key and proves nothing") as caught:
        check(quote_of(), allow_simulated=False)
    assert caught.value.field == "backend"
    assert "allow_simulated=True" in str(caught.value)


def test_every_log_line_says_that_the_enclave_is_simulated(caplog):
    with caplog.at_level(logging.INFO, "tacit"):
        check(quote_of())
        simulated.LOG.info("a line")
    assert len(caplog.messages) == 3
    assert all(line.startswith("simulated enclave: ") for line in caplog.messages)


def test_a_replayed_quote_is_refused():
    old = quote_of()
    with pytest.raises(AttestationRejected, match="not made for this nonce and this key"):
        check(old, nonce=secrets.token_bytes(32))


def test_a_quote_for_another_key_is_refused():
    """The host answers with a genuine quote and a certificate of its own."""
    with pytest.raises(AttestationRejected, match="not made for this nonce and this key"):
        check(quote_of(), certificate=create_credentials("host").certificate)


def test_a_quote_whose_parts_were_exchanged_is_refused():
    quote = quote_of()
    changed = [
        replace(quote, manifest=Manifest({"file x": "00"})),
        replace(quote, report_data=report_data(CERTIFICATE, bytes(32))),
        replace(quote, evidence=quote.evidence[::-1]),
    ]
    for one in changed:
        with pytest.raises(AttestationRejected, match="signature of the simulated quote is wrong"):
            check(one, one.manifest)


def test_an_unknown_backend_is_refused_by_name():
    with pytest.raises(AttestationRejected, match="'sev-snp' of the quote has no verifier"):
        check(replace(quote_of(), backend="sev-snp"))


def test_a_short_nonce_is_refused():
    with pytest.raises(AttestationRejected, match="a nonce of 4 bytes: 32 bytes"):
        report_data(CERTIFICATE, b"abcd")


@draws(200)
@given(st.data())
def test_a_changed_encoding_is_refused_or_is_another_quote(data):
    whole = quote_of().encode()
    kind = data.draw(st.sampled_from(["cut", "longer", "changed"]))
    where = data.draw(st.integers(0, len(whole) - 1))
    if kind == "changed":
        bit = 1 << data.draw(st.integers(0, 7))
        whole = whole[:where] + bytes([whole[where] ^ bit]) + whole[where + 1 :]
    else:
        whole = whole[:where] if kind == "cut" else whole + whole[where:]
    with pytest.raises(AttestationRejected):
        check(Quote.decode(whole))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"a":1}',
        b'{"a":"1","a":"2"}',
        b'{"b":"1","a":"2"}',
        b'{"a": "1"}',
        b"\xff",
        b'{"a":"\\ud800"}',
    ],
)
def test_a_manifest_has_one_encoding(data):
    with pytest.raises(AttestationRejected):
        Manifest.decode(data)
    assert Manifest.decode(b'{"a":"2","b":"1"}') == Manifest({"b": "1", "a": "2"})
    assert base64.b64encode(Manifest({}).digest()) != base64.b64encode(Manifest({"": ""}).digest())
