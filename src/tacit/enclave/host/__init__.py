"""The untrusted side of an enclave: it starts the process, and relays bytes that it cannot read.

Nothing here imports `tacit.enclave.trusted`.
"""
