"""BFV parameters: one ring and one ciphertext modulus for several plaintext moduli, and what room noise has there.

How large the noise of ciphertexts gets, which flooding must hide and the modulus hold: standard deviations of a
coefficient, derived for what is computed: Σ plaintext·ciphertext under keys that a key holder makes, with results
switched to a smaller modulus. Tests measure them.
"""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar

from fhe_auc.base.errors import CapacityError
from fhe_auc.rlwe.ciphertexts import VARIANCE
from fhe_auc.rlwe.modular import is_prime, primes_below
from fhe_auc.rlwe.ring_parameters import BACKENDS, BackendName, Chain, RingParameters

CHAINS = (Chain(8192, (53, 50, 50), 0), Chain(8192, (54, 54, 54), 0), Chain(8192, (52, 52, 52, 52), 0))
"""Moduli of ciphertexts that are added up and multiplied by plaintexts; the primes are the largest of these bits.

The last is for plaintext moduli of more than 42 bits. Of the others the first is for most sessions, the second for
those with the noise of many more products.
"""

FLOODING_SHARE = 0.7  # of the capacity for noise, what flooding takes at most
LEAST_PLAIN_BITS, MOST_PLAIN_BITS = 17, 50
MAX_PLAIN_MODULI = 8

CONFIDENCE = 8.0  # standard deviations that no coefficient is off by: of a million million coefficients none is
MODULUS_SWITCHING_BOUND = 300.0
"""τ: no coefficient of the noise grows by more where a result is switched to a smaller modulus.

Each coefficient of c0 and c1 is rounded, so that one of c0 + c1·s is off by at most N + 1 roundings, added or
subtracted. They are independent and uniform on [-1/2, 1/2], being those of uniform coefficients, which flooding makes
them. For such X, E e^(λX) = sinh(λ/2)/(λ/2) ≤ e^(λ²/24), so that by Chernoff's bound any of the N coefficients is off
by more than τ with a probability of at most 2N·e^(-6τ²/(N + 1)), 2^-81 at N = 8192. (The worst case, (N + 1)/2, leaves
no room modulo one prime.)
"""

_MOST_TAKEN = 0.99  # of the capacity: the primes are not quite powers of two

_TERNARY_VARIANCE = 2 / 3


class BfvParameters(RingParameters, frozen=True, forbid_unknown_fields=True):
    """One BFV parameter set, complete: two sites with equal values compute in the same rings.

    A ciphertext is for one of the plaintext moduli and holds N integers modulo it; one set of keys serves all of them.
    Raises `CapacityError` for other values, or as `RingParameters`.
    """

    plain_moduli: tuple[int, ...]
    """1 to 8 different primes t, 1 modulo 2N, of 17 to 50 bits. Small ones are for experiments, not for planners."""

    scheme: ClassVar[str] = "bfv"
    chains: ClassVar[dict[BackendName, tuple[Chain, ...]]] = dict.fromkeys(BACKENDS, CHAINS)

    def __post_init__(self) -> None:
        super().__post_init__()
        moduli = self.plain_moduli
        if not 1 <= len(moduli) <= MAX_PLAIN_MODULI or len(set(moduli)) != len(moduli):
            raise CapacityError(f"expected 1 to {MAX_PLAIN_MODULI} plaintext moduli, all different")
        for modulus in moduli:
            if not LEAST_PLAIN_BITS <= modulus.bit_length() <= MOST_PLAIN_BITS:
                raise CapacityError(
                    f"a plaintext modulus must have {LEAST_PLAIN_BITS} to {MOST_PLAIN_BITS} bits, got {modulus}"
                )
            if modulus % (2 * self.ring_dimension) != 1 or not is_prime(modulus):
                raise CapacityError(
                    f"a plaintext modulus must be a prime that is 1 modulo {2 * self.ring_dimension}, got {modulus}"
                )

        if common := set(self.own_moduli) & set(moduli):
            raise CapacityError(f"a plaintext modulus must not be a prime of the modulus of ciphertexts: {min(common)}")

    @property
    def own_moduli(self) -> tuple[int, ...]:
        """The primes of Q: of each length the largest."""
        return _largest_primes(self.chain)

    @property
    def slots(self) -> int:
        """Integers that a ciphertext holds, N."""
        return self.ring_dimension

    @property
    def capacity_bits(self) -> float:
        """log2 of Q/2t for the largest t: noise below that in every coefficient decrypts."""
        return sum(self.modulus_bits) - 1 - math.log2(max(self.plain_moduli))

    @property
    def flooding_bits(self) -> int:
        """b: flooding noise is uniform on [-2^b, 2^b)."""
        return math.floor(self.capacity_bits + math.log2(FLOODING_SHARE))


@cache
def _largest_primes(chain: Chain) -> tuple[int, ...]:
    bits = chain.modulus_bits
    largest = {each: list(primes_below(each, bits.count(each), chain.ring_dimension)) for each in bits}
    return tuple([largest[each].pop(0) for each in bits])


def sum_variance(parties: int) -> float:
    """Return the mean square of a coefficient of the noise of a sum of fresh encryptions under the secret key.

    Of each, its error, and what encoding rounds off, at most 1/2 up or down.
    """
    return parties * (VARIANCE + 1 / 12)


def plain_product_bound(parameters: BfvParameters, products: int) -> float:
    """Return X: no coefficient of the noise of Σ plaintext·ciphertext is larger before flooding.

    Of so many products of any plaintext vector with a fresh encryption under the secret key, no encryption taken twice,
    and of what `PublicContext.flood` adds besides flooding noise: u·e + e1·s of an encryption of zero, and 1/2. The
    plaintext is a polynomial of N coefficients of at most t/2, which all meet every coefficient of the noise, so that
    its deviation gets √N·t/2 times as large.
    """
    size = parameters.ring_dimension
    product = max(parameters.plain_moduli) / 2 * math.sqrt(size * sum_variance(products))
    zero = math.sqrt(VARIANCE * 2 * size * _TERNARY_VARIANCE)
    return CONFIDENCE * math.hypot(product, zero) + 1 / 2


def flooding_margin(parameters: BfvParameters, products: int, kept: int) -> float:
    """Return λ: flooding hides the noise of so many products (`plain_product_bound`) but for a distance of 2^-λ.

    For each prime. With b of `BfvParameters.flooding_bits`, λ is b - log2 N - log2 X. Planners call this with the
    `kept` primes of the modulus q that results are switched to. Raises ValueError where there are not so many, and
    `CapacityError` where a flooded result might not decrypt modulo q: (2^b + X)·q/Q + τ must stay below q/2t.
    """
    primes = parameters.modulus_bits
    if not 1 <= kept <= len(primes):
        raise ValueError(f"of {len(primes)} primes, 1 to {len(primes)} can be kept, got {kept}")
    bound, flooding, dropped = plain_product_bound(parameters, products), parameters.flooding_bits, sum(primes[kept:])
    noise = (2.0**flooding + bound) * 2.0**-dropped + (MODULUS_SWITCHING_BOUND if dropped else 0.0)
    if noise > _MOST_TAKEN * 2.0 ** (parameters.capacity_bits - dropped):
        raise CapacityError(f"{kept} of {len(primes)} primes leave results no room for noise")
    return flooding - math.log2(parameters.ring_dimension) - math.log2(bound)
