"""BFV contexts of either size of plaintext moduli, what they hold, and the noise of their ciphertexts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fhe_auc import bfv
from fhe_auc.bfv.parameters import CHAINS
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of
from tests.support.polynomials import integers

SLOTS = 8192
PRIMES = {
    "41 bits": (*primes_above(2**41, 2, SLOTS), 65537),
    "50 bits": (*primes_above(2**50 - 2**21, 1, SLOTS), *primes_above(2**49, 1, SLOTS)),
}
KEPT = {"41 bits": 1, "50 bits": 2}
"""Primes of the modulus that the planner keeps of a result."""


def phase_of(half: Polynomials, words: Words, secret: Words) -> Words:
    """c0 + c1·s of a ciphertext's polynomials and a secret key; all as values at roots of unity."""
    phase = half.multiply(words[len(half.moduli) :], secret)
    half.add_in_place(phase, words[: len(half.moduli)])
    return phase


def parameters_of(backend: Any, plain_moduli: Sequence[int], *, chain: int = 0) -> bfv.BfvParameters:
    """Parameters on the chain for most sessions, on that for more products, 1, or on that for large moduli, -1."""
    return bfv.BfvParameters(backend, *msgspec.structs.astuple(CHAINS[chain]), tuple(plain_moduli))


def some(seed: int, t: int) -> bfv.Residues:
    """Values in all slots, a quarter of them extreme."""
    generator = np.random.default_rng(seed)
    values = generator.integers(0, t, SLOTS, dtype=np.uint64)
    values[::4] = generator.choice(np.array([0, 1, t // 2, t // 2 + 1, t - 1], np.uint64), SLOTS // 4)
    return values


def loaded(pair: bfv.KeyPair, values: bfv.Residues, prime: int = 0) -> bfv.Ciphertext:
    """The ciphertext of a submission."""
    return pair.public.read_submission(pair.secret.encrypt(values, prime), prime)


def unflooded(public: bfv.PublicContext, ciphertext: bfv.Ciphertext) -> bfv.Flooded:
    """As it is, for `dump_result`: what an aggregator must not send."""
    return bfv.Flooded(ciphertext.prime, coefficients_of(public.ciphertext_shape, ciphertext.words))


def words_of(secret: bfv.SecretContext, flooded: bfv.Flooded) -> Words:
    """A flooded ciphertext's polynomials, as values at the roots of -1."""
    return np.concatenate([values_of(secret.mask_shape, part) for part in np.split(flooded.coefficients, 2)])


def scaled_noise(secret: bfv.SecretContext, words: Words, prime: int) -> list[int]:
    """t times a ciphertext's noise x, exactly: with the secret key s, c0 + c1·s = Q·m/t + x modulo Q."""
    half, t = secret.mask_shape, secret.parameters.plain_moduli[prime]
    phase, modulus = phase_of(half, words, secret.secret_words), math.prod(half.moduli)
    scaled = (t * each % modulus for each in integers(half, coefficients_of(half, phase)))
    return [each - modulus if each > modulus // 2 else each for each in scaled]


def noise(secret: bfv.SecretContext, words: Words, prime: int = 0) -> np.ndarray:
    """What t times the phase is off by, in units of t."""
    t = secret.parameters.plain_moduli[prime]
    return np.array([each / t for each in scaled_noise(secret, words, prime)])


@dataclass(frozen=True)
class Case:
    """Fresh keys for one size of plaintext moduli."""

    pair: bfv.KeyPair
    other: bfv.KeyPair
    kept: int

    @classmethod
    def of(cls, size: str, backend: str) -> Case:
        parameters = parameters_of(backend, PRIMES[size], chain=-list(PRIMES).index(size))
        return cls(bfv.generate(parameters), bfv.generate(parameters), KEPT[size])

    @property
    def parameters(self) -> bfv.BfvParameters:
        return self.pair.public.parameters

    @property
    def primes(self) -> tuple[int, ...]:
        return self.parameters.plain_moduli

    @property
    def half(self) -> Polynomials:
        return self.pair.secret.mask_shape

    def some(self, seed: int, prime: int = 0) -> bfv.Residues:
        return some(seed, self.primes[prime])

    def loaded(self, values: bfv.Residues, prime: int = 0) -> bfv.Ciphertext:
        return loaded(self.pair, values, prime)

    def fresh(self, prime: int = 0) -> bfv.Flooded:
        """An encryption under the public key."""
        return self.pair.public.flood(self.pair.public.sum_of_products(prime, [], []), self.some(1, prime))

    def sum_of_products(self, products: int, prime: int = 0) -> tuple[bfv.Ciphertext, list[int]]:
        """Σ plaintext·ciphertext, not flooded, and what it is."""
        t = self.primes[prime]
        values, factors = ([self.some(first + seed, prime) for seed in range(products)] for first in (0, 100))
        ciphertexts = [self.loaded(each, prime) for each in values]
        expected = [0] * SLOTS
        for value, factor in zip(values, factors, strict=True):
            columns = zip(expected, value.tolist(), factor.tolist(), strict=True)
            expected = [(e + v * f) % t for e, v, f in columns]
        return self.pair.public.sum_of_products(prime, ciphertexts, factors), expected
