"""`session.repeated`: functions that are recorded on a GPU once and then replayed."""
