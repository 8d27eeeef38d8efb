"""What every protocol gets from its core: comparisons, choices, order, sorting, functions.

Each function is a generator over a protocol's core operations (`yield from p.sign.steps(...)`) and
is bound to the protocols in `base.py`. Rounds are given in r, the rounds of `sign`: 2 or 3 in
masked evaluation, for windows up to 16 bits and above. Nothing leaks but shapes and the public
arguments.
"""
