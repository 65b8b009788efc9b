"""Exact sessions with joint keys: in the rounds of `fhe_auc_keys.roles.joint_roles`, what is computed.

Nobody knows all pads here, and there is no opening. Each party encrypts both factors of every product, which are linear
in its sketch; the aggregator adds up and multiplies, pair by pair of ciphertexts.

Slots of a result hold single terms, under a mask that adds up to zero over each sum's. The aggregator adds one, and
each party another in its partial decryption: so the aggregator and some parties together see sums alone, as long as a
party is left whose mask they lack.

The echo of sealed sessions is in these rounds: a party seals its partial decryption to the others together with the
digest of the result that it was given, so that nobody who was given another one can open it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import encode
from fhe_auc.bfv.joint_keys import JointEvaluator, JointSetup, JointShare, fuse
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.session.computation import JointComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.sums.terms import Factor, Term
from fhe_auc_protocols.exact_auc.party_task import ExactTask
from fhe_auc_protocols.exact_auc.plan import ExactPlan


class ExactJointComputation(JointComputation[ExactTask, JointEvaluator, "list[Residues]"]):
    """That of the exact protocols, `binding` as `JointSetup` takes it.

    Raises `InputError` where the manifest has no exact plan for joint keys.
    """

    plan: ExactPlan
    setup: JointSetup

    def __init__(self, manifest: Manifest, binding: bytes) -> None:
        self.plan = plan = manifest.decoded_plan(ExactPlan)
        if not plan.joint_keys:
            raise InputError("the session's manifest asks for keys that somebody holds as a whole")
        self._first = manifest.parties[0]  # who puts in what is the same for all
        self._primes = plan.parameters.plain_moduli
        self.setup = JointSetup(plan.parameters, binding, products=plan.layout.ciphertexts, kept=plan.kept)
        half = self.setup.result_part
        self.partial_shape = Polynomials(half.ring_dimension, plan.primes * half.moduli)

    def encrypt(self, keys: JointShare, task: ExactTask, common_secret: bytes) -> tuple[bytes, ...]:
        """Return a party's parts of all ciphertexts: left and right of every pair, prime by prime."""
        first = task.party == self._first
        return tuple(
            keys.encrypt(values, which, block)
            for which, each in enumerate(task.encode(common_secret))
            for block, values in zip(self.setup.blocks(which), self._factors(each, which, first=first), strict=True)
        )

    def _factors(self, sketch: Residues, which: int, *, first: bool) -> Iterator[Residues]:
        """Yield the slots of all ciphertexts for a prime, left and right of every pair; one party is the `first`."""
        prime = self._primes[which]
        at = self.plan.computed.evaluate(sketch, prime)
        sides = [[_sides(term, at, prime, first=first) for term in wanted.terms] for wanted in self.plan.computed.sums]
        placed = [self.plan.layout.place([[term[side] for term in terms] for terms in sides]) for side in (0, 1)]
        for pair in zip(*placed, strict=True):
            yield from pair

    def public_keys(self, key_parts: Sequence[Words], relinearisation_part: Words) -> JointEvaluator:
        """Return what the aggregator computes with."""
        return JointEvaluator(self.setup, key_parts, relinearisation_part)

    def aggregate(self, keys: JointEvaluator, totals: Sequence[Words]) -> bytes:
        """Return the encrypted sums for each prime: hidden but for the sums' totals, and flooded."""
        results = []
        for which, prime in enumerate(self._primes):
            product = keys.product([totals[block] for block in self.setup.blocks(which)], which)
            keys.add_values(product, self._mask(prime), which)
            keys.flood(product, self.plan.flooding_exponent)
            results.append(keys.dump_result(product, which))
        return encode(tuple(results))

    def partial_decryption(self, share: JointShare, result: bytes) -> bytes:
        """Return a party's partial decryptions, one for each prime, masked."""
        parts = enumerate(zip(self.plan.result_parts(result), self._primes, strict=True))
        exponent = self.plan.smudging_exponent
        return b"".join(
            share.partial_decryption(each, which, exponent, self._mask(prime)) for which, (each, prime) in parts
        )

    def combine(self, result: bytes, partials: Iterable[Words]) -> list[Residues]:
        """Return the result's sums for each prime, shape (sums,)."""
        by_party = [np.split(each, self.plan.primes) for each in partials]
        return [
            self.plan.layout.totals(fuse(self.setup, each, which, [parts[which] for parts in by_party]), prime)
            for which, (each, prime) in enumerate(zip(self.plan.result_parts(result), self._primes, strict=True))
        ]

    def _mask(self, prime: int) -> Residues:
        """Return fresh residues, shape (slots,), uniform but that each sum's slots add up to zero."""
        none = np.zeros(len(self.plan.computed.sums), np.uint64)
        return self.plan.layout.mask(KeyStream(secrets.token_bytes(32)), none, prime)


def _sides(term: Term, at: Mapping[Factor, Residues], prime: int, *, first: bool) -> tuple[Residues, Residues]:
    """Return what a party adds to both factors of a term's entries, shape (length,) each.

    Constants go with the left one. Where the right one is 1, the `first` party alone puts that in.
    """
    left, *others = (at[factor] for factor in term.factors if not factor.constants)
    for factor in term.factors:
        if factor.constants:
            left = modular.multiply(left, at[factor], prime)
    right = others[0] if others else np.full(len(left), first, np.uint64)
    shape = np.broadcast_shapes(left.shape, right.shape)
    return np.broadcast_to(left, shape), np.broadcast_to(right, shape)
