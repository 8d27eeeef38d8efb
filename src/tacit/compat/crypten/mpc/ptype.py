"""`crypten.mpc.ptype`: where CrypTen's programs may import the kinds of sharing from."""

from ..ptype import ptype

__all__ = ["ptype"]
