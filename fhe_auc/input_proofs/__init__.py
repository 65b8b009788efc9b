"""Proofs that a party's numbers are counts within its cap, checked by two servers that each see random numbers alone.

A party's digits are shared: the aggregator holds them padded, and the helper can expand the pad. Beside its digits the
party sends a proof, shared likewise. Each server makes a few numbers of its shares (`query`), and whoever has both
servers' numbers decides. They say whether the statement holds, and nothing else.

    statement    what is proved: digits of counts, and what adds up to what; how long a proof is
    proofs       party: proofs, by quotients of polynomials that vanish on digits; servers: `Query`, which decides
    sessions     all of it for one session's roles, as bytes; what all proofs of a party hang on, and when they are read

The construction is of Boneh, Boneh, Corrigan-Gibbs, Gilboa and Ishai, "Zero-Knowledge Proofs on Secret-Shared Data via
Fully Linear PCPs", CRYPTO 2019, section 4.2, as is that of Prio3 (the IETF's draft-irtf-cfrg-vdaf, "FlpBBCGGI19"). The
draft sends the polynomial of all checks, and adds up its values; here a quotient by what vanishes at all calls is sent,
as Gabizon, Williamson and Ciobotaru, "PLONK" (ePrint 2019/953), check many places at once. So a weight is for a digit's
place in all calls, and not for each digit; digits enter once, and not besides as products with weights; all four proofs
(the field has 42 bits) have these polynomials in common; and servers answer without weights. Calls are at integers, not
at roots of unity. ChaCha20 expands randomness, and linear checks stand beside the digits'.

No module here knows what is counted.
"""
