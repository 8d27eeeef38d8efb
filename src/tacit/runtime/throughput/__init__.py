"""Many calls of one function, several of them in flight: `session.map`."""
