"""What is computed in exact sessions: by a party on its own rows, and by all roles on padded sketches (`fhe_auc.sums`).

The pad key, made with the session's keys, is the aggregator's alone: a party, which with sealed keys has the secret
key, could decrypt the sum of the pads with it.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from fhe_auc import bfv
from fhe_auc.base.errors import DeserialisationError, InputError, UndefinedAucError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv import SecretContext
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.results.estimates import few_digits
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import pack
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.ring_parameters import SECURITY_BITS
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import PaddedComputation, PartyTask, Submission, check_rows
from fhe_auc.session.manifest import Manifest
from fhe_auc.sums.pads import PadKey, make_pad_key
from fhe_auc_protocols.exact_auc.auc_sums import counts_name, merged_name
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.release_part import Said, counted_rows
from fhe_auc_protocols.exact_auc.result_check import INTERVAL, accepted, authenticators
from fhe_auc_protocols.result_warnings import of_auc

_OF_HEADLINE = "auc", "binning_error", "fraction", "positives", "negatives", "standard_error", "interval"
_PROBE = 3  # residues: what is looked for has 24 bytes


class ExactComputation(PaddedComputation[PadKey, SecretContext]):
    """That of a manifest with an `ExactPlan`."""

    plan: ExactPlan

    def __init__(self, manifest: Manifest) -> None:
        self.plan = plan = manifest.decoded_plan(ExactPlan)
        self.parameters = plan.parameters
        self.proved = proved = plan.proved
        super().__init__(manifest, plan.sizes, plan.parameters.plain_moduli)
        if proved is not None:
            self.proofs = InputProofs(
                proved.statement,
                manifest.digest,
                constants_of=lambda parties: proved.constants([plan.cap_of(party) for party in parties]),
            )

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission or result has."""
        return max(self.plan.submission_bytes, self.plan.result_bytes) + 1024 * (1 + self.plan.primes)

    @property
    def pad_key_limit(self) -> int:
        """More bytes than public keys and a pad key have together: two polynomials a ciphertext, 8 bytes a number."""
        parameters = self.plan.parameters
        ciphertext = 16 * parameters.ring_dimension * (len(parameters.modulus_bits) + 1)
        return ciphertext * (sum(own.ciphertexts for own in self.plan.layouts) + 4)

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

    def under_pad(self, index: int, seed: bytes, values: Sequence[Residues]) -> Submission:
        """Return the padded sketch for each prime; raise `InputError` where it counts more rows than the row cap."""
        if self.proved is None or self.proofs is None:
            return super().under_pad(index, seed, values)
        submitted, pads = self.proved.submitted(values[0], self.plan.cap_of(index)), self.pads([index], [seed])
        parts, pad = self.padded([submitted], pads), pads[0][0, -self.proofs.size :]
        return Submission(parts, self.proofs.made(index, submitted[: self.proofs.digits], parts[0], seed, pad))

    def aggregate(self, keys: PadKey, totals: Sequence[Words]) -> bytes:
        """Return the encrypted sums, for each layer of each prime."""
        return encode(keys.result(self.sketches(totals), self.plan.kept))

    def decrypt(self, secret: SecretContext, result: bytes) -> list[Residues]:
        """Return the result's sums for each prime, shape (sums,)."""
        plan, parts = self.plan, decode(result, tuple[bytes, ...], "result")
        if len(parts) != plan.results:
            raise DeserialisationError(f"a result of {len(parts)} ciphertexts, of {plan.results}")
        given, totals = iter(parts), []
        for which, (layout, prime) in enumerate(zip(plan.layouts, self.primes, strict=True)):
            slots = [secret.decrypt(part, which, plan.kept) for part in islice(given, layout.layers)]
            totals.append(layout.totals(slots, prime))
        return totals

    def sketches(self, totals: Sequence[Words]) -> list[Residues]:
        """Return for each prime the sketch, shape (size,), that sums of submissions or pads stand for."""
        return [words[0] if self.proved is None else self.proved.sketch_of(words[0]) for words in totals]


