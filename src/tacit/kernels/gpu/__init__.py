"""The operations of `tacit.kernels` on GPU tensors, in Triton: bit for bit what the reference gives.

Arguments have been checked by the functions of `tacit.kernels` that call these.
"""
