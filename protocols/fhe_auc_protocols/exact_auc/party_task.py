"""What one party of an exact session computes on its own rows, whoever has which key."""

import math
import secrets
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import cast

from fhe_auc.base.errors import InputError, ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.question.thresholds import perhaps_found
from fhe_auc.results.estimates import Headline
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.parameters import SECURITY_BITS
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import PartyTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import check_rows
from fhe_auc.sums.proof import Authenticator, released
from fhe_auc_protocols.exact_auc.analysis_sums import PooledSums
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy, PrivateReading
from fhe_auc_protocols.exact_auc.estimates_from_sums import Reading
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.result_warnings import of_auc, of_parties

# Options of the manifest.
INTERVAL = "interval"  # the level of the confidence interval
PLAIN_INTERVAL = "plain_interval"  # DeLong's interval not on the logit scale
ROUND_SCORES = "round_scores"  # to how many decimals

_OTHER_ROWS = (
    "there is no average precision: not just these parties, with the same rows, are in the session before that is named"
)

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
        if plan.privacy is not None and data.name in manifest.parties:
            stated = plan.cap_of(manifest.parties.index(data.name))
            if data.rows not in (0, stated):  # none are there once they are in, and gone
                raise InputError(
                    f"party {data.name!r} has {data.rows:,} rows, and the session says {stated:,}, in public: with "
                    "epsilon a party takes part with all of them; have the session made for the rows that there are",
                    party=data.name,
                )
        elif plan.caps:
            named = data.name in manifest.parties
            cap = plan.cap_of(manifest.parties.index(data.name) if named else 0)
            if data.rows > cap:
                raise InputError(
                    f"party {data.name!r} has {data.rows:,} rows, more than its row cap, {cap:,}, within which it has "
                    "to prove them",
                    party=data.name,
                )
        self.party = data.name
        self.plan = plan
        self._manifest = manifest
        before = data.before
        # All parties must have M_k of one list: an aggregator with two openings could have given each another one.
        of_this = manifest.before, manifest.grid, frozenset(manifest.parties)
        if before is not None and (before.session, before.grid, frozenset(before.parties)) != of_this:
            data = replace(data, before=None)
        self._data = data

    def encode(self, common_secret: bytes) -> list[Residues]:
        """Return this party's sketch for each prime, with authenticators if the plan has them, shape (size,).

        Raises `InputError` as `check_counts`, where there are no authenticators.
        """
        found = self.sketches()
        if not self.plan.authenticated:
            self.check_counts(found)
            return found
        private, index = KeyStream(secrets.token_bytes(32)), self._manifest.parties.index(self.party)
        pairs = zip(self._authenticators(common_secret), found, strict=True)
        return [authenticator.sketch(index, each, private) for authenticator, each in pairs]

    def sketches(self) -> list[Residues]:
        """Return the same without authenticators, shape (release.sketch.size,)."""
        plan = self.plan
        values = plan.sums.sketch(
            self._data, self._manifest.thresholds, plan.max_rows, plan.modulus, self._manifest.digest
        )
        return [plan.sums.hidden(modular.residues(values, prime), prime) for prime in plan.parameters.plain_moduli]

    def check_counts(self, encoded: Sequence[Residues]) -> None:
        """Check the counts in what `encode` returns, before they leave: nobody else ever sees them.

        Raises `InputError` where one is below zero, or those of all bins are not as many as the party's rows.
        """
        plan = self.plan
        bins = plan.sums.bins * plan.analysis.classes_of_rows  # all rows' counts, of the first model, come first
        counts = modular.centred([each[:bins] for each in encoded], plan.parameters.plain_moduli)
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
        if [len(each) for each in decrypted] != [len(plan.computed.sums)] * len(primes):  # only a helper may send such
            refusal = VerificationError if plan.authenticated else ResultCheckError
            raise refusal("the helper has sent too many sums, or too few, so no number is given", check="sums")
        sums = decrypted, counted
        found = self._verified(*sums, common_secret) if plan.authenticated else self._accepted(*sums)
        level = self._manifest.options.get(INTERVAL)
        given = None if level is None else float(level)
        if isinstance(found, PooledSums):
            return self._exact(found, counted, given)
        return self._private(found, counted, given)

    def _evaluation(self, first: Headline, parties: int) -> Evaluation:
        plan, options = self.plan, self._manifest.options
        said = {each.name: getattr(first, each.name) for each in fields(first)}
        return Evaluation(
            **said,
            numerical_error=0.0,
            soundness=plan.soundness(self._manifest.min_parties),
            protocol=self._manifest.protocol,
            backend=plan.parameters.backend,
            parties=parties,
            thresholds=plan.thresholds,
            verified=plan.authenticated,
            inputs_proved="" if not plan.caps else "row caps" if plan.privacy is None else "row caps, not the noise",
            inputs_not_proved=self._inputs_not_proved,
            security_bits=SECURITY_BITS,
            settings={
                **{name: value for name, value in options.items() if name != INTERVAL},
                "primes": plan.primes,
                "flooding_bits": round(plan.flooding_margin, 1),
            },
        )

    @property
    def _inputs_not_proved(self) -> tuple[str, ...]:
        """What rests on entries of the sketch that are no counts, where counts are proved."""
        plan = self.plan
        others = {
            "comparisons": plan.interval and bool(plan.analysis.comparisons),
            "sites": plan.analysis.heterogeneity,
            "intervals by patients": bool(plan.analysis.cluster) and plan.interval,
            "average precision": plan.average_precision,
        }
        return tuple(name for name, there in others.items() if there and plan.caps)

    def _exact(self, sums: PooledSums, counted: Sequence[str], level: float | None) -> Evaluation:
        plan = self.plan
        options, quantiles = self._manifest.options, perhaps_found(self._manifest.thresholds)
        plain = bool(options.get(PLAIN_INTERVAL))
        reading = Reading(plan.analysis, sums, len(counted), level, plain=plain, quantiles=quantiles)
        try:
            headline = reading.headline()
        except UndefinedAucError as error:
            if plan.authenticated:
                raise UndefinedAucError(f"{error}; this is verified") from None
            raise
        precision = sums.average_precision
        before = self._data.before
        same = before is not None and set(before.parties) == set(counted)
        others = precision is not None and (precision.changed > 0 or not same)
        evaluation, clusters = self._evaluation(headline, len(counted)), sums.clusters
        of_patients = {} if clusters is None else {"patients": clusters.patients[0][-1]}
        return replace(
            evaluation,
            settings={**evaluation.settings, **of_patients},
            average_precision=None if precision is None or others else float(precision.value),
            estimates=reading.estimates(),
            comparisons=reading.comparisons(),
            sites=reading.sites(),
            warnings=(
                *of_auc(self._manifest, len(counted), headline.binning_error, headline.standard_error, told=True),
                *reading.warnings(),
                *([_OTHER_ROWS] * others),
            ),
        )

    def _private(self, found: Sequence[int], counted: Sequence[str], level: float | None) -> Evaluation:
        privacy = cast("Privacy", self.plan.privacy)
        ties_meant = not sum((self.plan.runs or (1,))[::2])  # there are no open bins
        reading = PrivateReading(privacy, self.plan.analysis.models, found, self._rows_of(counted), level, ties_meant)
        evaluation = self._evaluation(reading.headline(), len(counted))
        return replace(
            evaluation,
            estimates=reading.estimates(),
            numerical_error=math.nan,
            settings={**evaluation.settings, **reading.settings()},
            warnings=(*of_parties(self._manifest, len(counted)), *reading.warnings()),
        )

    def _rows_of(self, counted: Sequence[str]) -> list[int]:
        """Return how many rows these parties have, which is public with a budget and proved as row caps."""
        of_party = dict(zip(self._manifest.parties, self.plan.caps, strict=True))
        return [of_party[name] for name in counted]

    def _accepted(self, totals: Sequence[Residues], counted: Sequence[str]) -> PooledSums | list[int]:
        plan, found = self.plan, modular.centred(totals, self.plan.parameters.plain_moduli)
        if plan.privacy is not None:
            plan.privacy.check(found, self._rows_of(counted))
            return found
        return plan.sums.read(found, plan.max_rows, plan.modulus, plan.parties)

    def _verified(
        self, totals: Sequence[Residues], counted: Sequence[str], common_secret: bytes
    ) -> PooledSums | list[int]:
        """As `_accepted`, of a result that the authenticators fit; else raise `VerificationError`.

        All of it is computed whatever fails: when a party answers would otherwise tell the aggregator its verdict.
        """
        named = frozenset(counted)
        indices = [index for index, party in enumerate(self._manifest.parties) if party in named]
        fits = [
            authenticator.accepts(each, indices)
            for authenticator, each in zip(self._authenticators(common_secret), totals, strict=True)
        ]
        outcome: PooledSums | list[int] | ResultCheckError
        try:
            outcome = self._accepted([released(self.plan.release, each) for each in totals], counted)
        except ResultCheckError as error:
            outcome = error
        if not all(fits):
            raise VerificationError(_NOT_ACCEPTED, check="authenticator")
        if isinstance(outcome, ResultCheckError):
            if outcome.check == "rows":
                raise VerificationError(str(outcome), check="rows") from None
            raise VerificationError(_NOT_ACCEPTED, check=outcome.check) from None
        return outcome

    def _authenticators(self, common_secret: bytes) -> list[Authenticator]:
        digest = self._manifest.digest
        return [
            Authenticator(self.plan.release, common_secret, digest, which, prime)
            for which, prime in enumerate(self.plan.parameters.plain_moduli)
        ]
