"""The patterns that ordinary networks are made of, on secrets, beside plain torch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from tests.tensor.comparison import check, on_secrets, tensor
from tests.tensor.module_comparison import Call, agree
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import tacit

ROWS, OTHERS = tensor(4, 6), tensor(4, 6, seed=1)
WORDS, IMAGE = tensor(2, 5, 8), tensor(2, 4, 8, 8)
PLACES = torch.tensor([0, 2, 2, 3, 1])


def rms(x: Tensor) -> Tensor:
    """As language models write it."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def by_hand(x: Tensor) -> Tensor:
    """A layer norm as older models write it."""
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x - mean).pow(2).mean(-1, keepdim=True) + 1e-7)


def standard(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize(
    ("norm", "scale"),
    [
        *((norm, scale) for norm in (rms, standard, F.normalize) for scale in (0.02, 1.0, 100.0)),
        *((by_hand, scale) for scale in (0.02, 1.0, 10.0)),  # its gradient by a root is a quotient
    ],
)
@pytest.mark.parametrize("size", [6, 8])
def test_norms_by_hand(norm: Callable[[Tensor], Tensor], scale: float, size: int) -> None:
    def program(x: Tensor) -> Tensor:
        y = norm(x)
        y.backward(tensor(4, size, seed=2).to(y.dtype))
        return torch.stack([y, x.grad * scale])  # type: ignore[operator]

    x = tensor(4, size, scale=scale).requires_grad_()
    check(program, x, absolute=8e-3)


def test_powers_and_means_that_are_no_norms() -> None:
    def program(x: Tensor) -> list[Tensor]:
        square, mean = x * x, (x**2).mean(1)
        inverse = (mean + 0.5).rsqrt()
        cube = inverse**3
        parts = [square, mean, inverse, inverse * 2, cube, cube / 4, inverse + mean, x.var(0)]
        return [*parts, mean.sqrt(), x.std(), mean * mean, square.sum(), inverse.expand(2, 4)]

    check(program, ROWS, absolute=2e-3)


class Grouped(nn.Module):
    """Rotary attention with fewer keys than queries, and a gated layer behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys = nn.Linear(8, 8), nn.Linear(8, 8)
        self.up, self.norm = nn.Linear(8, 12), nn.RMSNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        given = self.norm(x)
        query = self._turned(self._heads(self.queries(given), 4))
        key, value = self._heads(self.keys(given), 4).chunk(2, 1)
        mixed = F.scaled_dot_product_attention(
            query, self._turned(key), value, is_causal=True, enable_gqa=True
        )
        x = x + mixed.transpose(1, 2).flatten(2)
        gate, up = self.up(self.norm(x)).chunk(2, -1)
        return F.silu(gate) * up

    def _heads(self, x: Tensor, count: int) -> Tensor:
        return x.unflatten(-1, (count, -1)).transpose(1, 2)

    def _turned(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[-2])[:, None] * torch.tensor([1.0, 1.0])
        first, second = x.chunk(2, -1)
        return x * angle.cos().to(x.dtype) + torch.cat((-second, first), -1) * angle.sin().to(
            x.dtype
        )


class Squeeze(nn.Module):
    """Depthwise convolution, squeeze and excitation, and a head over what is made larger."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.point = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 4, 1)
        self.down, self.norm = nn.Conv2d(4, 4, 2, 2), nn.BatchNorm2d(4)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.norm(self.depth(x)))
        x = x * F.hardsigmoid(self.point(F.adaptive_avg_pool2d(x, 1)))
        low = F.relu(self.down(x), inplace=True)
        wide = F.interpolate(low, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return self.head(torch.cat([x, wide], 1))


class Windows(nn.Module):
    """Attention within shifted windows, and a mean over what is stored channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(tensor(2, 16, 16, scale=0.1))
        self.qkv = nn.Linear(4, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.roll(x.permute(0, 2, 3, 1), (-2, -2), (1, 2))
        parts = x.view(2, 2, 4, 2, 4, 4).transpose(2, 3).reshape(-1, 16, 4)
        q, k, v = self.qkv(parts).view(-1, 16, 3, 2, 2).permute(2, 0, 3, 1, 4)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) + self.bias
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, 4)
        whole = mixed.view(2, 2, 2, 4, 4, 4).transpose(2, 3).reshape(2, 8, 8, 4)
        return F.adaptive_avg_pool2d(whole.permute(0, 3, 1, 2), 1).flatten(1)


class Factors(nn.Module):
    """A factorisation machine over fields, and bags of words."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.words = nn.Embedding(6, 3), nn.EmbeddingBag(6, 3, mode="mean")
        self.head = nn.Linear(3, 1)

    def forward(self) -> Tensor:
        rows = self.table(PLACES.view(1, 5).repeat(2, 1))
        pairs = 0.5 * (rows.sum(1).pow(2) - rows.pow(2).sum(1))
        return self.head(pairs + self.words(PLACES, torch.tensor([0, 2])))


def linear_attention(x: Tensor) -> Tensor:
    features = F.elu(x) + 1
    context = torch.einsum("bkd,bke->bde", features, x)
    return torch.einsum("bqd,bde->bqe", features, context) / (features @ features.sum(1)[..., None])


def graph(x: Tensor, y: Tensor) -> Tensor:
    """A graph convolution over a secret adjacency."""
    edges = torch.sigmoid(y @ y.T)
    degree = edges.sum(1).pow(-0.5)
    return F.relu((degree[:, None] * edges * degree) @ x)


def variational(x: Tensor, y: Tensor) -> Tensor:
    sample = x + torch.exp(0.5 * y) * OTHERS.to(x.dtype)
    return F.mse_loss(sample, x) - 0.5 * torch.sum(1 + y - x.pow(2) - y.exp())


def kernels(x: Tensor, y: Tensor) -> Tensor:
    return torch.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / 8)


