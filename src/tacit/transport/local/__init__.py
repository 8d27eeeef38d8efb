"""Channels between parties that are threads of one process."""
