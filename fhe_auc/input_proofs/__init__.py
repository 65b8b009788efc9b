"""Proofs that a party's numbers are counts within its cap, checked by two servers that each see random numbers alone.

A party's digits are shared: the aggregator holds them padded, and the helper can expand the pad. Beside its digits the
party sends a proof, shared likewise. Each server makes a few numbers of its shares (`query`), and whoever has both
servers' numbers decides. They say whether the statement holds, and nothing else.

    statement    what is proved: digits of counts, and what adds up to what; how long a proof is
    proofs       party: proofs, and the gadget, a polynomial that vanishes on digits; servers: `Query`, and `decide`
    sessions     all of it for one session's roles, as bytes; what all proofs of a party hang on, and when they are read

The construction is that of Prio3: Boneh, Boneh, Corrigan-Gibbs, Gilboa and Ishai, "Zero-Knowledge Proofs on
Secret-Shared Data via Fully Linear PCPs", CRYPTO 2019, section 4.2, as the IETF's VDAF draft (draft-irtf-cfrg-vdaf,
"FlpBBCGGI19") writes it down. What differs: four proofs, as the field has 42 bits; a random weight for each digit, in
place of powers; ChaCha20 expands shares and randomness; linear checks stand beside the gadget's.

No module here knows what is counted.
"""
