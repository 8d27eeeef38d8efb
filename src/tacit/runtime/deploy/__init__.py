"""`tacit.connect`: one party on its own machine, from a party file."""
