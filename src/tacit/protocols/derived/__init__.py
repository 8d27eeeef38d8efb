"""What every protocol gets from its core: comparisons, selection, order, sorting, functions.

Each function is a generator over the operations of `core.py` (`yield from p.sign.steps(...)`);
`base.py` binds it to the protocols. Rounds are given in r, the rounds of `sign`: in masked
evaluation 2 for windows up to 20 bits, 3 above, and at most 2 for few elements. Nothing leaks but
shapes and public arguments.

These functions know integers with a public scale: some take `fraction_bits`, the number of fraction
bits of an integer that stands for x / 2^fraction_bits. They know neither the encoding of real
numbers nor their range: that is `fixedpoint`.
"""
