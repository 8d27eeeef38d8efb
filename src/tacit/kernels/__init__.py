"""Ring operations at the speed of the machine, one function for each.

Every function equals its reference in `tacit.ring.reference` bit for bit and picks the compiled
version by device and shape (`backend`). `set_num_threads` bounds the threads a call may use.
"""

from .backend import num_threads, set_num_threads
from .conv import (
    conv1d,
    conv1d_grad_input,
    conv1d_grad_weight,
    conv2d,
    conv2d_grad_input,
    conv2d_grad_weight,
    conv3d,
    conv3d_grad_input,
    conv3d_grad_weight,
    plan_conv,
    prepare_conv,
)
from .elementwise import add, mul, mul_add, neg, sub, truncate
from .gates import (
    and_gates,
    and_products,
    leaf_carries,
    leaf_matches,
    leaf_tables,
    node_carries,
    node_products,
    num_and_products,
    num_products,
    num_table_rows,
)
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
from .matmul import Plan, Prepared, matmul, plan_matmul, prepare_matmul
from .planes import bit_planes, from_bit_planes, pack_bits, parity, popcount, unpack_bits
from .signs import sign_leaves, sign_tables
from .stream import StreamKey, blank_key, mask, stream, stream_key

__all__ = [
    "Plan",
    "Prepared",
    "StreamKey",
    "add",
    "and_gates",
    "and_products",
    "bit_planes",
    "blank_key",
    "conv1d",
    "conv1d_grad_input",
    "conv1d_grad_weight",
    "conv2d",
    "conv2d_grad_input",
    "conv2d_grad_weight",
    "conv3d",
    "conv3d_grad_input",
    "conv3d_grad_weight",
    "correct_inject_exact",
    "deal_exact",
    "deal_flip",
    "deal_inject_exact",
    "deal_injection",
    "exact_share",
    "flip_share",
    "from_bit_planes",
    "inject_exact_share",
    "inject_share",
    "leaf_carries",
    "leaf_matches",
    "leaf_tables",
    "mask",
    "matmul",
    "mul",
    "mul_add",
    "neg",
    "node_carries",
    "node_products",
    "num_and_products",
    "num_products",
    "num_table_rows",
    "num_threads",
    "pack_bits",
    "parity",
    "plan_conv",
    "plan_matmul",
    "popcount",
    "prepare_conv",
    "prepare_matmul",
    "set_num_threads",
    "sign_leaves",
    "sign_tables",
    "stream",
    "stream_key",
    "sub",
    "truncate",
    "unpack_bits",
]
