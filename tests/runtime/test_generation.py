"""Hugging Face's decoders with a cache of fixed size: one plan for all positions."""

import pytest
import torch
from tests.runtime.pretended_gpu import pretended, pretended_own
from tests.tiers import spread

import tacit

__all__ = ["pretended", "pretended_own"]

LENGTH, PROMPT, CACHE = 8, 3, 12
WORDS = {"vocab_size": 23, "bos_token_id": 1, "eos_token_id": 2}
TOKENS = torch.tensor([[5, 9, 3, 20, 14, 9, 7, 4]])


def library():
    return pytest.importorskip("transformers", reason="pip install transformers")


def configured(name, attention):
    """A small model of random weights, the same in each call, and its configuration."""
    if name == "gpt2":
        config = library().GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=16, **WORDS)
        make = library().GPT2LMHeadModel
    else:
        sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
        config = library().LlamaConfig(**sizes, **heads, max_position_embeddings=16, **WORDS)
        make = library().LlamaForCausalLM
    config._attn_implementation = attention
    torch.manual_seed(4)
    return make(config).eval(), config


def shared_cache(session, config):
    """A cache of zeros that are secret, of keys and values with 8 numbers for each head."""
    cache = library().StaticCache(config=config, max_cache_len=CACHE)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    cache.early_initialization(1, heads, 8, torch.float32, torch.device("cpu"))
    for layer in cache.layers:
        layer.keys, layer.values = session.share((layer.keys, layer.values), owner=0)
    return cache


class Generator:
    """A decoder that is called with a prompt, then with one token after the other."""

    def __init__(self, session, name, attention):
        model, config = configured(name, attention)
        self.session, self.model = session, session.share(model, owner=0)
        self.cache = shared_cache(session, config)
        self.step = session.repeated(self.logits)

    @torch.no_grad()
    def logits(self, tokens, position):
        given = {"position_ids": position[None], "cache_position": position}
        found = self.model(input_ids=tokens, past_key_values=self.cache, use_cache=True, **given)
        return found.logits[0]

    def tokens(self, start, end):
        return self.session.share(TOKENS[:, start:end], owner=1), torch.arange(start, end)

    def rewind(self):
        """Returns a function that lets the cache be what it is now."""
        secrets = [x for layer in self.cache.layers for x in (layer.keys, layer.values)]
        values = [x.value for x in secrets]
        counts = [layer.cumulative_length.clone() for layer in self.cache.layers]

        def put_back():
            for x, value in zip(secrets, values, strict=True):
                x.write(value)
            for layer, count in zip(self.cache.layers, counts, strict=True):
                layer.cumulative_length.copy_(count)

        return put_back


def generate(session, name, attention):
    """The logits at all positions, and how many calls were replayed."""
    one = Generator(session, name, attention)
    found = [session.reveal(one.step(*one.tokens(0, PROMPT)))]
    for i in range(PROMPT, LENGTH):
        found.append(session.reveal(one.step(*one.tokens(i, i + 1))))
    return torch.cat(found), [made.num_replays for made in one.step.recordings], one.step.summary()


def check(results, name, attention):
    with torch.no_grad():
        wanted = configured(name, attention)[0](input_ids=TOKENS).logits[0]
    for found, num_replays, told in results:
        torch.testing.assert_close(found, wanted, atol=5e-3, rtol=0)
        assert sum(num_replays) >= 1, told


@pytest.mark.parametrize(("name", "attention"), [("llama", "sdpa"), ("gpt2", "eager")])
def test_a_decoder_with_a_fixed_cache_is_replayed_at_every_position(name, attention):
    check(tacit.run(generate, name, attention), name, attention)


@pytest.mark.full("the same in threads")
def test_a_decoder_is_replayed_in_processes():
    check(tacit.run(generate, "gpt2", "sdpa", transport="processes"), "gpt2", "sdpa")


@pytest.mark.full("the same on CPUs")
@pytest.mark.parametrize("gpu", ["pretended", "pretended_own"])
def test_a_decoder_is_replayed_on_a_gpu_that_is_pretended(gpu, request):
    check(request.getfixturevalue(gpu)(generate, "gpt2", "eager"), "gpt2", "eager")


def compared(session, attention):
    """How far replays are from calls with the same cache, by position, and how many there were.

    Both round by themselves: a plan divides what it writes to the cache at once, a call when it is
    read.
    """
    one = Generator(session, "gpt2", attention)
    errors = []
    for i in range(LENGTH):
        given, put_back = one.tokens(i, i + 1), one.rewind()
        replayed = session.reveal(one.step(*given))
        put_back()
        errors.append(float((session.reveal(one.logits(*given)) - replayed).abs().max()))
    [recording] = one.step.recordings
    return errors, recording.num_replays


@pytest.mark.parametrize("attention", spread(["eager", "sdpa"], quick=1))
def test_a_replayed_decoder_computes_what_the_decoder_does(attention):
    for errors, num_replays in tacit.run(compared, attention):
        assert max(errors) <= 16 * 2**-16, errors
        assert num_replays == LENGTH - 4
