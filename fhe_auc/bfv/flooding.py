"""Flooding: noise that hides what a ciphertext's own noise would tell to those who can decrypt it.

The aggregator adds a fresh encryption of zero under the public key, which makes both polynomials pseudorandom but for
message and noise, and to the first one noise uniform on [-2^b, 2^b) in each coefficient.

Whatever the noise x beneath was, up to X in absolute value, the N coefficients that are seen are those of any other x'
but for a statistical distance of N·X/2^b (a coefficient's is |x - x'|/2^(b+1)): 2^-λ with b = λ + log2 N + log2 X.
`ciphertext_noise` has X, `BfvParameters.flooding_bits` is b; docs/security/encryption.md has both in numbers.
"""

import secrets

import numpy as np

from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe.number_theoretic_transform import values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

_LIMB_BITS = 32
_SEED_BYTES = 32


def uniform_noise(half: Polynomials, bits: int) -> Words:
    """Return a fresh polynomial with coefficients uniform on [-2^bits, 2^bits), as values at the roots of unity.

    `half` is the shape of one polynomial modulo all primes of Q.
    """
    stream = KeyStream(secrets.token_bytes(_SEED_BYTES))
    total = half.zeros()
    for start in range(0, bits + 1, _LIMB_BITS):
        limb = stream.words(half.ring_dimension) & np.uint64(2 ** min(_LIMB_BITS, bits + 1 - start) - 1)
        weights = np.array([[pow(2, start, modulus)] for modulus in half.moduli], np.uint64)
        half.add_in_place(total, half.multiply(np.broadcast_to(limb, half.shape), np.broadcast_to(weights, half.shape)))
    centre = np.array([[pow(2, bits, modulus)] for modulus in half.moduli], np.uint64)
    half.subtract_in_place(total, np.broadcast_to(centre, half.shape))
    return values_of(half, total)
