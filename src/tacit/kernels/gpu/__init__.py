"""The operations of `tacit.kernels` on GPU tensors, in Triton; bit for bit the reference.

Arguments have been checked by the functions of `tacit.kernels` that call these.
"""
