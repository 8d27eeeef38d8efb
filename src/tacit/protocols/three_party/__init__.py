"""Three parties: part j of a secret is held by the two parties other than j, which share a key."""
