"""What only the enclave process imports: its secrets are here in plain."""