def masked(x: Tensor, mask: Tensor) -> Tensor:
    heads = x.unsqueeze(1)
    return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask.unsqueeze(1))


def dilated() -> nn.Module:
    layers = [parametrizations.weight_norm(nn.Conv1d(5, 5, 2, dilation=d)) for d in (1, 2)]
    return nn.Sequential(*layers, nn.PReLU())


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "grouped queries": (Grouped, (WORDS,)),
    "squeeze and excitation": (Squeeze, (IMAGE,)),
    "windows": (Windows, (IMAGE,)),
    "factors and bags": (Factors, ()),
    "weight norm, dilated": (dilated, (WORDS,)),
    "linear attention": (lambda: Call(linear_attention), (WORDS,)),
    "graph": (lambda: Call(graph), (ROWS, OTHERS)),
    "variational": (lambda: Call(variational), (ROWS, OTHERS)),
    "kernels": (lambda: Call(kernels), (ROWS, OTHERS)),
    "secret mask": (lambda: Call(masked), (WORDS, tensor(2, 5, 5))),
    "norm of order 3": (lambda: Call(lambda x: x.norm(p=3, dim=1)), (ROWS,)),
    "distance of order 1.5": (
        lambda: Call(lambda x, y: F.pairwise_distance(x, y, 1.5)),
        (ROWS, OTHERS),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_as_plain(name: str) -> None:
    torch.manual_seed(5)
    make, inputs = CASES[name]
    agree(make(), *inputs)


@pytest.mark.parametrize("name", ["grouped queries", "windows", "weight norm, dilated"])
def test_three_parties(name: str) -> None:
    torch.manual_seed(6)
    make, inputs = CASES[name]
    agree(make(), *inputs, protocol="trio")


def test_inference_mode() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    def main(session: tacit.Session) -> Tensor:
        own, words = session.share(copy.deepcopy(encoder), owner=0), session.share(WORDS, owner=0)
        with torch.inference_mode():
            made = own(words.transpose(0, 1).transpose(0, 1), src_key_padding_mask=padding)
            return session.reveal(made[~padding])

    [got] = tacit.run(main, protocol="cleartext", parties=1)
    want = encoder(WORDS, src_key_padding_mask=padding)[~padding].detach()
    torch.testing.assert_close(got, want, atol=1e-2, rtol=1e-2)


def test_first_step_of_nadam() -> None:
    def program(x: Tensor) -> Tensor:
        weight = nn.Parameter(x.detach().clone())
        optimizer = torch.optim.NAdam([weight], lr=0.1)
        (weight**2).sum().backward()
        optimizer.step()
        return weight.detach()

    check(program, ROWS, absolute=2e-3)


def test_gumbel_softmax() -> None:
    got = on_secrets(lambda x: F.gumbel_softmax(x, hard=True), ROWS)
    assert got.shape == ROWS.shape
    torch.testing.assert_close(got.sum(-1), torch.ones(4), atol=1e-3, rtol=0)


def test_dtypes_stay() -> None:
    def program(x: Tensor) -> list[Tensor]:
        pooled = F.interpolate(x, size=(3, 3), mode="area")
        wide = F.interpolate(x, scale_factor=2, mode="bicubic")
        uneven = F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False)
        return [pooled, wide, uneven, F.adaptive_avg_pool2d(x, 3)]

    check(program, IMAGE, absolute=1e-2)


def test_rows_are_shortened() -> None:
    def program(table: Tensor) -> list[Tensor]:
        table = table.clone()
        with torch.no_grad():
            rows = F.embedding(torch.tensor([0, 2, 2]), table, max_norm=1.0)
        return [rows, table]

    check(program, ROWS, absolute=2e-3)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.zeros(4, 6).copy_(x),
        lambda x: torch.zeros(2, 6).index_add_(0, torch.tensor([0, 1, 1, 0]), x),
        lambda x: nn.utils.rnn.pad_sequence([x, x[:2]]),
    ],
)
def test_public_tensors_stay_public(program: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(tacit.errors.PartyFailed, match="into a public tensor"):
        on_secrets(program, ROWS)
