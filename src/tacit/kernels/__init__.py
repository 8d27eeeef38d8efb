"""Fast ring operations, one function for each.

Every function returns exactly what its reference in `tacit.ring.reference` returns. It runs on
compiled code for CPU tensors, on Triton for GPU tensors, else on the reference (`backend`).
`set_num_threads` bounds the threads that a call may use.

Kernels compute on tensors; they do not know who holds them. Their docstrings use these words:

masked value   A ring value is x = opened + mask (mod 2^k). A bit is x = hat ^ lambda. `opened` and
               `hat` are the masked values, `mask` and `lambda` are uniformly random.
share          Shares of a value add up to it, in the ring, or XOR to it, for bits.
pad            A random tensor that hides a result. The result minus the pad (XOR, for bits) and the
               pad itself are two shares of the result.
dealt          Computed from masks alone, and hidden by a pad. `leaf_tables`, `sign_tables`,
               `node_products`, `and_products`, `deal_*` and `correct_*` read no masked value.
first          Functions that return a share read masked values, which are the same for all shares,
               and one share of the masks and of what is dealt. What depends on masked values alone
               is added to one share only: the one that is computed with `first=True`.
"""

from .backend import compile_ahead, num_compiled, num_threads, set_num_threads
from .call_log import load_call_log
from .checksum import add_checksum, checksum
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
from .digest import digest
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
    sign_leaves,
    sign_planes,
    sign_tables,
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
from .ot import ot_bits, ot_multiply_receive, ot_multiply_send, ot_receive_rows, ot_send_rows
from .planes import bit_planes, from_bit_planes, pack_bits, parity, popcount, unpack_bits
from .stream import StreamKey, blank_key, mask, stream, stream_key, streams

__all__ = [
    "Plan",
    "Prepared",
    "StreamKey",
    "add",
    "add_checksum",
    "and_gates",
    "and_products",
    "bit_planes",
    "blank_key",
    "checksum",
    "compile_ahead",
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
    "digest",
    "exact_share",
    "flip_share",
    "from_bit_planes",
    "inject_exact_share",
    "inject_share",
    "leaf_carries",
    "leaf_matches",
    "leaf_tables",
    "load_call_log",
    "mask",
    "matmul",
    "mul",
    "mul_add",
    "neg",
    "node_carries",
    "node_products",
    "num_and_products",
    "num_compiled",
    "num_products",
    "num_table_rows",
    "num_threads",
    "ot_bits",
    "ot_multiply_receive",
    "ot_multiply_send",
    "ot_receive_rows",
    "ot_send_rows",
    "pack_bits",
    "parity",
    "plan_conv",
    "plan_matmul",
    "popcount",
    "prepare_conv",
    "prepare_matmul",
    "set_num_threads",
    "sign_leaves",
    "sign_planes",
    "sign_tables",
    "stream",
    "stream_key",
    "streams",
    "sub",
    "truncate",
    "unpack_bits",
]
