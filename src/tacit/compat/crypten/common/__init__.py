"""`crypten.common`: what CrypTen's programs use of it."""

from . import serial

__all__ = ["serial"]
