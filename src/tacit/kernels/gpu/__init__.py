"""The operations of `tacit.kernels` on GPU tensors, in Triton, bit for bit equal to the reference.

The functions of `tacit.kernels` call these and have checked the arguments.
"""

from .chacha import chacha20, chacha20_many, chacha20_mask
from .checksum import chacha20_checksum
from .compile_queue import queue_of
from .convolution import conv, conv_grad_input, conv_prepared, plan_conv, prepare_conv
from .gates import (
    and_gates,
    and_products,
    leaf_carries,
    leaf_matches,
    leaf_tables,
    node_carries,
    node_products,
    sign_leaves,
    sign_tables,
)
from .gemm import matmul, matmul_prepared, plan_matmul, prepare_matmul
from .geometry import Geometry
from .injection import (
    correct_inject_exact,
    deal_exact,
    deal_flip,
    deal_inject_exact,
    deal_injection,
    exact_share,
    flip_share,
    inject_exact_share,
    inject_share,
)
from .planes import (
    bit_planes,
    from_bit_planes,
    pack_bits,
    parity,
    popcount,
    quotient_planes,
    unpack_bits,
)
from .powers_of_two import add_power, deal_powers
from .waves import add_wave_sum, deal_waves
from .weight_gradient import conv_grad_weight

__all__ = [
    "Geometry",
    "add_power",
    "add_wave_sum",
    "and_gates",
    "and_products",
    "bit_planes",
    "chacha20",
    "chacha20_checksum",
    "chacha20_many",
    "chacha20_mask",
    "conv",
    "conv_grad_input",
    "conv_grad_weight",
    "conv_prepared",
    "correct_inject_exact",
    "deal_exact",
    "deal_flip",
    "deal_inject_exact",
    "deal_injection",
    "deal_powers",
    "deal_waves",
    "exact_share",
    "flip_share",
    "from_bit_planes",
    "inject_exact_share",
    "inject_share",
    "leaf_carries",
    "leaf_matches",
    "leaf_tables",
    "matmul",
    "matmul_prepared",
    "node_carries",
    "node_products",
    "pack_bits",
    "parity",
    "plan_conv",
    "plan_matmul",
    "popcount",
    "prepare_conv",
    "prepare_matmul",
    "queue_of",
    "quotient_planes",
    "sign_leaves",
    "sign_tables",
    "unpack_bits",
]
