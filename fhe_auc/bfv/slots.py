"""Slots: how integers modulo t, N of them, stand in a polynomial, and a polynomial modulo t in a ciphertext modulo Q.

    slots         the values, at the roots of -1 modulo t, of a polynomial m with coefficients modulo t, in the order of
                  `fhe_auc.rlwe.number_theoretic_transform`: products of polynomials are products slot by slot
    encryption    (c0, c1) with c0 + c1·s = round(Q·m/t) + x modulo Q, x the noise
    decryption    m = round(t·(c0 + c1·s)/Q) modulo t, right as long as |x| is below Q/2t

All in integers, and the same whatever the library: what is encrypted is encoded here. (OpenFHE's own encoding rounds
up; its decryption fails from 51 bits of t on; both take long.)
"""

import math

import numpy as np
from numpy.typing import NDArray

from fhe_auc.rlwe.modular import Residues, multiply
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of, values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

# Functions here take `half`, the shape of one polynomial modulo all primes of Q, and t, which is none of these.


def factor(half: Polynomials, t: int, slots: Residues) -> Words:
    """Return what a ciphertext's polynomials are multiplied by to multiply its slots, as values at roots of unity."""
    return values_of(half, _lifted(half, _centred(_polynomial(t, slots), t)))


def message(half: Polynomials, t: int, slots: Residues) -> Words:
    """Return what is added to a ciphertext's first polynomial to add to its slots: its coefficients."""
    # Q·m/t is rounded by taking the remainder from Q·m: what is left is, modulo Q, minus the remainder over t.
    scaled = multiply(_polynomial(t, slots), np.uint64(math.prod(half.moduli) % t), t)
    words = _lifted(half, -_centred(scaled, t))
    for row, modulus in zip(words, half.moduli, strict=True):
        row[:] = multiply(row, np.uint64(pow(t, -1, modulus)), modulus)
    return words


def decrypted(half: Polynomials, t: int, phase: Words) -> Residues:
    """Return the slots of a ciphertext, from c0 + c1·s as values at roots of unity.

    With y_i = phase·(Q/q_i)^-1 modulo q_i, t·phase/Q is Σ t·y_i/q_i but for multiples of t. Of each summand the
    remainder t·y_i modulo q_i is exact, and gives the whole part modulo t; the fractions add up to a number below the
    count of primes, which is rounded. Doubles are wrong at most where noise is within 2^-48 of the largest possible.
    """
    modulus = math.prod(half.moduli)
    fractions = np.zeros(half.ring_dimension)
    total = np.zeros(half.ring_dimension, np.uint64)
    for row, q in zip(coefficients_of(half, phase), half.moduli, strict=True):
        remainder = multiply(row, np.uint64(t * pow(modulus // q, -1, q) % q), q)
        fractions += remainder / q
        total += multiply(remainder % np.uint64(t), np.uint64(pow(-q, -1, t)), t)
    total += np.rint(fractions).astype(np.uint64)
    return values_of(Polynomials(half.ring_dimension, (t,)), total[None] % np.uint64(t)).ravel()


def phase_of(half: Polynomials, words: Words, secret: Words) -> Words:
    """Return c0 + c1·s of a ciphertext's polynomials and a secret key; all as values at roots of unity."""
    first, second = np.split(words, 2)
    phase = half.multiply(second, secret)
    half.add_in_place(phase, first)
    return phase


def _polynomial(t: int, slots: Residues) -> Residues:
    """Return the coefficients in [0, t) of the polynomial that has these slots."""
    return coefficients_of(Polynomials(len(slots), (t,)), slots[None]).ravel()


def _centred(residues: Residues, t: int) -> NDArray[np.int64]:
    signed = residues.astype(np.int64)
    signed[signed > t // 2] -= t
    return signed


def _lifted(half: Polynomials, coefficients: NDArray[np.int64]) -> Words:
    """Return the coefficients modulo each prime of Q."""
    return np.mod(coefficients, np.array(half.moduli, np.int64)[:, None]).view(np.uint64)
