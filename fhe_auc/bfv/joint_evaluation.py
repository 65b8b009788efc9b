"""What the aggregator computes under joint BFV keys: sums of products of ciphertexts, hidden, for all parties together.

No library takes part: a product is one over the integers (`fhe_auc.rlwe.integer_products`), its relinearisation two
additions (`fhe_auc.bfv.joint_keys`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.bfv import slots
from fhe_auc.bfv.context import checked
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.joint_keys import JointSetup, ternary
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.error_sampling import second_error
from fhe_auc.rlwe.integer_products import lifted, rounded, summed_products
from fhe_auc.rlwe.number_theoretic_transform import values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

_SEED_BYTES = 32


class JointEvaluator:
    """The parties' public keys: sums of their parts, `key_parts` of the second round, `relinearisation` of the third.

    Results here are two polynomials modulo q, as values at the roots of -1, of a plaintext modulus named by its index.
    """

    def __init__(self, setup: JointSetup, key_parts: Sequence[Words], relinearisation: Words) -> None:
        self._setup = setup
        self._half, self._small = setup.submission_part, setup.result_part
        self._public_key, both, _ = key_parts
        self._first = relinearisation.reshape(-1, *self._small.shape)
        _, self._second = both.reshape(2, -1, *self._small.shape)

    def product(self, totals: Sequence[Words], prime: int) -> Words:
        """Return Σ left·right, slot by slot, relinearised; `totals` are the sums of the parts of all `blocks`."""
        setup, half, small = self._setup, self._half, self._small
        ciphertexts = iter(
            [
                (lifted(half, total), lifted(half, setup.common(block)))
                for total, block in zip(totals, setup.blocks(prime), strict=True)
            ]
        )
        pairs = list(zip(ciphertexts, ciphertexts, strict=True))
        products = (
            [(b, other_b) for (b, _), (other_b, _) in pairs],
            [each for (b, a), (other_b, other_a) in pairs for each in ((b, other_a), (a, other_b))],
        )
        t = setup.parameters.plain_moduli[prime]
        first, second = (rounded(half, summed_products(half, each), t, setup.kept) for each in products)
        small.add_in_place(first, self._first[prime])
        small.add_in_place(second, self._second[prime])
        return np.concatenate((first, second))

    def total(self, total: Words, block: int) -> Words:
        """Return the sum of all parties' parts of a block as a ciphertext, where results keep all primes of Q."""
        return np.concatenate((total, self._setup.common(block)))

    def add_values(self, result: Words, values: ArrayLike, prime: int) -> None:
        """Add plaintext values in [0, t), shape (N,), slot by slot; ValueError as `fhe_auc.bfv.context.checked`."""
        summands = checked(values, self._setup.parameters, prime)
        message = slots.message(self._small, self._setup.parameters.plain_moduli[prime], summands)
        self._small.add_in_place(result[: self._setup.kept], values_of(self._small, message))

    def flood(self, result: Words, exponent: int) -> None:
        """Add a fresh encryption of zero, and noise uniform on ±2^exponent: see `fhe_auc.bfv.flooding`."""
        small, setup = self._small, self._setup
        ephemeral = ternary(small, secrets.token_bytes(_SEED_BYTES))
        keys = self._public_key, small.uniform(setup.seed("public key", 0))
        for polynomial, key in zip(np.split(result, 2), keys, strict=True):
            small.add_in_place(polynomial, small.multiply(key, ephemeral))
            small.add_in_place(polynomial, values_of(small, second_error(small, secrets.token_bytes(_SEED_BYTES))))
        small.add_in_place(result[: setup.kept], uniform_noise(small, exponent))

    def dump_result(self, result: Words, prime: int) -> bytes:
        """Serialise a result for `JointShare.partial_decryption`."""
        setup = self._setup
        whole = Polynomials(self._small.ring_dimension, 2 * self._small.moduli)
        return wire_format.seal(setup.result_kind(prime), setup.binding, whole.pack(result))
