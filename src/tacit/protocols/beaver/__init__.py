"""Plain additive shares: x is the sum of one part a party, and products take Beaver triples.

This is the classic form (Beaver, CRYPTO 1991; CrypTen). Every secret factor is opened under a mask
of its own, so a product sends its operands, where masked evaluation sends its result. Read
`base.py` (parts), `source.py` (what correlated randomness there is), `dealt.py` (a dealer makes
it), `arithmetic.py`, `truncation.py`, `boolean.py`, `compare.py`, `injection.py`; `protocol.py`
lists all operations.
"""
