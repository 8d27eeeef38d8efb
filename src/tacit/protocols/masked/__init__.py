"""Masked evaluation: evaluators compute on x minus a mask that a dealer knows.

x = m + a_1 + ... + a_n. All evaluators know the opened value m, evaluator i knows a_i, and the
dealer knows every a_i. A bit is the same with exclusive or. Read `roles.py`, `deal.py`, then
`arithmetic.py`, `truncation.py`, `boolean.py`, `compare.py`, `convert.py`; `protocol.py` is the
table of contents.
"""
