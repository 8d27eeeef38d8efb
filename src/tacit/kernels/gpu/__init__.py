"""The operations of `tacit.kernels` on GPU tensors, in Triton; bit for bit the reference.

Arguments have been checked by the functions of `tacit.kernels` that call these.
"""

from .convolution import conv, conv_grad_input, conv_prepared, plan_conv, prepare_conv
from .gemm import matmul, matmul_prepared, plan_matmul, prepare_matmul
from .geometry import Geometry
from .unfolding import conv_grad_weight

__all__ = [
    "Geometry",
    "conv",
    "conv_grad_input",
    "conv_grad_weight",
    "conv_prepared",
    "matmul",
    "matmul_prepared",
    "plan_conv",
    "plan_matmul",
    "prepare_conv",
    "prepare_matmul",
]
