"""Replicated sharing: three equal parties, each of which lacks one part of every secret.

x = x_0 + x_1 + x_2 and party i lacks x_i (ABY3, ePrint 2018/403; CryptGPU). There is no dealer:
each party multiplies what it holds and sends its share of the product to the previous party. The
shares are those of `trio`, so both protocols can work on the same secrets in turn. Read `base.py`
(parts and neighbours), `arithmetic.py`, `truncation.py`, `boolean.py`, `compare.py`,
`injection.py`; `protocol.py` lists all operations.
"""
