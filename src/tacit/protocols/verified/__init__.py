"""Replicated sharing in which one party may cheat: every product is verified before a reveal.

Shares, products and AND gates are those of `protocols/replicated`. What a party sends of a product
is a sum over parts that no other party holds together, so nobody can compare it. But whatever a
cheating party sends, the result is a sharing of x y + e, where e is a number that it chose: the two
honest parties hold all three parts, and agree about the part that both have. So it is enough to
prove that e = 0 for every product.

NOTE [no inputs of parts]: where one party of `replicated` shares a function of its own parts, a lie
would be no such error. Here such values come from products: a comparison adds up the bits of three
parts, each known to two parties (`compare.py`), a random bit is the exclusive or of three
(`injection.py`), and a division finds out from the parts' bits how often they wrap
(`truncation.py`).

NOTE [buckets]: before a reveal, a checkpoint and the end of a run, all products since the last
verification and one more, 0 * 0 = 0 without a message, are n gates. The parties multiply B n
pairs of random numbers in the same way, c = a b. Then they open a coin that none of them could
know (`coin.py`), and put the triples (a, b, c) in the order that it tells: each gate gets B. For
each triple of a gate z = x y they open r = x - a and s = y - b, and compare
    z - c - r b - s a - r s = 0,
which is e - e' for the errors e of z and e' of c. Nobody notices anything only if every wrong gate
meets B wrong triples and every other gate none: with m wrong gates the wrong triples lie in
exactly their B m places of B n. That has the probability 1 / C(B n, B m), at most 1 / C(B n, B):
the gate that is never wrong excludes m = n. `bucket_plan` chooses B for 2^-40 (Furukawa and others,
ePrint 2016/944; the bound is ours). It holds in every ring: elements of Z_2^k, and words of 64
AND gates, which count as one gate.

NOTE [matrix products]: Z = X Y is wrong by a matrix E. For public random vectors s and r of zeros
and ones s Z r = (s X)(Y r), unless s E r is not zero. Divided by the largest power of two that
divides all of E, it is a form over Z_2 that is not zero: it is odd for a quarter of all s and r at
least. So J = 105 pairs miss E with probability (3/4)^J < 2^-43. Each pair leaves one sum of
products of numbers, which the parties compute, compare with s Z r, and verify as gates. All other
bilinear operations are matrix products (`products/matrix_forms.py`).

NOTE [soundness]: a party that cheats anywhere since the last verification is noticed, but for a
probability of 2^-40: 7/8 of it for buckets, 1/8 for matrix products. What it sends in an opening
is held by a third party too, and compared as a view (`quad/verification.py`): that is noticed
always. Abort tells nothing: it depends on the errors, which the cheating party chose before the
coin, and on the coin. Until then every message to it is masked by words that it does not know.

Read `claims.py` (what is to be verified), `coin.py`, `buckets.py`, `reduction.py`,
`verify_claims.py`, then the operations; `protocol.py` lists them.
"""
