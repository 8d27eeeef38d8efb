"""`crypten.mpc.mpc`: where CrypTen's programs may import the class of tensors from."""

from ..cryptensor import MPCTensor

__all__ = ["MPCTensor"]
