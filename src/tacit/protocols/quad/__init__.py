"""Four parties, one of whom may cheat: everything is computed twice, by parties that check it.

x = m + a mod 2^k (m ^ a for bits). Parties 1 and 2, the *value side*, know m; parties 0 and 3, the
*mask side*, know a. Each side holds the other's term in two shares: a = a_1 + a_2 and
m = m_0 + m_3, where party i holds the share with its number.

NOTE [two evaluations]: every operation is a form y = F(c, d), linear in c and in d, where the value
side knows c (made of opened values) and the mask side knows d (made of masks).
(Q1) The mask side deals d: party 1 draws d_1, party 3 sends d_2 = d - d_1 to party 2. Party 0 knows
     d_2 as well: 0 and 2 compare.
(Q2) The value side deals c: party 3 draws c_3, party 2 sends c_0 = c - c_3 to party 0. Party 1
     knows c_0 as well: 0 and 1 compare.
(Q3) Parties 1 and 2 send each other F(c, d_i) - z_i, where the mask side knows z_i. So they know
     m' = y - a' with a' = z_1 + z_2.
(Q4) Party 3 sends F(c_3, d) - m'_3 to party 0, where the value side knows m'_3. So party 0 knows
     m'_0 = F(c_0, d) + F(c_3, d) - m'_3 - a'. Parties 1 and 2 know m'_0 = m' - m'_3: 0, 1 and 2
     compare.
Whoever changes one message is noticed, whatever the secrets are: a message of (Q1) or (Q2) is
compared with what an honest party computes, and one of (Q3) or (Q4) changes m'_0 at one honest
party by exactly that much. So whether a run ends tells a cheating party nothing. That every
message of (Q3) and (Q4) counts with the factor 1 is the unit-coefficient rule: if party 3 dealt
party 0 a factor of an opened value, its error would show only if that value is not zero, and the
end of the run would tell party 3 which.

The two evaluations are masked evaluation (`protocols/masked`) with the sides exchanged, and use its
kernels. Sources: Quad (PIGEON's 4-party protocol, arXiv 2206.03776 and its successor); the second
evaluation is ours.

Read `base.py` (sides and parts), `verification.py` (what is compared, and when), `gate.py` (Q1 to
Q4), then `arithmetic.py`, `truncation.py`, `boolean.py`, `compare.py`, `injection.py`, `io.py`;
`protocol.py` lists all operations.
"""
