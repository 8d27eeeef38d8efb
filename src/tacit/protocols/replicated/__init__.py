"""Replicated sharing: three equal parties, each of whom lacks one part of every secret.

x = x_0 + x_1 + x_2 and party i lacks x_i (ABY3, CryptGPU). Nothing is dealt and no party is spared:
each multiplies what it holds and passes its summand on. The shares are those of `trio`; the two
protocols can work on the same secrets in turn. Read `arithmetic.py`, `truncation.py`, `boolean.py`,
`compare.py`, `convert.py`; `protocol.py` is the table of contents.
"""
