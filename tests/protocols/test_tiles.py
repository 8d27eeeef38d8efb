"""Products that are computed while they are sent: the same messages, results and costs."""

from __future__ import annotations

from itertools import count
from math import prod
from random import Random

import pytest
import torch
from tests.transport.parties import run
from torch import nn

import tacit
from tacit.config import Config
from tacit.crypto import agree_keys
from tacit.protocols import Arith, Conv, ConvGradInput, ConvGradWeight, Protocol
from tacit.protocols.factory import make_protocol
from tacit.protocols.products import chunks, tiled
from tacit.protocols.products.bilinear import MATMUL, Bilinear
from tacit.protocols.products.executor import ProductExecutor
from tacit.protocols.randomness import KeyStreams, common_stream
from tacit.ring import Window
from tacit.testing.manipulations import Tap
from tacit.testing.values import ring_values, secret
from tacit.transport import Mesh, Tiled, memory_meshes, tiles

FAST = {"latency": 0.0, "bandwidth": 1e15}  # a shaped link, so that threads send parts too
RINGS = pytest.mark.parametrize("ring", [32, 64])

Shape = tuple[int, ...]


def drawn_cases(seed: int) -> list[tuple[Bilinear, Shape, Shape]]:
    """Operations on operands of drawn shapes; their results have more than a part's bytes."""
    random = Random(seed)
    rows, inner, columns = random.randint(2, 20), random.randint(1, 9), random.randint(200, 400)
    images, channels, size = random.randint(2, 5), random.randint(1, 3), random.randint(40, 50)
    window = Window.make(2, random.choice([1, 2]), random.choice([0, 1]), 1, 1)
    image, weight = (images, channels, size, size), (random.randint(8, 12), channels, 3, 3)
    output = window.output_shape(image, weight)
    return [
        (MATMUL, (rows * 20, inner), (inner, columns)),
        (MATMUL, (rows, 20, inner), (inner, columns)),
        (Conv(window), image, weight),
        (ConvGradInput(window, image), weight, output),
        (ConvGradWeight(window, weight), image, output),  # a sum over images: never cut
    ]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Tiled]:
    """The tiled tensors of a test, in which a tile may have few rows."""
    found: list[Tiled] = []

    class Noted(Tiled):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            found.append(self)

    monkeypatch.setattr(tiled, "Tiled", Noted)
    monkeypatch.setattr(chunks, "MIN_TILE_ROWS", 1)
    monkeypatch.setattr(tiles, "TILE_BYTES", 1)
    return found


def observed(p: Protocol, call, *, in_tiles: bool):
    """Returns what a call returns, what this party received in it, and what it cost.

    All these calls have the same number, so that they draw the same masks.
    """
    context, mesh, arrived = p.context, p.context.mesh, []
    mesh.recorder = lambda _, found: arrived.extend(t for m in found.values() for t in m.tensors)
    context.streams.number = 1000
    context.products.in_tiles = in_tiles
    with mesh.stats.scope("call") as cost:
        result = call()
    mesh.recorder, cost.seconds_waiting = None, 0.0
    return result, arrived, repr(cost)


def check_case(p: Protocol, op: Bilinear, left: Shape, right: Shape) -> None:
    """Both ways give all parties the same messages, at the same cost, and the exact result."""
    a, b = ring_values(p.ring, left, "a"), ring_values(p.ring, right, "b")
    x, y = secret(p, a, 0), secret(p, b, 1)
    _, whole, whole_cost = observed(p, lambda: p.bilinear(op, x, y), in_tiles=False)
    result, cut, cut_cost = observed(p, lambda: p.bilinear(op, x, y), in_tiles=True)
    assert len(whole) == len(cut)
    assert all(map(torch.equal, whole, cut))
    assert whole_cost == cut_cost
    assert torch.equal(p.reveal(result), ProductExecutor().sum(op, [(a, [b])]))


@RINGS
@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        ("trio", "memory"),
        ("trio", "tls"),
        ("replicated", "memory"),
        ("replicated", "tls"),
        ("replicated-malicious", "tls"),
    ],
)
def test_tiles_are_the_messages_of_the_whole(protocol, kind, ring, made):
    seed = Random().randrange(1 << 30)
    print(f"seed {seed}")

    def party(mesh: Mesh) -> None:
        keys = agree_keys(mesh.exchange_bytes, rank=mesh.rank, parties=3, session=b"tiles")
        p = make_protocol(Config(protocol=protocol, ring=ring, fraction_bits=8), mesh, keys)
        assert p is not None
        for case in drawn_cases(seed):
            check_case(p, *case)

    run(kind, party, parties=3, network=FAST).values()
    senders, cut = (2, 4) if protocol == "trio" else (3, 3 + (protocol == "replicated"))
    assert len(made) == cut * senders  # with verified products a gradient is another product
    assert all(one.is_complete for one in made)


