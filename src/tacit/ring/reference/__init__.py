"""The slow, obvious version of every kernel, in plain torch and Python integers."""
