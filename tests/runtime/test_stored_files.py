"""Stored runs that were changed, cut, swapped or mixed up are refused by name, before any use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.runtime import stored_programs as programs

import tacit
from tacit.errors import PartyFailed, PreprocessingRejected
from tacit.runtime.preprocessing.ledger import Ledger
from tacit.runtime.preprocessing.store import RunHeader, Store

TWO = {"parties": 2, "protocol": "additive"}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    tacit.preprocess(programs.layer, folder=folder, runs=2, **TWO)
    return folder


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """A copy of a folder with two runs."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def files(folder: Path, party: int) -> list[Path]:
    return sorted((folder / f"party{party}").glob("*.run"))


def refusal(folder: Path, **settings: object) -> PartyFailed:
    with pytest.raises(PartyFailed) as error:
        tacit.run(programs.layer, preprocessed=folder, **(TWO | settings))
    assert error.value.kind == "PreprocessingRejected", error.value
    return error.value


def is_unused(folder: Path) -> bool:
    return all(not (folder / f"party{rank}" / "used").exists() for rank in range(2))


@pytest.mark.parametrize("place", [25, -400, -20, -1])
@pytest.mark.parametrize("party", [0, 1])
def test_a_changed_byte_is_refused(folder, party, place):
    path = files(folder, party)[0]
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)
    if place == 25:  # the header cannot be read: the next run is used
        assert len(Store(folder / f"party{party}").inventory().rejected) == 1
        tacit.run(programs.layer, preprocessed=folder, **TWO)
    else:
        assert f"the stored run of party {party}" in refusal(folder).headline
        assert is_unused(folder)


@pytest.mark.parametrize("keep", [0, 10, 40, 0.5, -1])
def test_a_file_cut_short_is_refused(folder, keep):
    path = files(folder, 1)[0]
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep) if isinstance(keep, float) else keep])
    if keep in (0, 10, 40):
        [error] = Store(folder / "party1").inventory().rejected
        assert str(path) in str(error)
    else:
        assert "cut short" in refusal(folder).headline
        assert is_unused(folder)


def test_a_long_file_cut_after_its_start_ends_the_run(tmp_path, monkeypatch):
    """Its first part authenticates the header; the rest is read during the run."""
    monkeypatch.setattr("tacit.nn.encrypted_file.CHUNK", 1024)
    tacit.preprocess(programs.layer, folder=tmp_path, **TWO)
    [path] = files(tmp_path, 1)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    assert "cut short" in refusal(tmp_path).headline
    assert not is_unused(tmp_path)


def test_files_of_another_party_are_refused(folder):
    for mine, theirs in zip(files(folder, 0), files(folder, 1), strict=True):
        mine.write_bytes(theirs.read_bytes())
    assert "party 0 has none, 2 with another party" in refusal(folder).headline
    for path in files(folder, 1):
        path.unlink()
    assert "party 1 has none" in refusal(folder).headline
    assert is_unused(folder)


def test_a_file_under_another_name_is_refused(folder):
    first, second = files(folder, 0)
    second.write_bytes(first.read_bytes())
    assert len(Store(folder / "party0").inventory().rejected) == 1
    first.unlink()
    headline = refusal(folder).headline
    assert "party 0 has none, 1 that cannot be read; party 1 has 2" in headline


def test_a_header_of_another_program_does_not_open(folder):
    """The header is plain: changed so that it fits, it is not that of the body."""
    for party in (0, 1):
        path = files(folder, party)[0]
        path.write_bytes(path.read_bytes().replace(b'"ring": "64"', b'"ring": "32"'))
        files(folder, party)[1].unlink()
    error = refusal(folder, ring=32, fraction_bits=8)
    assert "1 with another" in error.headline  # other fraction bits
    text = b'"fraction_bits": "16"'
    for party in (0, 1):
        path = files(folder, party)[0]
        path.write_bytes(path.read_bytes().replace(text, b'"fraction_bits": "8" '))
    assert (
        "the key is wrong, or it was changed" in refusal(folder, ring=32, fraction_bits=8).headline
    )


@pytest.mark.parametrize("settings", [{"ring": 32, "fraction_bits": 8}, {"guard": True}])
def test_other_settings_are_named(folder, settings):
    assert f"2 with another {next(iter(settings))}" in refusal(folder, **settings).headline
    assert is_unused(folder)


def test_runs_that_one_party_lacks_are_left_out(folder):
    files(folder, 1)[0].unlink()
    tacit.run(programs.layer, preprocessed=folder, **TWO)
    names = [path.stem for path in files(folder, 0)]
    headline = refusal(folder).headline
    assert f"party 0 has 1 ({names[0]}); party 1 has none" in headline


def test_another_key_is_refused(folder):
    (folder / "party0" / "preprocessed.key").write_bytes(bytes(32))
    assert "the key is wrong" in refusal(folder).headline
    (folder / "party0" / "preprocessed.key").chmod(0o644)
    assert "read" in refusal(folder).headline
    (folder / "party0" / "preprocessed.key").unlink()
    assert "is missing" in refusal(folder).headline
    assert is_unused(folder)


def test_a_ledger(tmp_path):
    ledger, again = Ledger(tmp_path), Ledger(tmp_path)
    ledger.add("one")
    with pytest.raises(PreprocessingRejected, match="was used before"):
        again.add("one")
    with (tmp_path / "used").open("ab") as file:
        file.write(b"tw")  # a crash has cut a line
    assert ledger.is_used("two")
    assert not ledger.is_used("three")
    ledger.add("three")
    assert (tmp_path / "used").read_bytes() == b"one\ntw\nthree\n"


def test_a_folder_is_wiped(folder):
    store = Store(folder / "party0")
    (folder / "party0" / f".{files(folder, 0)[0].name}.draft").write_bytes(b"left by a crash")
    reading = store.open(store.inventory().ready[0])
    assert store.wipe() == 3
    assert len(files(folder, 0)) == 1  # a session reads it
    with reading:
        pass
    store.wipe()
    assert not files(folder, 0)
    assert [path.name for path in (folder / "party0").iterdir()] == ["preprocessed.key"]


def test_nothing_left_of_a_file_can_be_read(tmp_path, monkeypatch):
    store, seen = Store(tmp_path), []
    store.write(RunHeader("a-000000", 2, {}), {(0, 2): bytes(range(32))}, [b"frames" * 100])
    path = tmp_path / "a-000000.run"
    unlink = Path.unlink
    monkeypatch.setattr(
        Path, "unlink", lambda p, **o: (seen.append(p.read_bytes()), unlink(p, **o))
    )
    store.wipe()
    assert seen == [bytes(len(seen[0]))]
    assert not path.exists()