def test_products_of_one_block_keep_to_their_own_masks(made):
    """Both draw from the same streams, and are computed after the masks of both are reserved."""

    def main(session) -> None:
        p = session.protocol
        a, b = ring_values(p.ring, (40, 7), "a"), ring_values(p.ring, (7, 200), "b")
        x, y = secret(p, a, 0), secret(p, b, 1)

        def block() -> list[Arith]:
            with p.parallel():
                return [p.matmul(x, y), p.mul(x, x), p.matmul(x, y)]

        _, whole, _ = observed(p, block, in_tiles=False)
        found, cut, _ = observed(p, block, in_tiles=True)
        assert all(map(torch.equal, whole, cut))
        for got, wanted in zip(found, [a @ b, a * a, a @ b], strict=True):
            assert torch.equal(p.reveal(got), wanted)

    tacit.run(main, network=FAST)
    assert len(made) == 4


@RINGS
def test_a_reserved_mask_is_that_of_the_whole(ring):
    [mesh] = memory_meshes(1)
    keys = agree_keys(mesh.exchange_bytes, rank=0, parties=1, session=b"masks in tiles")
    dtype = torch.int64 if ring == 64 else torch.int32
    for cipher in ("aes128-ctr", "chacha20"):
        streams, source = KeyStreams(keys, cipher), common_stream("test", 0)
        one, other = streams.new_call(), streams.new_call()
        other.number = one.number
        values = torch.arange(1003).to(dtype)
        whole = one.mask(source, values.clone(), "sub")
        hide, cut = other.reserved_mask(source, values.nbytes, "sub"), values.clone()
        after = other.draw(source, (3,), dtype)
        for start, end in ((500, 1003), (0, 7), (7, 500)):  # in no order, at no block
            hide(cut[start:end], start * values.itemsize)
        assert torch.equal(cut, whole)
        assert torch.equal(after, one.draw(source, (3,), dtype))
        assert not torch.equal(cut, values)


def test_the_shapes_of_tiles():
    conv = Conv(Window.make(2, 1, 1, 1, 1))
    x, w = torch.empty(67, 3, 32, 32, dtype=torch.int64), torch.empty(64, 3, 3, 3)
    image_bytes = 8 * prod(conv.shape(x.shape, w.shape)[1:])
    for tile_bytes in (1, 1 << 20, 1 << 22, 1 << 25, 1 << 40):
        found = chunks.tiles(conv, [(x, [w])], tile_bytes)
        rows = [terms[0][0].shape[0] for _, terms in found]
        assert sum(rows) == 67
        assert max(rows) - min(rows) <= 1
        assert len(rows) <= chunks.MOST_TILES
        assert len(rows) == 1 or max(rows) * image_bytes >= tile_bytes
    few = [(torch.empty(600, 5, dtype=torch.int64), [torch.empty(5, 4000, dtype=torch.int64)])]
    assert len(chunks.tiles(MATMUL, few, 1 << 10)) == 600 // chunks.MIN_TILE_ROWS
    vector = [(torch.empty(5, dtype=torch.int64), [torch.empty(5, 4, dtype=torch.int64)])]
    assert len(chunks.tiles(MATMUL, vector, 1)) == 1


@pytest.mark.usefixtures("encoding")
@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_a_weight_is_encoded_once_for_all_tiles(budget, monkeypatch):
    conv = Conv(Window.make(2, 1, 1, 1, 1))
    monkeypatch.setattr(chunks, "MIN_TILE_ROWS", 1)
    x, w = torch.randint(-9, 9, (8, 64, 16, 16)), torch.randint(-9, 9, (64, 64, 3, 3))
    executor, encoded = ProductExecutor(budget=budget), count()
    prepare = Conv.prepare
    monkeypatch.setattr(Conv, "prepare", lambda *args: (next(encoded), prepare(*args))[1])
    cut = chunks.tiles(conv, [(x, [w])], 1)
    assert len(cut) == 8
    wanted = conv(x, w)
    for uses in (1, 2):
        assert torch.equal(torch.cat(list(executor.each(cut))), wanted)
        assert next(encoded) == 2 * uses - 1
    assert executor.cache.num_bytes <= budget


def small_net() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8 * 8 * 8, 5))


def test_a_repeated_function_and_map_give_what_the_whole_gives(made):
    x = torch.rand(8, 3, 32, 32)

    def main(session) -> None:
        model, data = session.share(small_net(), owner=0), session.share(x, owner=1)
        with torch.no_grad():
            wanted = small_net()(x)
            mapped = torch.cat(list(session.map(model, data.split(4))))
            replay = session.repeated(lambda batch: model(batch).detach())
            for found in (mapped, *(replay(data) for _ in range(4))):
                torch.testing.assert_close(session.reveal(found), wanted, atol=1e-2, rtol=0)
        assert replay.recordings[0].num_replays

    tacit.run(main, network=FAST)
    assert made


def test_a_tap_counts_and_keeps_a_message_in_tiles_as_one(made):
    def main(session) -> list[tuple[int, ...]]:
        p, tap = session.protocol, Tap(session.mesh, keeps=True)
        x = secret(p, ring_values(p.ring, (64, 3), "a"), 0)
        y = secret(p, ring_values(p.ring, (3, 90), "b"), 1)
        tap.sent.clear()
        z = p.bilinear(MATMUL, x, y, shift=4)
        assert z.shape == (64, 90)
        return [tuple(shape) for sent in tap.sent for shape in sent.shapes]

    assert tacit.run(main, network=FAST) == [[], [(64, 90)], [(64, 90)]]
    assert len(made) == 2
