"""The zoo: shapes, published numbers of parameters, names of the published state dicts."""

import pytest
import torch
from torch import nn

from tacit import zoo
from tacit.errors import ConfigError


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def build(maker, *args, **kwargs):
    with torch.device("meta"):
        return maker(*args, **kwargs).eval()


PUBLISHED = [
    (zoo.alexnet, 61_100_840),
    (zoo.vgg11, 132_863_336),
    (zoo.vgg16, 138_357_544),
    (zoo.resnet18, 11_689_512),
    (zoo.resnet34, 21_797_672),
    (zoo.resnet50, 25_557_032),
    (zoo.resnet101, 44_549_160),
    (zoo.resnet152, 60_192_808),
    (zoo.vit_b_16, 86_567_656),
]


@pytest.mark.parametrize(
    ("maker", "parameters"), PUBLISHED, ids=lambda x: getattr(x, "__name__", "")
)
def test_image_models_have_the_published_size(maker, parameters):
    model = build(maker)
    assert count(model) == parameters
    assert model(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, 1000)


KEYS = {
    zoo.alexnet: {
        "features.0.weight": (64, 3, 11, 11),
        "features.3.bias": (192,),
        "features.10.weight": (256, 256, 3, 3),
        "classifier.1.weight": (4096, 9216),
        "classifier.6.bias": (1000,),
    },
    zoo.vgg11: {"features.18.weight": (512, 512, 3, 3), "classifier.0.weight": (4096, 25088)},
    zoo.vgg16: {
        "features.0.weight": (64, 3, 3, 3),
        "features.28.weight": (512, 512, 3, 3),
        "classifier.3.weight": (4096, 4096),
        "classifier.6.weight": (1000, 4096),
    },
    zoo.resnet18: {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.num_batches_tracked": (),
        "layer1.0.conv1.weight": (64, 64, 3, 3),
        "layer2.0.downsample.0.weight": (128, 64, 1, 1),
        "layer4.1.bn2.running_var": (512,),
        "fc.weight": (1000, 512),
    },
    zoo.resnet50: {
        "layer1.0.downsample.1.running_mean": (256,),
        "layer3.5.conv2.weight": (256, 256, 3, 3),
        "layer4.2.bn3.bias": (2048,),
        "fc.weight": (1000, 2048),
    },
    zoo.vit_b_16: {
        "class_token": (1, 1, 768),
        "conv_proj.weight": (768, 3, 16, 16),
        "encoder.pos_embedding": (1, 197, 768),
        "encoder.layers.encoder_layer_0.ln_1.weight": (768,),
        "encoder.layers.encoder_layer_11.self_attention.in_proj_weight": (2304, 768),
        "encoder.layers.encoder_layer_11.self_attention.out_proj.bias": (768,),
        "encoder.layers.encoder_layer_3.mlp.0.weight": (3072, 768),
        "encoder.layers.encoder_layer_3.mlp.3.weight": (768, 3072),
        "encoder.ln.bias": (768,),
        "heads.head.weight": (1000, 768),
    },
}
# How many entries torchvision's state dicts have.
ENTRIES = {
    zoo.alexnet: 16, zoo.vgg11: 22, zoo.vgg16: 32, zoo.resnet18: 122, zoo.resnet50: 320,
    zoo.vit_b_16: 152,
}  # fmt: skip


@pytest.mark.parametrize("maker", KEYS, ids=lambda maker: maker.__name__)
def test_names_are_those_of_torchvision(maker):
    state = build(maker).state_dict()
    assert len(state) == ENTRIES[maker]
    assert {key: tuple(state[key].shape) for key in KEYS[maker]} == KEYS[maker]


@pytest.mark.parametrize("pool", ["avg", "max"])
@pytest.mark.parametrize("data", ["cifar10", "tiny_imagenet", "imagenet"])
def test_the_forms_of_the_papers(data, pool):
    side, classes = {"cifar10": (32, 10), "tiny_imagenet": (64, 200), "imagenet": (224, 1000)}[data]
    x = torch.empty(1, 3, side, side, device="meta")
    kind = nn.AvgPool2d if pool == "avg" else nn.MaxPool2d
    for model in (
        build(zoo.small_alexnet, data, pool=pool),
        build(zoo.small_vgg, 11, data, pool=pool),
        build(zoo.small_vgg, 16, data, pool=pool),
    ):
        assert model(x).shape == (1, classes)
        assert any(isinstance(part, kind) for part in model.modules())


