"""Proofs that a party's numbers are counts within its cap, checked by two servers that each see random numbers alone.

A party's digits are shared: the aggregator holds them padded, and the helper can expand the pad. Beside its digits the
party sends a proof, shared likewise. Each server makes a few numbers of its shares (`query`), and whoever has both
servers' numbers decides. They say whether the statement holds, and nothing else.

    statement    what is proved: digits of counts, and what adds up to what; how long a proof is
    proofs       party: proofs, by quotients of polynomials that vanish on digits; servers: `Query`, which decides
    sessions     all of it for one session's roles, as bytes; what all proofs of a party hang on, and when they are read

The construction is of Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai, "Zero-Knowledge Proofs on Secret-Shared Data via
Fully Linear PCPs", CRYPTO 2019, section 4.2, as is that of Prio3 (the IETF's draft-irtf-cfrg-vdaf-20, section 7.3).
Both send values of polynomials, as the draft does since 18. But it sends those of the gadget's, and adds them up; here
it is a quotient by what vanishes at all calls, as in Gabizon, Williamson and Ciobotaru, "PLONK" (ePrint 2019/953). So a
weight is for a digit's place in all calls, where the draft has powers of a weight for each call; digits enter once, and
not besides as products with weights; all four proofs have these polynomials in common; and servers answer without
weights. Nor is a byte the draft's: calls are at integers, not roots of unity; primes have up to 50 bits, not 64 or 128;
ChaCha20, HMAC and HKDF stand for TurboSHAKE128; and the query follows from all submissions. Linear checks stand beside.

No module here knows what is counted.
"""
