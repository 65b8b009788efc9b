"""What is computed in exact sessions, on padded sketches: `fhe_auc.sums` says how sums come out.

The pad key, made with the keys, is the aggregator's alone: a party, which has the secret key, could decrypt the sum of
the pads with it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from fhe_auc import bfv
from fhe_auc.base.serialise import encode
from fhe_auc.bfv import PublicContext, SecretContext
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words
from fhe_auc.session.computation import Padded, PaddedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.running_sum import RunningSum
from fhe_auc.sums.pads import PadKey, make_pad_key, pack, packed_size, pad, unpack
from fhe_auc_protocols.exact_auc.party_task import ExactTask
from fhe_auc_protocols.exact_auc.plan import ExactPlan

_PROBE = 3  # residues: what is looked for has 24 bytes


class ExactPaddedComputation(PaddedComputation[ExactTask, PadKey, SecretContext]):
    """That of a manifest with sealed keys, or a helper."""

    library: ClassVar[Any] = bfv
    plan: ExactPlan

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.plan = manifest.decoded_plan(ExactPlan)
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
