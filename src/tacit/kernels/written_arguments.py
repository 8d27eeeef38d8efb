"""Which arguments of compiled kernels are addresses of memory that the kernel writes.

Pointers cross to compiled code as integers, so nothing else tells. Arguments are counted from 0; a
list of addresses counts as so many arguments, a tuple of sizes as one. What is updated in place is
written, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class Written(NamedTuple):
    """The places of written arguments.

    encoded: those of an operand that is encoded first, and of whether it is encoded already.
    """

    places: tuple[int, ...]
    encoded: tuple[int, int] | None = None


_OF_RING = {  # names that end with the bits of the ring, 32 or 64
    "add_wave_sum": Written((2,)),
    "conv": Written((2,), encoded=(11, 12)),
    "conv_grad_input": Written((2,), encoded=(11, 12)),
    "correct_inject_exact": Written((2, 3, 4, 5, 6)),
    "deal_exact": Written((1, 2)),
    "deal_flip": Written((1,)),
    "deal_inject_exact": Written((2, 3, 4, 5)),
    "deal_injection": Written((1, 2)),
    "deal_waves": Written((2,)),
    "exact_share": Written((0,)),
    "finish": Written((4,)),
    "flip_share": Written((1,)),
    "inject_exact_share": Written((1,)),
    "inject_share": Written((1,)),
    "matmul": Written((4,), encoded=(8, 9)),
    "mul_add": Written((5,)),
    "ot_multiply_receive": Written((11,)),
    "ot_multiply_send": Written((10, 11, 12)),
}
_OF_CIPHER = {  # names that end with that of a cipher
    "masked8_": Written((4,)),
    "quantise8_from_": Written((4,)),
    "stream_": Written((4,)),
    **{f"{how}{size}_": Written((4,)) for how in ("add", "sub", "xor") for size in (4, 8)},
}
WRITTEN = {
    "add_three32": Written((3,)),
    "and_gates": Written((4,)),
    "and_products": Written((3,)),
    "bit_planes": Written((5,)),
    "contract32": Written((5,)),
    "contract8": Written((5,)),
    "dequantise32": Written((2,)),
    "from_bit_planes": Written((3,)),
    "join_limbs": Written((3,)),
    "leaf_carries": Written((3,)),
    "leaf_matches": Written((3,)),
    "leaf_tables": Written((3,)),
    "max_pool2x2": Written((1, 2)),
    "node_carries": Written((4,)),
    "node_products": Written((3,)),
    "ot_bits": Written((5,)),
    "ot_receive_rows": Written((5, 6)),
    "ot_send_rows": Written((6,)),
    "parity": Written((1,)),
    "popcount": Written((1,)),
    "summary32": Written((2,)),
    **{f"{name}{bits}": written for name, written in _OF_RING.items() for bits in (32, 64)},
    **{
        name + cipher: written
        for name, written in _OF_CIPHER.items()
        for cipher in ("aes128_ctr", "chacha20")
    },
}


def written_addresses(kernel: str, args: Sequence[Any]) -> list[int] | None:
    """Returns the addresses that a call writes to; None if the kernel is not declared here."""
    declared = WRITTEN.get(kernel)
    if declared is None:
        return None
    flat = list(_flattened(args))
    found = [flat[place] for place in declared.places]
    if declared.encoded is not None:
        place, is_encoded = declared.encoded
        if not flat[is_encoded]:
            found.append(flat[place])
    return found


def _flattened(args: Sequence[Any]) -> Iterator[Any]:
    for one in args:
        if isinstance(one, list):
            yield from one
        else:
            yield one
