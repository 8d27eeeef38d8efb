"""The suite `crypten` on small models: answers, cases, and what a row tells."""

from __future__ import annotations

import re

import pytest
import torch
from benchmarks import crypten
from benchmarks.crypten import Case, Setting
from benchmarks.random_weights import initialise
from tests.runtime.pretended_gpu import pretended
from torch import nn

import tacit
from tacit import zoo

__all__ = ["pretended"]

VIT = {"image_size": 32, "patch_size": 16, "depth": 2, "width": 32, "heads": 4, "hidden": 64}
VOCABULARY = 200


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(6))


def small(name: str) -> Case:
    """A case of the suite with a narrow model and small inputs."""
    makers = {
        "Wav2Letter": (lambda: initialise(zoo.wav2letter(width=8, hidden=16), draw(1, 1, 4000)),
                       lambda batch: draw(batch, 1, 4000)),
        "ViT-B/16": (lambda: zoo.VisionTransformer(**VIT, num_classes=5).eval(),
                     lambda batch: draw(batch, 3, 32, 32)),
    }  # fmt: skip
    make, inputs = makers[name]
    return Case(name, make, inputs, 1.0, 1.0, batches=(1, 2))


@pytest.fixture
def small_table(monkeypatch):
    monkeypatch.setattr(crypten, "WORDS", VOCABULARY)
    plain = crypten.table()

    def model() -> nn.Module:
        made = zoo.text_sentiment(words=VOCABULARY)
        made.embedding.weight.data = plain.t().contiguous()
        return made

    return model


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("Wav2Letter", Setting("additive", 3)),
        ("Wav2Letter", Setting("trio", 3)),
        ("ViT-B/16", Setting("additive", 2)),
        ("ViT-B/16", Setting("replicated", 3)),
    ],
)
def test_answers_are_those_of_the_plain_model(name, setting):
    [row] = crypten.rows_of(small(name), setting, (2,))
    assert row.name == f"{name}, batch 2, {setting}"
    assert row.value > 0
    error = float(re.search(r"squared error (\S+)$", row.note)[1])
    assert 0 < error < 1e-5  # forty times below the suite's limit


def test_a_case_with_a_wrong_answer_has_no_figure_and_ends_no_other(monkeypatch, capsys):
    monkeypatch.setattr(crypten, "MOST_ERROR", 0.0)
    monkeypatch.setattr(crypten, "CASES", [small("ViT-B/16"), small("Wav2Letter")])
    assert list(crypten.rows(["trio"])) == []
    said = capsys.readouterr().out
    for name in ("ViT-B/16", "Wav2Letter"):
        assert f"{name}, trio, 3 parties: left out: {name}, batch 1, trio, 3 parties: a nor" in said
    assert said.count(" s in all") == 2


def test_on_a_gpu_two_parties_record_the_call(request, monkeypatch):
    monkeypatch.setattr(tacit, "run", request.getfixturevalue("pretended"))
    [row] = crypten.rows_of(small("Wav2Letter"), crypten.PAIR, (1,))
    assert row.target == 1e-3
    assert "a graph, 62 rounds" in row.note
    assert "replayed 9 times" in row.note


def test_both_paths_of_text_give_the_mean_of_the_rows(small_table):
    want = torch.stack([crypten.table()[row].mean(0) for row in crypten.words(3)])
    torch.testing.assert_close(crypten.word_frequencies(3) @ crypten.table(), want)
    torch.testing.assert_close(crypten.looked_up(3), want)


def test_text_costs_the_vocabulary_or_the_width(small_table):
    secret = Case("text", small_table, crypten.word_frequencies, 0.03, 1.0)
    public = Case("public", lambda: nn.Linear(32, 2), crypten.looked_up, 0.03, 1.0)
    for case, numbers in ((secret, VOCABULARY), (public, 32)):
        rows = crypten.rows_of(case, crypten.PAIR, (1, 4))
        assert len(rows) == 2
        for row in rows:
            assert f"the owner sends {8 * numbers:,} bytes to share a sample" in row.note


def test_text_of_a_hidden_table_costs_its_words(small_table):
    """The second call for a text of eight words: it takes eight more rows, and counts sixteen."""
    hidden = Case("hidden", crypten.TextOfWords, lambda batch: crypten.words(batch)[:, :8], 1, 1,
                  looks_up=True)  # fmt: skip
    [row] = crypten.rows_of(hidden, crypten.PAIR, (1,))
    numbers = 8 * (1 + 32) + 16 + 2 * (32 + 2)  # places and rows, counts, mean, scores
    sent = f"{8 * numbers:,}"
    assert row.note.startswith(f"{sent} bytes a sample sent")
    [received] = re.findall(r"first call receives ([0-9,]+) bytes", row.note)
    assert int(received.replace(",", "")) > 8 * VOCABULARY * 32


def test_cases_are_chosen_by_their_names(monkeypatch):
    ran = []
    monkeypatch.setattr(crypten, "rows_of", lambda *case: ran.append(case) or [])
    list(crypten.rows(["vit-b/16, additive"]))
    assert [(case.name, setting.parties) for case, setting, _ in ran] == [
        ("ViT-B/16", parties) for parties in (2, 3, 4, 8)
    ]
    ran.clear()
    list(crypten.rows())
    assert len(ran) == len(crypten.CASES) * len(crypten.SETTINGS)
    assert [batches for case, one, batches in ran if case.name == "text"] == [
        (1, 32, 128), *[(32,)] * 5
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="moon"):
        list(crypten.rows(["moon", "sun"]))
    ran.clear()
    list(crypten.rows(["Wav2Letter, trio", "text, trio"]))
    assert [case.name for case, *_ in ran] == ["text", "Wav2Letter"]


def test_the_error_is_normalised():
    wanted, found = torch.tensor([3.0, 4.0]), torch.tensor([3.0, 3.0])
    assert crypten.normalised_error(found, wanted) == pytest.approx(1 / 25)
