"""`crypten.mpc.primitives`: CrypTen's names of the two kinds of tensors."""

from ..binary_tensor import BinarySharedTensor
from ..cryptensor import MPCTensor

ArithmeticSharedTensor = MPCTensor

__all__ = ["ArithmeticSharedTensor", "BinarySharedTensor"]
