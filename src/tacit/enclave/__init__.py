"""A trusted enclave that computes on secrets in plain and rents untrusted workers for products.

`trusted` is imported by the enclave process alone, `host` by the process that starts it, and
`attestation` by everybody: owners use it to check which code got their data.
`worker` runs at a rented machine; the enclave shares `messages`, `worker_roles` and `mask_keys`
with it.
"""

__all__: list[str] = []
