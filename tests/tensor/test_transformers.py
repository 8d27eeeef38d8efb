"""Hugging Face's models, unmodified, on secrets: as the plain run, to one in a hundred."""

import copy

import pytest
import torch

import tacit


def library():
    """The package, which takes seconds to import: not in processes that do not need it."""
    return pytest.importorskip("transformers", reason="pip install transformers")


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {**SIZES, "vocab_size": 50, "intermediate_size": 64, "max_position_embeddings": 16}


def bert():
    return library().BertModel(library().BertConfig(**TEXT))


def gpt2():
    config = library().GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=4)
    return library().GPT2LMHeadModel(config)


def vit():
    config = library().ViTConfig(**SIZES, intermediate_size=64, image_size=16, patch_size=4)
    return library().ViTModel(config)


def tokens():
    return {"input_ids": torch.randint(0, 50, (2, 7))}


def masked_tokens():
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    return {"input_ids": torch.randint(0, 50, (2, 7)), "attention_mask": mask}


def embeddings():
    return {"inputs_embeds": torch.randn(2, 7, 32)}


def pictures():
    return {"pixel_values": torch.randn(2, 3, 16, 16)}


CASES = [
    (bert, tokens),
    (bert, masked_tokens),
    (bert, embeddings),
    (gpt2, tokens),
    (gpt2, masked_tokens),
    (gpt2, embeddings),
    (vit, pictures),
]


def outputs(model, values):
    """The tensors that users of these models read."""
    with torch.no_grad():
        out = model(**values)
    names = ("last_hidden_state", "pooler_output", "logits")
    return [out[name] for name in names if name in out]


def secret_run(model, values, **options):
    """The outputs of the model and its floating inputs, shared by their owners."""

    def main(session):
        own = session.share(copy.deepcopy(model), owner=0)
        given = {
            name: session.share(x, owner=session.parties - 1) if x.is_floating_point() else x
            for name, x in values.items()
        }
        return session.reveal(outputs(own, given))

    return tacit.run(main, **options)[0]


def agree(got, want):
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.shape == theirs.shape
        assert (mine - theirs).abs().max() <= 1e-2 * theirs.abs().max()


@pytest.mark.parametrize(("make", "values"), CASES)
def test_as_the_plain_run(make, values):
    torch.manual_seed(3)
    model, inputs = make().eval(), values()
    got = secret_run(model, inputs, parties=1, protocol="cleartext")
    agree(got, outputs(model, inputs))


@pytest.mark.parametrize(("make", "values"), [(bert, tokens), (gpt2, embeddings), (vit, pictures)])
def test_three_parties(make, values):
    torch.manual_seed(4)
    model, inputs = make().eval(), values()
    agree(secret_run(model, inputs, deadline=120.0), outputs(model, inputs))


@pytest.mark.full("tests/runtime/test_plans.py")
def test_an_encoder_can_be_replayed():
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {"vocab_size": 9, "intermediate_size": 8, "max_position_embeddings": 4}
    torch.manual_seed(0)
    model = library().BertModel(library().BertConfig(**sizes, **text)).eval()
    xs = torch.randn(4, 1, 3, 8)
    with torch.no_grad():
        want = torch.stack([model(inputs_embeds=x).last_hidden_state for x in xs])

    def main(session):
        shared = session.share(copy.deepcopy(model), owner=0)
        function = session.repeated(lambda x: shared(inputs_embeds=x).last_hidden_state.detach())
        found = [session.reveal(function(session.share(x, owner=1))) for x in xs]
        return torch.stack(found), [one.num_replays for one in function.recordings]

    for found, replays in tacit.run(main):
        torch.testing.assert_close(found, want, atol=0.05, rtol=0.05)
        assert replays == [1]
