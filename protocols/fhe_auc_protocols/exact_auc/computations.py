"""What is computed in exact sessions, on padded sketches or on ciphertexts under joint keys.

**Sealed keys or a helper.** Parties send padded sketches. The opening, made with the keys, is the aggregator's alone: a
party, which has the secret key, could decrypt the sum of the pads with it. `fhe_auc.sums` says how sums come out.

**Joint keys**, in the rounds of `fhe_auc_keys.roles.joint_roles`: docs/security/joint-keys.md. Each party encrypts both
factors of every product, which are linear in its sketch; the aggregator adds up and multiplies, pair by pair of
ciphertexts. Slots of a result hold single terms, under a mask that adds up to zero over each sum's. The aggregator adds
one, and each party another in its partial decryption: so the aggregator and some parties together see sums alone, as
long as a party is left whose mask they lack.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fhe_auc import bfv
from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import encode
from fhe_auc.bfv import PublicContext, SecretContext
from fhe_auc.bfv.joint_keys import JointEvaluator, JointSetup, JointShare, fuse
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words
from fhe_auc.session.computation import JointComputation, Padded, PaddedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.running_sum import RunningSum
from fhe_auc.sums.pads import PadKey, make_pad_key, pack, packed_size, pad, unpack
from fhe_auc.sums.terms import Factor, Term
from fhe_auc_protocols.exact_auc.party_task import ExactTask
from fhe_auc_protocols.exact_auc.plan import ExactPlan

_PROBE = 3  # residues: what is looked for has 24 bytes


class ExactPaddedComputation(PaddedComputation[ExactTask, PadKey, SecretContext]):
    """That of a manifest with sealed keys, or a helper; raises `InputError` where its plan is none for such keys."""

    library: ClassVar[Any] = bfv
    plan: ExactPlan

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.plan = manifest.decoded_plan(ExactPlan)
        if self.plan.joint_keys:
            raise InputError("the session's manifest asks for joint keys")
        self._proved = proved = self.plan.proved
        self._size = self.plan.computed.sketch.size if proved is None else proved.size  # of what is submitted
        self._primes = self.plan.parameters.plain_moduli
        self._shapes = [Polynomials(self._size, (prime,)) for prime in self._primes]
        if proved is not None:
            digits = proved.statement.digits
            self.proofs = InputProofs(
                proved.statement,
                manifest.digest,
                digits_in=lambda padded: self._unpacked(0, padded)[0, :digits],
                pad_of=lambda party, seed: self.pads(party, seed)[0][:digits],
                constants_of=lambda party: proved.constants(self.plan.cap_of(party)),
            )

    @property
    def part_bytes(self) -> tuple[int, ...]:
        """Bytes of a padded sketch for each prime."""
        return tuple(packed_size(self._size, prime) for prime in self._primes)

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission or result has."""
        return max(self.plan.submission_bytes, self.plan.result_bytes) + 1024 * (1 + self.plan.primes)

    @property
    def opening_limit(self) -> int:
        """More bytes than public keys and an opening have together: two polynomials a ciphertext, 8 bytes a number."""
        parameters = self.plan.parameters
        ciphertext = 16 * parameters.ring_dimension * (len(parameters.modulus_bits) + 1)
        return ciphertext * (self.plan.layout.ciphertexts * self.plan.primes + 4)

    def sum_of_pads(self, seeds: Iterable[tuple[int, bytes]]) -> list[Words]:
        """Return the sum of these pads, by index, for each prime, shape (1, size)."""
        return self.added([values[None] for values in self.pads(index, seed)] for index, seed in seeds)

    def added(self, sums: Iterable[Sequence[Words]]) -> list[Words]:
        """Return the sum of such sums, of pads or of padded sketches."""
        totals = [PolynomialSum(shape) for shape in self._shapes]
        for words in sums:
            for total, each in zip(totals, words, strict=True):
                total.add(each)
        return [total.words for total in totals]

    def open_sum(self, material: bytes, pads: Sequence[Words]) -> bytes:
        """Return the opening of such a sum of pads."""
        totals = self._sketches(pads)
        made = make_pad_key(self.load_secret(material), self.plan.computed, totals)
        for total, prime in zip(totals, self._primes, strict=True):
            if total[:_PROBE].tobytes() in made or pack(total[: 2 * _PROBE], prime)[: 8 * _PROBE] in made:
                raise RuntimeError("the opening shows the sum of the pads; nothing was written")
        return made

    def opened(self, public: PublicContext, opening: bytes) -> PadKey:
        """Return the opening under these keys."""
        return PadKey.load(public, self.plan.computed, opening)

    def running_sum(self) -> RunningSum:
        """Return an empty sum of padded sketches."""
        return RunningSum(self._shapes, self._unpacked)

    def under_pad(self, task: ExactTask, index: int, seed: bytes, common_secret: bytes) -> Padded:
        """Return a padded sketch for each prime; raise `InputError` where it is not one of the party's rows."""
        encoded = task.encode(common_secret)
        if not self.plan.authenticated:
            task.check_counts(encoded)
        if self._proved is not None:
            encoded = [self._proved.submitted(encoded[0], self.plan.cap_of(index))]
        sketches = zip(encoded, self.pads(index, seed), self._primes, strict=True)
        parts = tuple(pack(modular.add(sketch, own, prime), prime) for sketch, own, prime in sketches)
        if self._proved is None or self.proofs is None:
            return Padded(parts)
        return Padded(parts, self.proofs.made(index, encoded[0][: self._proved.statement.digits], parts[0], seed))

    def aggregate(self, keys: PadKey, totals: Sequence[Words]) -> bytes:
        """Return the encrypted sums, for each prime."""
        return encode(keys.result(self._sketches(totals), self.plan.kept))

    def decrypt(self, keys: SecretContext, result: bytes) -> list[Residues]:
        """Return the result's sums for each prime, shape (sums,)."""
        plan = self.plan
        slots = (keys.decrypt(each, which, plan.kept) for which, each in enumerate(plan.result_parts(result)))
        return [plan.layout.totals(each, prime) for each, prime in zip(slots, self._primes, strict=True)]

    def _unpacked(self, number: int, part: bytes, _: Words | None = None) -> Words:
        return unpack(part, self._size, self._primes[number])[None]

    def _sketches(self, totals: Sequence[Words]) -> list[Residues]:
        """Return for each prime the sketch, shape (size,), that sums of submissions or pads stand for."""
        return [words[0] if self._proved is None else self._proved.sketch_of(words[0]) for words in totals]

    def pads(self, party: int, seed: bytes) -> list[Residues]:
        """Return the pad of the party of this index for each prime."""
        session = self._manifest.session
        return [pad(seed, session, party, which, prime, self._size) for which, prime in enumerate(self._primes)]


class ExactJointComputation(JointComputation[ExactTask, JointEvaluator, "list[Residues]"]):
    """With joint keys, `binding` as of `JointSetup`; raises `InputError` where the manifest has no plan for them."""

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