class ExactTask(PartyTask[Residues, Sequence[Residues], Evaluation]):
    """What one party computes: its sketch, of rows that are rounded where the session says so, and what a result says.

    Raises `InputError`: the manifest is of another kind, or the party alone has more rows than the session may have.
    """

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        plan = manifest.decoded_plan(ExactPlan)
        check_rows(data.rows, plan.max_rows, party=data.name)
        index = manifest.parties.index(data.name) if data.name in manifest.parties else None
        for part in plan.parts:
            part.check_rows(data, index)
        self._counted_rows = counted_rows(data, plan.analysis, plan.max_rows)
        self.party = data.name
        self.plan = plan
        self._manifest = manifest
        self._data = data

    def encode(self, common_secret: bytes) -> list[Residues]:
        """Return this party's sketch for each prime, with authenticators if the plan has them, shape (size,).

        Raises `InputError` as `check_counts`, where there are no authenticators.
        """
        sketches = self.sketches()
        if not self.plan.authenticated:
            self.check_counts(sketches)
            return sketches
        private, index = KeyStream(secrets.token_bytes(32)), self._manifest.parties.index(self.party)
        tags = authenticators(self._manifest, self.plan, common_secret)
        return [own_tags.sketch(index, own, private) for own_tags, own in zip(tags, sketches, strict=True)]

    def sketches(self) -> list[Residues]:
        """Return the same without authenticators."""
        plan, sketch = self.plan, self.plan.release.sketch
        values = plan.sums.sketch(
            self._data, self._manifest.thresholds, plan.max_rows, plan.modulus, self._manifest.digest
        )
        primes = zip(plan.releases, plan.parameters.plain_moduli, strict=True)
        return [modular.residues(sketch.taken(values, own.sketch), prime) for own, prime in primes]

    def check_counts(self, encoded: Sequence[Residues]) -> None:
        """Check the counts in what `encode` returns, before they leave: nobody else ever sees them.

        Raises `InputError` where one is below zero, or those of all bins are not as many as the party's rows.
        """
        plan = self.plan
        bins = plan.sums.bins * plan.analysis.classes_of_rows  # all rows' counts, of the first model, come first
        first, *others = plan.parameters.plain_moduli
        counts = modular.signed(encoded[0][:bins], first)
        of_release = zip(plan.releases[1:], encoded[1:], others, strict=True)
        same = all(self._counted(release.sketch.split(own), prime) for release, own, prime in of_release)
        possible = counts.min() >= 0 and counts.max() <= self._counted_rows
        if not possible or counts.sum() != self._counted_rows or not same:
            raise InputError(
                f"party {self.party!r}: what is to be sent does not count its {self._data.rows:,} rows, so nothing is",
                party=self.party,
            )

    def _counted(self, vectors: Mapping[str, Residues], prime: int) -> bool:
        """Tell whether all rows' counts modulo a further prime, of merged bins perhaps, are as many as the rows."""
        names = [counts_name(0, 0, label) for label in range(self.plan.analysis.classes_of_rows)]
        own = [vectors[name] for name in (*names, *map(merged_name, names)) if name in vectors]
        return not own or int(modular.total(np.concatenate(own), prime)) == self._counted_rows % prime

    def read_result(self, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return what a result says: `decrypted` are its sums for each prime, shape (sums,).

        Raises errors as `result_check.accepted`; `UndefinedAucError`: all rows have the same label (of several classes:
        one has no row).
        """
        reading = accepted(self._manifest, self.plan, decrypted, counted, common_secret)
        try:
            said = [say(reading) for say in reading.sayings]
        except UndefinedAucError as error:
            if self.plan.authenticated:
                raise UndefinedAucError(f"{error}; this is verified") from None
            raise
        return self._evaluation(said, len(counted))

    def _evaluation(self, said: Sequence[Said], parties: int) -> Evaluation:
        plan, options = self.plan, self._manifest.options
        parts = plan.parts if plan.caps else ()
        headline, exactly = next((own.headline, own.binning_error) for own in said if own.headline is not None)
        weighted = plan.analysis.units is not None
        estimates = [row for own in said for row in own.estimates]
        comparisons = [row for own in said for row in own.comparisons]
        if weighted:
            headline = few_digits(headline)
            estimates, comparisons = [*map(few_digits, estimates)], [*map(few_digits, comparisons)]
        first: dict[str, Any] = {name: getattr(headline, name) for name in _OF_HEADLINE}
        settings = {name: value for name, value in options.items() if name != INTERVAL}
        settings |= {"primes": plan.primes, "flooding_bits": round(plan.flooding_margin, 1)}
        for own in said:
            settings |= own.settings
        horizon = plan.analysis.at.horizon if plan.analysis.at else None
        of_all = of_auc(self._manifest, parties, first["binning_error"], headline.standard_error, told=True)
        return Evaluation(
            **first,
            binning_error_fraction=None if weighted else exactly,
            numerical_error=math.nan if plan.privacy else 0.0,
            estimates=tuple([replace(row, horizon=horizon) for row in estimates]),
            comparisons=tuple([replace(row, horizon=horizon) for row in comparisons]),
            sites=tuple([row for own in said for row in own.sites]),
            warnings=(*of_all, *[text for own in said for text in own.warnings]),
            soundness=plan.soundness,
            protocol=self._manifest.protocol,
            backend=plan.parameters.backend,
            parties=parties,
            thresholds=plan.thresholds,
            verified=plan.authenticated,
            inputs_proved="" if not plan.caps else "row caps" if plan.privacy is None else "row caps, not the noise",
            inputs_not_proved=tuple([part.unproved for part in parts if part.unproved and part.vectors]),
            security_bits=SECURITY_BITS,
            settings=settings,
        )
