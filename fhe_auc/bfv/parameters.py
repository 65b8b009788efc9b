"""BFV parameters: one ring and one ciphertext modulus for several plaintext moduli."""

from __future__ import annotations

import math
from typing import ClassVar

from fhe_auc.errors import CapacityError
from fhe_auc.rlwe.parameters import BackendName, Chain, RingParameters

CHAINS: dict[BackendName, tuple[Chain, ...]] = {
    # Flooding takes all the modulus that there is, so the special prime is as small as that can be: the key switching
    # noise it leaves (2^47) is far below that of the product it is added to (2^55 for two parties).
    "tenseal": (Chain(8192, (48, 48, 48, 56), 18),),
    # BV key switching has no special modulus. Of 218 bits, the library's primes of one size fill 216.
    "openfhe": (Chain(8192, (54, 54, 54, 54), 0),),
}
"""Chains on which ciphertexts are multiplied by ciphertexts."""

SUM_CHAINS: dict[BackendName, tuple[Chain, ...]] = {
    # The first is for plaintext moduli of up to 42 bits, the second for larger ones. Keys take the special prime, which
    # SEAL always has, and nothing else does.
    "tenseal": (Chain(8192, (54, 54, 54), 18), Chain(8192, (50, 50, 50, 50), 18)),
    # Not 54 bits in the second: a chain says by itself whether ciphertexts are multiplied on it.
    "openfhe": (Chain(8192, (54, 54, 54), 0), Chain(8192, (53, 53, 53, 53), 0)),
}
"""Chains on which ciphertexts are added up and multiplied by plaintexts only, without a relinearisation key."""

DIGIT_BITS = 27
"""Of a digit of BV key switching: half a prime of Q. Whole primes would make it noisier than the product."""

FLOODING_SHARE: dict[BackendName, float] = {"tenseal": 0.7, "openfhe": 0.2}
"""Of the capacity for noise, what flooding takes at most. On OpenFHE the noise of joint keys needs room, too."""

SUM_FLOODING_SHARE = 0.7
"""The same where ciphertexts are not multiplied; there are no joint keys then."""

LEAST_PLAIN_BITS, MOST_PLAIN_BITS, MOST_PLAIN_BITS_OF_SUMS = 17, 44, 50
MAX_PLAIN_MODULI = 8


class BfvParameters(RingParameters, frozen=True, forbid_unknown_fields=True):
    """One BFV parameter set, complete: two sites with equal values compute in the same rings.

    Beside what `RingParameters` has. A ciphertext is for one of the plaintext moduli and holds N integers modulo it;
    one secret key and one set of evaluation keys serve all of them. The chain says whether there are evaluation keys.

    Attributes
    ----------
    plain_moduli : tuple of int
        1 to 8 different primes t, 1 modulo 2N, of 17 to 44 bits, to 50 bits where the chain is one of `SUM_CHAINS`.
        Small ones are for experiments: planners never choose them.

    Raises `CapacityError` if they are anything else, or as `RingParameters`.
    """

    plain_moduli: tuple[int, ...]

    scheme: ClassVar[str] = "bfv"
    chains: ClassVar[dict[BackendName, tuple[Chain, ...]]] = {
        backend: CHAINS[backend] + SUM_CHAINS[backend] for backend in CHAINS
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        moduli = self.plain_moduli
        if not 1 <= len(moduli) <= MAX_PLAIN_MODULI or len(set(moduli)) != len(moduli):
            raise CapacityError(f"expected 1 to {MAX_PLAIN_MODULI} plaintext moduli, all different")
        most = MOST_PLAIN_BITS if self.multiplies else MOST_PLAIN_BITS_OF_SUMS
        for modulus in moduli:
            if not LEAST_PLAIN_BITS <= modulus.bit_length() <= most:
                raise CapacityError(f"a plaintext modulus must have {LEAST_PLAIN_BITS} to {most} bits, got {modulus}")
            if modulus % (2 * self.ring_dimension) != 1 or not is_prime(modulus):
                raise CapacityError(
                    f"a plaintext modulus must be a prime that is 1 modulo {2 * self.ring_dimension}, got {modulus}"
                )

    @property
    def multiplies(self) -> bool:
        """Whether ciphertexts are multiplied by ciphertexts: if not, there is no relinearisation key."""
        return Chain(self.ring_dimension, self.modulus_bits, self.special_bits) in CHAINS[self.backend]

    @property
    def slots(self) -> int:
        """Integers that a ciphertext holds, N."""
        return self.ring_dimension

    @property
    def capacity_bits(self) -> float:
        """log2 of Q/2t for the largest t: noise below that in every coefficient decrypts."""
        return self.log2_modulus - 1 - math.log2(max(self.plain_moduli))

    @property
    def flooding_bits(self) -> int:
        """b: flooding noise is uniform on [-2^b, 2^b)."""
        share = FLOODING_SHARE[self.backend] if self.multiplies else SUM_FLOODING_SHARE
        return math.floor(self.capacity_bits + math.log2(share))


_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(number: int) -> bool:
    """Whether a number below 2^64 is prime.

    Miller and Rabin's test; up to 318,665,857,834,031,151,167,461, which is above 2^78, these twelve bases decide
    (Sorenson and Webster, Math. Comp. 86, 2017).
    """
    if number < 2:
        return False
    if number in _WITNESSES:
        return True
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in _WITNESSES:
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def primes_above(least: int, count: int, ring_dimension: int) -> tuple[int, ...]:
    """Return the `count` smallest primes above `least` that are 1 modulo 2N, ascending."""
    step = 2 * ring_dimension
    candidate = least // step * step + 1
    found: list[int] = []
    while len(found) < count:
        if candidate > least and is_prime(candidate):
            found.append(candidate)
        candidate += step
    return tuple(found)