def test_sizes_of_the_small_forms():
    convolutions = [(3, 96, 11), (96, 256, 5), (256, 384, 3), (384, 384, 3), (384, 256, 3)]
    weights = sum(i * o * k * k + o for i, o, k in convolutions)
    assert count(build(zoo.small_alexnet)) == weights + 2 * 256 * 257 + 2570
    assert count(build(zoo.small_vgg)) == 14_714_688 + 512 * 256 + 256 + 256 * 257 + 2570
    assert count(build(zoo.lenet)) == 431_080
    assert count(build(zoo.lenet5)) == 61_706


@pytest.mark.parametrize("maker", [zoo.lenet, zoo.lenet5])
@pytest.mark.parametrize("pool", ["avg", "max"])
def test_lenet(maker, pool):
    assert maker(pool=pool)(torch.randn(2, 1, 28, 28)).shape == (2, 10)


def test_wav2letter():
    model = build(zoo.wav2letter)
    assert model(torch.empty(1, 1, 16000, device="meta")).shape[:2] == (1, 29)
    assert model.state_dict()["acoustic_model.1.16.weight"].shape == (2000, 250, 32)
    layers = [(1, 250, 250), (250, 250, 48), *[(250, 250, 7)] * 7, (250, 2000, 32)]
    layers += [(2000, 2000, 1), (2000, 29, 1)]
    assert count(model) == sum(i * o * k + o for i, o, k in layers)


def test_bert_has_the_size_and_names_of_the_base_model():
    model = build(zoo.bert)
    assert count(model) == 109_482_240
    keys = model.state_dict().keys()
    for key in (
        "embeddings.word_embeddings.weight",
        "embeddings.LayerNorm.weight",
        "encoder.layer.0.attention.self.query.weight",
        "encoder.layer.11.attention.output.LayerNorm.bias",
        "encoder.layer.5.intermediate.dense.weight",
        "encoder.layer.5.output.dense.bias",
        "pooler.dense.weight",
    ):
        assert key in keys


def test_bert_agrees_with_the_published_implementation():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=32, max_position_embeddings=20,
    )  # fmt: skip
    want = transformers.BertModel(config).eval()
    model = zoo.bert(words=50, positions=20, depth=2, width=16, heads=4, hidden=32).eval()
    model.load_state_dict(want.state_dict())
    ids, kinds = torch.arange(12).reshape(2, 6), torch.tensor([[0, 0, 0, 1, 1, 1]] * 2)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    with torch.no_grad():
        expected = want(ids, attention_mask=mask, token_type_ids=kinds)
        tokens, pooled = model(ids, mask, kinds)
    torch.testing.assert_close(tokens[mask == 1], expected.last_hidden_state[mask == 1])
    torch.testing.assert_close(pooled, expected.pooler_output)


def test_gpt2_agrees_with_the_published_implementation():
    assert count(build(zoo.gpt2)) == 124_439_808
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=20)
    want = transformers.GPT2LMHeadModel(config).eval()
    model = zoo.gpt2(words=50, positions=20, depth=2, width=16, heads=4).eval()
    dense = ("c_attn.weight", "c_fc.weight", "c_proj.weight")
    weights = want.transformer.state_dict()
    model.load_state_dict({k: w.t() if k.endswith(dense) else w for k, w in weights.items()})
    ids = torch.arange(12).reshape(2, 6)
    with torch.no_grad():
        torch.testing.assert_close(model(ids), want(ids).logits)


def test_text_sentiment():
    model = build(zoo.text_sentiment)
    assert model.embedding.weight.shape == (32, 519_820)
    assert model(torch.empty(3, 519_820, device="meta")).shape == (3, 2)


def test_regressions_and_dense_networks():
    x = torch.randn(5, 7)
    assert zoo.linear_regression(7)(x).shape == (5, 1)
    assert zoo.logistic_regression(7)(x).shape == (5, 1)
    assert zoo.logistic_regression(7, 3)(x).shape == (5, 3)
    assert zoo.mlp(7, 16, 8, 2)(x).shape == (5, 2)
    assert count(zoo.mlp(784, 128, 10)) == 101_770


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="'avg', 'max'"):
        zoo.lenet(pool="mean")
    with pytest.raises(ConfigError, match="tiny_imagenet"):
        zoo.small_vgg(16, "mnist")
