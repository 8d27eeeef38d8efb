"""Functions of secret reals over their whole domain.

In the docstrings f is the number of fraction bits, a unit is 2^-f, k is the number of bits of the
ring, and r is the rounds of a comparison. Errors are bounds for 16 fraction bits.

Three methods do most of the work:
- Normalisation: x = c 2^(e+1) with c in [1/2, 1). The exponent e selects an entry of a public
  table. The function of c is a sum of sines and cosines with a dealer (wave_fit.py), otherwise a
  Chebyshev polynomial (mantissa.py: quotients, roots, logarithms).
- Sine series: a function that is a line on both sides is a line plus a few odd harmonics in between
  (series_fit.py; sine_series.py: sigmoid, GELU and other activations).
- Dealt tables of exponentials (exponential.py).
"""
