"""What one party of an exact session computes on its own rows, whoever has which key."""

import math
import secrets
from collections.abc import Sequence
from dataclasses import fields

from fhe_auc.base.errors import InputError, ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.question.thresholds import perhaps_found
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.parameters import SECURITY_BITS
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import PartyTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import check_rows
from fhe_auc.sums.proof import Authenticator, released
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.release_part import Reading, Said
from fhe_auc_protocols.result_warnings import of_auc

# Options of the manifest.
INTERVAL = "interval"  # the level of the confidence interval
PLAIN_INTERVAL = "plain_interval"  # DeLong's interval not on the logit scale
ROUND_SCORES = "round_scores"  # to how many decimals

_NOT_ACCEPTED = (
    "the result fails its check, so no number is given: the aggregator has not computed what it should, a party has "
    "submitted twice or numbers that do not fit together, or a message is damaged"
)


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
        return [
            self._authenticator(common_secret, which).sketch(index, own, private) for which, own in enumerate(sketches)
        ]

    def sketches(self) -> list[Residues]:
        """Return the same without authenticators, shape (release.sketch.size,)."""
        plan = self.plan
        values = plan.sums.sketch(
            self._data, self._manifest.thresholds, plan.max_rows, plan.modulus, self._manifest.digest
        )
        return [modular.residues(values, prime) for prime in plan.parameters.plain_moduli]

    def check_counts(self, encoded: Sequence[Residues]) -> None:
        """Check the counts in what `encode` returns, before they leave: nobody else ever sees them.

        Raises `InputError` where one is below zero, or those of all bins are not as many as the party's rows.
        """
        plan = self.plan
        bins = plan.sums.bins * plan.analysis.classes_of_rows  # all rows' counts, of the first model, come first
        counts = modular.centred([own[:bins] for own in encoded], plan.parameters.plain_moduli)
        if min(counts) < 0 or sum(counts) != self._data.rows:
            raise InputError(
                f"party {self.party!r}: what is to be sent does not count its {self._data.rows:,} rows, so nothing is",
                party=self.party,
            )

    def read(self, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return what a result says: `decrypted` are its sums for each prime, shape (sums,).

        Raises `VerificationError` or `ResultCheckError`: they are not those of an honest result over the rows of the
        parties counted; `UndefinedAucError`: all these have the same label (of several classes: one has no row).
        """
        plan, primes = self.plan, self.plan.parameters.plain_moduli
        if [len(own) for own in decrypted] != [len(plan.computed.sums)] * len(primes):  # only a helper may send such
            wrong = VerificationError if plan.authenticated else ResultCheckError
            raise wrong("the helper has sent too many sums, or too few, so no number is given", check="sums")
        reading, fits = self._reading(counted), True
        refusal: ResultCheckError | None = None
        # All is computed whatever fails: when a party answers would otherwise tell the aggregator its verdict.
        if plan.authenticated:
            named = frozenset(counted)
            indices = [index for index, party in enumerate(self._manifest.parties) if party in named]
            reading.rows = [plan.cap_of(index) for index in indices if plan.caps]
            for which, own in enumerate(decrypted):
                fits &= bool(self._authenticator(common_secret, which).accepts(own, indices))
            decrypted = [released(plan.release, own) for own in decrypted]
        try:
            plan.sums.read(modular.centred(decrypted, primes), reading)
        except ResultCheckError as error:
            refusal = error
        if not fits:
            raise VerificationError(_NOT_ACCEPTED, check="authenticator")
        if refusal is not None:
            if not plan.authenticated:
                raise refusal
            raise VerificationError(str(refusal) if refusal.check == "rows" else _NOT_ACCEPTED, check=refusal.check)
        try:
            said = [saying.said(reading) for saying in reading.sayings]
        except UndefinedAucError as error:
            if plan.authenticated:
                raise UndefinedAucError(f"{error}; this is verified") from None
            raise
        return self._evaluation(said, len(counted))

    def _reading(self, counted: Sequence[str]) -> Reading:
        plan, options = self.plan, self._manifest.options
        level = options.get(INTERVAL)
        return Reading(
            analysis=plan.analysis,
            max_rows=plan.max_rows,
            modulus=plan.modulus,
            parties=plan.parties,
            counted=counted,
            level=None if level is None else float(level),
            plain=bool(options.get(PLAIN_INTERVAL)),
            quantiles=perhaps_found(self._manifest.thresholds),
        )

    def _evaluation(self, said: Sequence[Said], parties: int) -> Evaluation:
        plan, options = self.plan, self._manifest.options
        parts = plan.parts if plan.caps else ()
        headline = next(own.headline for own in said if own.headline is not None)
        settings = {name: value for name, value in options.items() if name != INTERVAL}
        settings |= {"primes": plan.primes, "flooding_bits": round(plan.flooding_margin, 1)}
        for own in said:
            settings |= own.settings
        of_all = of_auc(self._manifest, parties, headline.binning_error, headline.standard_error, told=True)
        return Evaluation(
            **{own.name: getattr(headline, own.name) for own in fields(headline)},
            numerical_error=0.0 if headline.fraction is not None else math.nan,
            estimates=tuple([row for own in said for row in own.estimates]),
            comparisons=tuple([row for own in said for row in own.comparisons]),
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

    def _authenticator(self, common_secret: bytes, which: int) -> Authenticator:
        prime = self.plan.parameters.plain_moduli[which]
        return Authenticator(self.plan.release, common_secret, self._manifest.digest, which, prime)
