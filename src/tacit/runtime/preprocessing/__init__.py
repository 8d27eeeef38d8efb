"""Stored runs: what a dealer sends, made ahead of time and kept in files that are used once."""
