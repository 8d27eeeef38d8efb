"""What Tacit writes for a party is its user's alone, whatever the umask and whatever was there."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tacit.crypto import make_private_folder, open_private


@pytest.fixture(autouse=True)
def generous():
    """A umask that forbids nothing."""
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("how", ["a", "w"])
def test_a_file_is_private_from_its_first_byte_and_made_so_if_it_was_not(tmp_path, how):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("before\n")
    old.chmod(0o664)
    for path in (new, old):
        with open_private(path, how, encoding="utf-8") as file:
            assert mode(path) == 0o600
            file.write("line\n")
    assert old.read_text() == ("before\nline\n" if how == "a" else "line\n")


def test_a_folder_is_private_and_an_old_one_keeps_its_mode(tmp_path, caplog):
    make_private_folder(tmp_path / "one" / "two")
    assert mode(tmp_path / "one" / "two") == 0o700
    (tmp_path / "wide").mkdir(mode=0o750)
    with ThreadPoolExecutor(8) as parties:
        list(parties.map(make_private_folder, [tmp_path / "wide"] * 8))
    assert mode(tmp_path / "wide") == 0o750
    assert [record.message for record in caplog.records] == [
        f"others than its owner may look into {tmp_path / 'wide'}: chmod 700 it"
    ]
