"""What the aggregator of an exact session computes: sums, one product, and what hides all but the wanted sums of it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from fhe_auc import bfv
from fhe_auc.bfv import Ciphertext
from fhe_auc.errors import DeserialisationError
from fhe_auc.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.polynomials import Sum, Words
from fhe_auc_protocols.exact_auc.plan import ExactPlan


class ExactAggregation:
    """Running sums of both ciphertexts of every pair and prime, and the blinded product."""

    def __init__(self, context: bfv.PublicContext, plan: ExactPlan) -> None:
        self.context = context
        self.plan = plan
        self._primes = plan.parameters.plain_moduli
        self._running = [Sum(context.ciphertext_shape) for _ in range(plan.blocks)]

    def add(self, ciphertexts: Sequence[bytes]) -> None:
        """Add one party's submission; errors as `read`, and the running sums are as they were."""
        for total, words in zip(self._running, self.read(ciphertexts), strict=True):
            total.add(words)

    def read(self, ciphertexts: Sequence[bytes]) -> list[Words]:
        """Return the coefficients of one party's ciphertexts; raise `DeserialisationError` if the plan has others."""
        if len(ciphertexts) != len(self._running):
            raise DeserialisationError(f"expected {len(self._running)} ciphertexts, got {len(ciphertexts)}")
        per_prime = 2 * self.plan.packing.pairs
        return [self.context.read_submission(each, number // per_prime) for number, each in enumerate(ciphertexts)]

    def sums(self, prime: int) -> list[tuple[Ciphertext, Ciphertext]]:
        """Return left and right of every pair, added up over parties, for the prime with this index."""
        pairs = self.plan.packing.pairs
        first = 2 * pairs * prime
        words = [total.words for total in self._running[first : first + 2 * pairs]]
        made = [self.context.ciphertext(each, prime) for each in words]
        return list(zip(made[0::2], made[1::2], strict=True))

    def result(self) -> tuple[bytes, ...]:
        """Return the blinded product for each prime, serialised."""
        return tuple(
            self.context.dump_result(self.blinded(self.product(self.sums(which)), which))
            for which in range(len(self._primes))
        )

    def product(self, sums: Sequence[tuple[Ciphertext, Ciphertext]]) -> Ciphertext:
        """Return left times right, slot by slot, added up over pairs."""
        total, *others = (self.context.multiply(left, right) for left, right in sums)
        for each in others:
            self.context.add_in_place(total, each)
        return total

    def blinded(self, product: Ciphertext, which: int) -> Ciphertext:
        """Return the product times one fresh multiplier, every slot hidden but for the sums over groups, flooded."""
        prime, slots = self._primes[which], self.plan.packing.slots
        stream = KeyStream(secrets.token_bytes(32))
        multiplier = modular.nonzero(stream, prime, 1)
        blinded = self.context.multiply_values(product, np.repeat(multiplier, slots))
        masked = self.context.add_values(blinded, self.plan.packing.mask(stream, prime))
        return self.context.flood(masked)
