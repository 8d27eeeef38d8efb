"""Faults that would let masks meet or leave a message bare, each with the check that finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from tests.protocols.mask_checks import (
    bare,
    bare_large_relu,
    client_seeds_repeat,
    contribution_can_change,
    meets_out_of_step,
    overlapping,
    refresh_is_partial,
    renewed_keys_repeat,
    second_thread_is_served,
    wiped_keys_draw,
)
from torch import Tensor

from tacit.crypto import KeyRing, contributions
from tacit.protocols import clients, randomness, steps
from tacit.protocols.context import Context
from tacit.protocols.derived import select
from tacit.protocols.masked import deal, truncation
from tacit.protocols.masked.base import Roles
from tacit.protocols.quad import gate
from tacit.protocols.randomness import CallRandomness, KeyStreams, Stream, common_stream
from tacit.protocols.three_party import io
from tacit.transport import Mesh

Patch = pytest.MonkeyPatch


class Mutant(NamedTuple):
    """A fault, and whether a check of the tests finds something."""

    apply: Callable[[Patch], None]
    is_found: Callable[[], bool]


# Words used again -------------------------------------------------------------------------------


def pieces_share_masks(patch: Patch) -> None:
    original = steps.in_chunks

    def in_chunks(p: Any, body: Any, *rest: Any) -> Any:
        before: list[dict[Stream, int]] = []

        def again(q: Any, *args: Any, **kwargs: Any) -> Any:
            before.append(dict(q.context.randomness._offsets))
            q.context.randomness._offsets = dict(before[0])
            return (yield from body(q, *args, **kwargs))

        return original(p, again, *rest)

    patch.setattr(steps, "in_chunks", in_chunks)


def large_relu_shares_masks(patch: Patch) -> None:
    def relu_with_bit(p: Any, x: Any, *, low: int = 0) -> Any:
        before = dict(p.context.randomness._offsets)
        bit = p.bit_not((yield from p.sign.steps(x, low=low)))
        p.context.randomness._offsets = before
        return (yield from p.inject.steps(bit, x)), bit

    patch.setattr(select, "relu_with_bit", relu_with_bit)


def draws_of_a_buffer_overlap(patch: Patch) -> None:
    original = randomness._segments

    def segments(layouts: Any) -> Any:
        found, size, dtypes = original(layouts)
        return tuple(one._replace(start=0, offset=0) for one in found), size, dtypes

    patch.setattr(randomness, "_segments", segments)


def equal_draws(patch: Patch) -> None:
    original = CallRandomness.draws

    def draws(self: CallRandomness, source: Stream, layouts: Sequence[Any]) -> list[Tensor]:
        words = original(self, source, layouts)
        first = dict(zip(layouts[::-1], words[::-1], strict=True))
        return [first[layout].clone() for layout in layouts]

    patch.setattr(CallRandomness, "draws", draws)


def offset_is_not_advanced(patch: Patch) -> None:
    patch.setattr(CallRandomness, "_take", lambda *_: 0)


def number_is_not_advanced(patch: Patch) -> None:
    original, calls = KeyStreams.new_number, "_calls"

    def new_number(self: KeyStreams) -> int:
        setattr(self, calls, getattr(self, calls, 0) + 1)
        return original(self) if getattr(self, calls) % 2 else self.number

    patch.setattr(KeyStreams, "new_number", new_number)


def inputs_are_not_numbered(patch: Patch) -> None:
    original = CallRandomness.draws

    def draws(self: CallRandomness, source: Stream, layouts: Sequence[Any]) -> list[Tensor]:
        call = CallRandomness(self._streams, 0) if source.use == "input" else self
        return original(call, source, layouts)

    patch.setattr(CallRandomness, "draws", draws)


def fill_ignores_offsets(patch: Patch) -> None:
    original = KeyStreams.fill
    patch.setattr(KeyStreams, "fill", lambda self, s, words, n, _: original(self, s, words, n, 0))


def mask_ignores_offsets(patch: Patch) -> None:
    original = KeyStreams.mask

    def mask(self: KeyStreams, source: Stream, values: Tensor, how: str, n: int, _: int) -> None:
        original(self, source, values, how, n, 0)

    patch.setattr(KeyStreams, "mask", mask)


def each_deal_starts_again(patch: Patch) -> None:
    original = deal._draw

    def draw(p: Any, source: Stream, specs: Any) -> list[Tensor]:
        p.context.randomness._offsets.pop(source, None)
        return original(p, source, specs)

    patch.setattr(deal, "_draw", draw)


def rounding_masks_are_reused(patch: Patch) -> None:
    original = truncation.deal_with_masks

    def deal_with_masks(p: Any, *rest: Any) -> Any:
        for source in p.roles.opening.values():
            p.context.randomness._offsets.pop(source, None)
        return (yield from original(p, *rest))

    patch.setattr(truncation, "deal_with_masks", deal_with_masks)


# Wrong streams and keys -------------------------------------------------------------------------


def sender_is_dropped(patch: Patch) -> None:
    patch.setattr(Stream, "label", property(lambda stream: stream.use))


def names_are_dropped(patch: Patch) -> None:
    patch.setattr(Stream, "label", property(lambda stream: "masks"))


def sender_is_the_lowest_rank(patch: Patch) -> None:
    def label(stream: Stream) -> str:
        return f"{stream.use}|{min(stream.holders)}->{stream.receivers}"

    patch.setattr(Stream, "label", property(label))


def key_of_everybody(patch: Patch) -> None:
    patch.setattr(KeyRing, "key", lambda ring, _: ring._keys[frozenset(range(3))])


def common_stream_hides_inputs(patch: Patch) -> None:
    patch.setattr(io, "mask_stream", lambda use, *parties: common_stream(use, *parties[:2]))


def dealer_takes_the_evaluators_stream(patch: Patch) -> None:
    def dealing(roles: Roles) -> dict[int, Stream]:
        return {e: roles.opening[e] for e in roles.evaluators[:-1]}

    patch.setattr(Roles, "dealing", property(dealing))


# Masks left out ---------------------------------------------------------------------------------


def without(*left_out: str) -> Callable[[Patch], None]:
    """Masks of these kinds are not applied."""

    def apply(patch: Patch) -> None:
        original = CallRandomness.mask

        def mask(self: CallRandomness, source: Stream, values: Tensor, how: str) -> Tensor:
            return values if how in left_out else original(self, source, values, how)

        patch.setattr(CallRandomness, "mask", mask)

    return apply


def random_bits_are_zero(patch: Patch) -> None:
    original = Context.draw_planes

    def draw_planes(self: Context, source: Stream, shape: Sequence[int]) -> Tensor:
        return torch.zeros_like(original(self, source, shape))

    patch.setattr(Context, "draw_planes", draw_planes)


def inputs_are_bare(patch: Patch) -> None:
    original = CallRandomness.draw

    def draw(self: CallRandomness, source: Stream, *rest: Any) -> Tensor:
        words = original(self, source, *rest)
        return torch.zeros_like(words) if source.use == "input" else words

    patch.setattr(CallRandomness, "draw", draw)


def quad_draws_zeros(*left_out: Stream) -> Callable[[Patch], None]:
    """Words of these streams are zero at all parties of quad."""

    def apply(patch: Patch) -> None:
        original = gate._draw

        def draw(p: Any, *wanted: tuple[Stream, Any]) -> list[list[Tensor]]:
            drawn = original(p, *wanted)
            return [
                [torch.zeros_like(one) for one in words] if source in left_out else words
                for (source, _), words in zip(wanted, drawn, strict=True)
            ]

        patch.setattr(gate, "_draw", draw)

    return apply


# Around the protocols ---------------------------------------------------------------------------


def client_seeds_are_equal(patch: Patch) -> None:
    patch.setattr(clients.secrets, "token_bytes", lambda size: bytes(size))


def any_thread_is_served(patch: Patch) -> None:
    patch.setattr(Mesh, "require_own_thread", lambda _: None)


def renewed_keys_have_no_number(patch: Patch) -> None:
    original = KeyStreams.renew
    patch.setattr(KeyStreams, "renew", lambda self, keys, _: original(self, keys, 0))


def wiped_keys_stay_ready(patch: Patch) -> None:
    original = KeyStreams.wipe

    def wipe(self: KeyStreams) -> None:
        ready = self._ready
        original(self)
        self._ready = ready

    patch.setattr(KeyStreams, "wipe", wipe)


def openings_are_not_compared(patch: Patch) -> None:
    patch.setattr(contributions, "open_commitment", lambda _, opening, **__: opening[32:])


MUTANTS: dict[str, Mutant] = {
    "pieces of a memory limit share masks": Mutant(pieces_share_masks, bare("trio", "sign", cut=1)),
    "the large ReLU shares masks": Mutant(large_relu_shares_masks, bare_large_relu),
    "draws of a buffer overlap": Mutant(draws_of_a_buffer_overlap, bare("trio", "relu")),
    "equal draws": Mutant(equal_draws, bare("trio", "inject")),
    "equal draws of a refresh": Mutant(equal_draws, refresh_is_partial),
    "offsets are not advanced": Mutant(offset_is_not_advanced, overlapping("mixed")),
    "numbers are not advanced": Mutant(number_is_not_advanced, overlapping("share")),
    "inputs are not numbered": Mutant(inputs_are_not_numbered, overlapping("share")),
    "a draw ignores its offset": Mutant(fill_ignores_offsets, bare("trio", "sign", cut=1)),
    "a mask ignores its offset": Mutant(mask_ignores_offsets, bare("replicated", "sign")),
    "each deal starts again": Mutant(each_deal_starts_again, overlapping("mixed")),
    "rounding masks are reused": Mutant(rounding_masks_are_reused, overlapping("truncate", cut=1)),
    "the sender is no part of the key": Mutant(sender_is_dropped, meets_out_of_step),
    "one stream for each key": Mutant(names_are_dropped, meets_out_of_step),
    "both senders have the lower rank": Mutant(sender_is_the_lowest_rank, meets_out_of_step),
    "a key that everybody holds": Mutant(key_of_everybody, bare("trio", "share")),
    "a common stream hides inputs": Mutant(common_stream_hides_inputs, bare("trio", "share")),
    "the dealer takes an evaluator's stream": Mutant(
        dealer_takes_the_evaluators_stream, bare("trio", "truncate")
    ),
    "openings without a mask": Mutant(without("sub"), bare("trio", "mul")),
    "half of a zero share": Mutant(without("sub"), bare("replicated", "mul")),
    "no zero share": Mutant(without("add", "sub"), bare("replicated", "mul")),
    "AND gates without masks": Mutant(without("xor"), bare("replicated", "bit_and")),
    "random bits that are zero": Mutant(random_bits_are_zero, bare("replicated", "inject")),
    "bare inputs": Mutant(inputs_are_bare, bare("replicated", "share")),
    "quad opens without masks": Mutant(
        quad_draws_zeros(gate.NEW_A1, gate.NEW_A2), bare("quad", "mul")
    ),
    "quad completes without masks": Mutant(quad_draws_zeros(gate.NEW_M3), bare("quad", "bit_and")),
    "quad deals bare masks": Mutant(quad_draws_zeros(gate.MASK_PADS), bare("quad", "inject")),
    "quad deals bare values": Mutant(quad_draws_zeros(gate.VALUE_PADS), bare("quad", "inject")),
    "equal seeds of a client": Mutant(client_seeds_are_equal, client_seeds_repeat),
    "a second thread is served": Mutant(any_thread_is_served, second_thread_is_served),
    "renewed keys repeat": Mutant(renewed_keys_have_no_number, renewed_keys_repeat),
    "zeros become keys after a session": Mutant(wiped_keys_stay_ready, wiped_keys_draw),
    "contributions to a key can change": Mutant(openings_are_not_compared, contribution_can_change),
}
