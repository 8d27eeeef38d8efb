"""Masked evaluation: evaluators compute on m = x - a, where only a dealer knows the whole mask a.

Comments cite these steps, E_i for evaluator i and D for the dealer:
(M1) deal: D gives the evaluators a fresh sharing of a value that it knows; 1 element sent ahead.
(M2) reshare: E_i opens s_i - z_i, where D knows z_i; m is the sum, a_i = z_i. 1 round.
(M3) open a value y + gamma of which D knows gamma: D adds gamma to the mask.
(M4) product: (m + a)(n + b) = m n + sum_i (m b_i + a_i n) + a b; D computes a b.
(M5) AND of any fan-in: D deals the products of masks, one bit an output is opened. 1 round.
(M6) leaf tables: D deals one-hot tables of the digits of a, E_i looks up the digits of m.
(M7) carry nodes of radix d over (generate, propagate). (M8) sign: leaves, then levels of nodes.
(M9) several thresholds on one x share the leaf tables.
(M10) bit injection: D deals y and y a for the mask bit y. 1 round.
(M12) sines and cosines, (M13) powers of two: D deals the factor that depends on a.
Sources: Trio (arXiv 2206.03776), ABY2.0 (ePrint 2020/1225) for (M5), Dalskov, Escudero and Keller
(arXiv 1910.12435) for exact truncation, SHAFT (NDSS 2025) for (M12).

Read `base.py` (roles and parts), `deal.py` (the two ways to talk), `arithmetic.py`,
`truncation.py`, `boolean.py`, `compare.py`, `injection.py`; `protocol.py` lists all operations.
"""
