"""`session.repeated`: functions recorded as CUDA graphs and replayed."""
