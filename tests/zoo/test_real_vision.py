"""Trained networks and private training on real pictures; short forms of `benchmarks real`.

Skipped unless the data are in the cache of `benchmarks/real/fetch.py`, or TACIT_REAL=1 lets it get
them.
"""

import os

import pytest
import torch
from benchmarks.real import fetch, trained, training, vision
from benchmarks.real.inference import compare

TWO = {"protocol": "additive", "parties": 2}


@pytest.fixture
def real():
    """Calls a loader of real data where that is allowed; else the test is skipped."""

    def load(folder, loader, *args, **kwargs):
        if not fetch.cached(folder) and os.environ.get("TACIT_REAL") != "1":
            pytest.skip(f"{folder} is not in {fetch.cache()}: TACIT_REAL=1 downloads it")
        try:
            return loader(*args, **kwargs)
        except fetch.Unavailable as missing:
            pytest.skip(str(missing))

    return load


@pytest.mark.parametrize("parties", [{"protocol": "trio"}, TWO], ids=["trio", "additive"])
def test_a_trained_network_names_the_same_classes(real, parties):
    model = real(trained.CIFAR_NETWORK, trained.cifar10_network)
    images, labels = real(vision.CIFAR, vision.cifar10_test)
    outcome = compare(model, images[:20], 10, **parties)
    right = (outcome.plain.argmax(1) == labels[:20]).float().mean()
    assert right >= 0.7  # the conversion of its weights is right: 0.80 of all test pictures
    assert outcome.agreement == 100
    assert outcome.error < 10  # thousandths of the largest output


def test_lenet_learns_as_in_plain(real):
    data = real(vision.FASHION, training.batches, 30)
    ours, plain = training.private(data), training.plain(data)
    assert (ours.losses - plain.losses).abs().max() < 0.01
    assert plain.losses[-1] < plain.losses[0] - 0.1  # it begins to learn


def test_what_cannot_be_had_says_how_to_provide_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fetch.Unavailable, match=r"no apt-get here.*unpack it into .*deb-nothing"):
        fetch.deb("nothing")
    assert list(fetch.cache().iterdir()) == []


def test_a_package_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))

    def fails(_work, out):
        (out / "half").touch()
        raise fetch.Unavailable("broken off")

    with pytest.raises(fetch.Unavailable):
        fetch.provide("package", fails)
    assert not fetch.cached("package")
    whole = fetch.provide("package", lambda _work, out: (out / "file").touch())
    assert [path.name for path in whole.iterdir()] == ["file"]
    assert fetch.provide("package", fails) == whole  # as it is


def test_idx_files_are_read(tmp_path):
    import gzip

    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x02" + b"\0\0\0\x02\0\0\0\x03" + bytes(range(6))))
    assert torch.equal(vision.idx(path), torch.arange(6, dtype=torch.uint8).reshape(2, 3))
