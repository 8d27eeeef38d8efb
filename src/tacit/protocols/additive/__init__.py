"""Any number of parties, and a dealer that is none of them."""
