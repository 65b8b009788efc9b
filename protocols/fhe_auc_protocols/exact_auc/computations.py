"""What is computed in exact sessions, on padded sketches; `fhe_auc.sums` says how sums come out.

The pad key, made with the session's keys, is the aggregator's alone: a party, which with sealed keys has the secret
key, could decrypt the sum of the pads with it.
"""

from collections.abc import Iterable, Sequence

from fhe_auc import bfv
from fhe_auc.base.serialise import encode
from fhe_auc.bfv import SecretContext
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words
from fhe_auc.session.aggregator import RunningSum
from fhe_auc.session.computation import PaddedComputation, Submission
from fhe_auc.session.manifest import Manifest
from fhe_auc.sums.pads import PadKey, make_pad_key, pack, packed_size, pad, unpack
from fhe_auc_protocols.exact_auc.plan import ExactPlan

_PROBE = 3  # residues: what is looked for has 24 bytes


class ExactComputation(PaddedComputation[PadKey, SecretContext]):
    """That of a manifest with an `ExactPlan`."""

    plan: ExactPlan

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.plan = manifest.decoded_plan(ExactPlan)
        self.parameters = self.plan.parameters
        self.proved = proved = self.plan.proved
        self.size = self.plan.computed.sketch.size if proved is None else proved.size  # of what is submitted
        self.primes = self.plan.parameters.plain_moduli
        self._shapes = [Polynomials(self.size, (prime,)) for prime in self.primes]
        if proved is not None:
            digits = proved.statement.digits
            self.proofs = InputProofs(
                proved.statement,
                manifest.digest,
                digits_in=lambda padded: unpack(padded, self.size, self.primes[0])[:digits],
                pad_of=lambda party, seed: self.pads(party, seed)[0][:digits],
                constants_of=lambda party: proved.constants(self.plan.cap_of(party)),
            )

    @property
    def part_bytes(self) -> tuple[int, ...]:
        """Bytes of a padded sketch for each prime."""
        return tuple(packed_size(self.size, prime) for prime in self.primes)

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission or result has."""
        return max(self.plan.submission_bytes, self.plan.result_bytes) + 1024 * (1 + self.plan.primes)

    @property
    def pad_key_limit(self) -> int:
        """More bytes than public keys and a pad key have together: two polynomials a ciphertext, 8 bytes a number."""
        parameters = self.plan.parameters
        ciphertext = 16 * parameters.ring_dimension * (len(parameters.modulus_bits) + 1)
        return ciphertext * (self.plan.layout.ciphertexts * self.plan.primes + 4)

    def sum_of_pads(self, seeds: Iterable[tuple[int, bytes]]) -> list[Words]:
        """Return the sum of these pads, by index, for each prime, shape (1, size)."""
        totals = [PolynomialSum(shape) for shape in self._shapes]
        for index, seed in seeds:  # one after the other: a pad is as large as a sketch
            for total, values in zip(totals, self.pads(index, seed), strict=True):
                total.add(values[None])
        return [total.words for total in totals]

    def added(self, sums: Iterable[Sequence[Words]]) -> list[Words]:
        """Return the sum of such sums, of pads or of padded sketches."""
        totals = [PolynomialSum(shape) for shape in self._shapes]
        for words in sums:
            for total, own in zip(totals, words, strict=True):
                total.add(own)
        return [total.words for total in totals]

    def pad_key(self, secret: SecretContext, pads: Sequence[Words]) -> bytes:
        """Return the pad key for such a sum of pads."""
        totals = self.sketches(pads)
        made = make_pad_key(secret, self.plan.computed, totals)
        for total, prime in zip(totals, self.primes, strict=True):
            if total[:_PROBE].tobytes() in made or pack(total[: 2 * _PROBE], prime)[: 8 * _PROBE] in made:
                raise RuntimeError("the pad key shows the sum of the pads; nothing was written")
        return made

    def keys(self, context: bytes, pad_key: bytes) -> PadKey:
        """Return the pad key under these public keys."""
        public = bfv.load_public(context)
        self.manifest.check_keys(self.plan, public.parameters, public.fingerprint)
        return PadKey.load(public, self.plan.computed, pad_key)

    def secret(self, context: bytes) -> SecretContext:
        """Return the secret key."""
        secret = bfv.load_secret(context)
        self.manifest.check_keys(self.plan, secret.parameters, secret.fingerprint)
        return secret

    def running_sum(self) -> RunningSum:
        """Return an empty sum of padded sketches."""
        return RunningSum(self._shapes, self._unpacked)

    def under_pad(self, index: int, seed: bytes, values: Sequence[Residues]) -> Submission:
        """Return a padded sketch for each prime; raise `InputError` where it counts more rows than the row cap."""
        submitted = values
        if self.proved is not None:
            submitted = [self.proved.submitted(values[0], self.plan.cap_of(index))]
        padded = zip(submitted, self.pads(index, seed), self.primes, strict=True)
        parts = tuple([pack(modular.add(sketch, own, prime), prime) for sketch, own, prime in padded])
        if self.proved is None or self.proofs is None:
            return Submission(parts)
        return Submission(parts, self.proofs.made(index, submitted[0][: self.proved.statement.digits], parts[0], seed))

    def aggregate(self, keys: PadKey, totals: Sequence[Words]) -> bytes:
        """Return the encrypted sums, for each prime."""
        return encode(keys.result(self.sketches(totals), self.plan.kept))

    def decrypt(self, secret: SecretContext, result: bytes) -> list[Residues]:
        """Return the result's sums for each prime, shape (sums,)."""
        plan, parts = self.plan, self.plan.result_parts(result)
        slots = [secret.decrypt(part, which, plan.kept) for which, part in enumerate(parts)]
        return [plan.layout.totals(own, prime) for own, prime in zip(slots, self.primes, strict=True)]

    def _unpacked(self, number: int, part: bytes, into: Words) -> Words:
        return unpack(part, self.size, self.primes[number])[None]

    def sketches(self, totals: Sequence[Words]) -> list[Residues]:
        """Return for each prime the sketch, shape (size,), that sums of submissions or pads stand for."""
        return [words[0] if self.proved is None else self.proved.sketch_of(words[0]) for words in totals]

    def pads(self, party: int, seed: bytes) -> list[Residues]:
        """Return the pad of the party of this index for each prime."""
        session = self.manifest.session
        return [pad(seed, session, party, which, prime, self.size) for which, prime in enumerate(self.primes)]
