"""Sums over the pooled vectors of many parties, under one-time pads: exact, of degree 1 to 3.

Party i pads its sketch w_i with m_i, and the aggregator adds up what it gets, in the clear: V = Σ w_i + m_i modulo t.
The key holder has encrypted products of linear functions of M = Σ m_i before: the *pad key*. With A a linear function
of V, and B the same function of M, that of the pooled sketch is A − B, and

    Π_d (A_d − B_d) = Σ over subsets S of Π_{d not in S} A_d · Π_{d in S} (−B_d)
                                        in the clear           encrypted

so the aggregator evaluates the sums with products of a plaintext and a ciphertext alone.

What is summed, and where it stands, is public, part of what parties agree to (`terms`).
Whole vectors, of degree 1, need no encryption and have tags of their own: `vector_sums`.
"""
