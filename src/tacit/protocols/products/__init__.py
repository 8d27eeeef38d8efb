"""Products of secrets at one party: the operations, cutting to a memory budget, kept weights."""
