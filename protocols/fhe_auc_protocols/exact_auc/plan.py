"""The parameters of an exact AUC: plaintext moduli, flooding, and what is left of the modulus.

The AUC is a fraction num/den with den = 2PN ≤ D = n²/2, n the bound on pooled rows. Parties learn num·r and den·r
modulo primes t_1, t_2, …, r random, and reconstruct the fraction from num/den modulo T = Π t_j:

    reconstruction   p/q = p'/q' modulo T with 0 ≤ p ≤ q ≤ D says p·q' = p'·q modulo T, and as integers where T > D²;
                     the algorithm that finds it asks for T > 2·D²
    more rows        than n, and den may exceed D: a residue that should be no fraction at all must not be one by
                     chance. num/den and tie/den have a denominator in common, which of all pairs of residues modulo T
                     one in T²/D³ has: fewer than one in 2^20
    verified         T ≥ 2^40·D²: of all residues modulo T one in 2^40 is such a fraction
    each prime       above 2^41, which is what verification's soundness rests on, and above n, so that P, N ≠ 0 modulo t

Noise, in every coefficient: what the circuit makes, at most X (`fhe_auc.bfv.ciphertext_noise`), then flooding ±2^b on
top, and with joint keys each party's smudging ±2^c. Their shares of the capacity Q/2t sum up to less than it.
Flooding hides but for a statistical distance of 2^-λ if b ≥ λ + log2 N + log2 X; smudging alike, for the case that an
aggregator has not flooded.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec

from fhe_auc import quantities
from fhe_auc.bfv.ciphertext_noise import noise_bound
from fhe_auc.bfv.parameters import DIGIT_BITS, BfvParameters, primes_above
from fhe_auc.errors import CapacityError
from fhe_auc.plan import (
    Parameter,
    Terms,
    describe_flooding,
    describe_key_parts,
    describe_ring,
    describe_smudging,
    ring_as_dict,
)
from fhe_auc.rlwe.statistical_security import check_smudging
from fhe_auc_protocols.exact_auc.packing import ExactPacking

PRIME_BITS = 41
"""Plaintext moduli are the smallest primes above 2^41 that there are."""

FORGERY_BITS = 40
LEAST_FLOODING_BITS, MOST_FLOODING_BITS = 40, 80

_SMUDGING_SHARE = 1 / 2  # of the capacity, for all parties together


class ExactPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything public that parties and aggregator must agree on for an exact encrypted AUC.

    Raises `CapacityError`: the parts do not fit together, or would not hide or verify what they must. A plan comes from
    whoever wrote the manifest.
    """

    kind: ClassVar[str] = "exact AUC"

    packing: ExactPacking
    """Where values stand in the slots. With authenticators results are verified, which takes a larger T."""
    parties: int
    """Most that submit, at least 1."""
    max_rows: int
    """Public bound n on the pooled rows: at least 2, and below the smallest prime."""
    joint_keys: bool
    """Whether each party holds a share of the secret key, instead of all the same key."""
    parameters: BfvParameters
    """Their plaintext moduli are the smallest primes above 2^41, as many as T needs (`least_modulus`)."""
    flooding_bits: int
    """λ, 40 to 80: flooding hides but for a statistical distance of 2^-λ, for each prime."""
    smudging_bits: int = 0
    """The same, 30 to 80, of each party's noise on its partial decryption; 0 without joint keys."""

    def __post_init__(self) -> None:
        if self.packing.slots != self.parameters.slots:
            raise CapacityError("the plan's packing has another number of slots than its parameters")
        if not self.packing.ties:
            raise CapacityError("the plan's packing leaves out the tied pairs, without which there is no half-width")
        for name, number, least in (("parties", self.parties, 1), ("max_rows", self.max_rows, 2)):
            if number < least:
                raise CapacityError(f"{name} must be at least {least}, got {number}")
        moduli = self.parameters.plain_moduli
        if moduli != primes_above(2**PRIME_BITS, len(moduli), self.parameters.ring_dimension):
            raise CapacityError(f"the plan's primes are not the smallest above 2^{PRIME_BITS}")
        if self.max_rows >= min(moduli):
            raise CapacityError(f"max_rows must be below the smallest prime, {min(moduli):,}, got {self.max_rows:,}")
        if self.modulus < least_modulus(self.max_rows, verified=self.packing.authenticated):
            raise CapacityError(f"{len(moduli)} primes are too few for {self.max_rows:,} pooled rows")
        least, most = LEAST_FLOODING_BITS, MOST_FLOODING_BITS
        if not least <= self.flooding_bits <= most:
            raise CapacityError(f"flooding_bits must lie between {least} and {most}, got {self.flooding_bits}")
        check_smudging(self.joint_keys, self.parameters.backend, self.smudging_bits)
        for what, found, asked in (
            ("flooding", self.flooding_margin, self.flooding_bits),
            ("smudging", self.smudging_margin, self.smudging_bits),
        ):
            if asked and found < asked:
                raise CapacityError(
                    f"{self.parties:,} parties and {self.packing.pairs:,} products of ciphertexts make so much noise "
                    f"that {what} hides it by {found:.1f} bits only, {asked} are asked for; take fewer parties or "
                    "thresholds"
                )

    @property
    def keys(self) -> str:
        """Who makes the keys: "sealed" or "joint"."""
        return "joint" if self.joint_keys else "sealed"

    @property
    def largest_den(self) -> int:
        """D, the largest 2PN of so many pooled rows."""
        return self.max_rows**2 // 2

    @property
    def modulus(self) -> int:
        """T, the product of the plaintext moduli."""
        return math.prod(self.parameters.plain_moduli)

    @property
    def thresholds(self) -> int:
        """Points of the session's grid."""
        return self.packing.bins

    @property
    def primes(self) -> int:
        """How many plaintext moduli there are."""
        return len(self.parameters.plain_moduli)

    @property
    def blocks(self) -> int:
        """Ciphertexts of a submission: left and right of every pair, modulo each prime."""
        return 2 * self.packing.pairs * self.primes

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's ciphertexts, without envelopes."""
        return self.blocks * self.parameters.submission_bytes

    @property
    def result_bytes(self) -> int:
        """Bytes of the result's ciphertexts, without envelopes: one for each prime, both polynomials."""
        return 2 * self.primes * self.parameters.submission_bytes

    @property
    def noise_bound(self) -> float:
        """X: no coefficient of the noise is larger before flooding, in absolute value."""
        return noise_bound(self.parameters, self.parties, joint_keys=self.joint_keys, products=self.packing.pairs)

    @property
    def flooding_margin(self) -> float:
        """λ that flooding reaches, at least `flooding_bits`."""
        return self._hidden_by(self.parameters.flooding_bits)

    @property
    def smudging_exponent(self) -> int:
        """c: a party's smudging is uniform on [-2^c, 2^c)."""
        return math.floor(self.parameters.capacity_bits + math.log2(_SMUDGING_SHARE / self.parties))

    @property
    def smudging_margin(self) -> float:
        """λ that smudging reaches, at least `smudging_bits`."""
        return self._hidden_by(self.smudging_exponent)

    @property
    def decryption_margin(self) -> float:
        """Bits by which X stays below what flooding and smudging leave of the capacity; decryption never fails."""
        capacity = self.parameters.capacity_bits
        taken = 2.0 ** (self.parameters.flooding_bits - capacity)
        if self.joint_keys:
            taken += self.parties * 2.0 ** (self.smudging_exponent - capacity)
        return capacity + math.log2(1 - taken) - math.log2(self.noise_bound)

    @property
    def key_bytes(self) -> int:
        """Bytes of one party's parts of joint keys, without envelopes: public key, and halves of switching keys.

        One becomes the relinearisation key, both halves of another follow from it. 0 without joint keys.
        """
        if not self.joint_keys:
            return 0
        digits = sum(-(-bits // DIGIT_BITS) for bits in self.parameters.modulus_bits)
        return (1 + 3 * digits) * self.parameters.polynomial_bytes()

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        parameters, packing = self.parameters, self.packing
        four_times = ", four times for the authenticators" if packing.authenticated else ""
        return [
            *describe_ring(
                parameters,
                "the smallest whose modulus takes a product and its flooding; N slots a ciphertext",
                "the room for noise, which is what hides",
            ),
            Parameter(
                "plaintext primes",
                f"{self.primes} of {min(parameters.plain_moduli).bit_length()} bits",
                "as many as tell a fraction of {max_rows:,} rows (--max-rows) from every other number",
            ),
            Parameter(
                "slots used",
                f"{packing.used:,} of {packing.slots:,}",
                f"num, tie and den of {{thresholds:,}} thresholds{four_times}",
            ),
            Parameter("ciphertexts", f"{self.blocks}", "left and right factors, for each prime"),
            describe_flooding(math.floor(self.flooding_margin), -self.flooding_margin),
            Parameter(
                "decryption margin, bits",
                f"{self.decryption_margin:.1f}",
                "the bound on noise stays so far below where decryption would fail",
            ),
            Parameter(
                "upload of a party",
                quantities.bytes_text(self.submission_bytes),
                "all ciphertexts; their random halves do not travel",
            ),
            *(
                [
                    describe_smudging(math.floor(self.smudging_margin)),
                    describe_key_parts(quantities.bytes_text(self.key_bytes)),
                ]
                if self.joint_keys
                else []
            ),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        return {
            **ring_as_dict(self, smudging_bits=self.smudging_margin if self.joint_keys else self.smudging_bits),
            "key_bytes": self.key_bytes,
            "plain_moduli": list(self.parameters.plain_moduli),
            "slots_used": self.packing.used,
            "flooding_bits": self.flooding_margin,
            "decryption_margin_bits": self.decryption_margin,
        }

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        return Terms(
            [
                Parameter("rows", f"at most {self.max_rows:,}", "of all parties together, a public bound"),
                Parameter("AUC released", "as a fraction", "to the parties, and to nobody else"),
            ],
            {"max_rows": self.max_rows},
        )

    def _hidden_by(self, exponent: int) -> float:
        return exponent - math.log2(self.parameters.ring_dimension) - math.log2(self.noise_bound)


def least_modulus(max_rows: int, *, verified: bool) -> int:
    """Return the least T for so many pooled rows."""
    largest_den = max_rows**2 // 2
    return (1 << (FORGERY_BITS if verified else 1)) * largest_den**2 + 1
