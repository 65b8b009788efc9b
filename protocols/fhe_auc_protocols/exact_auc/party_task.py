"""What one party of an exact session computes on its own rows, whoever has which key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from fhe_auc.computation import PartyTask
from fhe_auc.counts import PartyData, count
from fhe_auc.errors import EvaluationError, ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc.evaluation import Evaluation
from fhe_auc.intervals import DELONG, HANLEY_MCNEIL, Interval, delong, hanley_mcneil, on_logit_scale
from fhe_auc.keystream import KeyStream
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.parameters import SECURITY_BITS
from fhe_auc.sums.authenticator import Authenticator, released
from fhe_auc.sums.opening import integers
from fhe_auc_keys.encrypted_protocol import check_rows
from fhe_auc_protocols.exact_auc.auc_sums import AucOfSums, auc_of_sums, sketch_of
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.result_warnings import of_auc

INTERVAL = "interval"
"""Option of the manifest: the level of the confidence interval."""

_NO_INTERVAL = (
    "there is no confidence interval: each class needs two rows, and the scores of both classes must overlap; give the "
    "numbers of rows instead"
)

_FEW = 30
_FEW_ROWS = (
    f"fewer than {_FEW} positive or negative rows: such intervals are too narrow; those of 95 % held the AUC in 91 to "
    "95 % of simulated studies"
)

_NOT_ACCEPTED = (
    "the result fails its check, so no number is given: the aggregator has not computed what it should, a party has "
    "submitted twice, a message is damaged, or the pooled rows are more than max_rows"
)


class ExactTask(PartyTask[Residues, Sequence[Residues], Evaluation]):
    """What one party of an exact session computes on its own rows: its sketch, and what a result says.

    Rows come rounded where the session rounds scores.

    Raises `InputError`: the manifest is of another kind, or the party alone has more rows than the session may have.
    """

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        plan = manifest.decoded_plan(ExactPlan)
        check_rows(data, plan.max_rows)
        self.party = data.name
        self.plan = plan
        self._manifest = manifest
        self._data = data

    def encode(self, common_secret: bytes) -> list[Residues]:
        """Return this party's sketch for each prime, with authenticators if the plan has them, shape (size,)."""
        values = sketch_of(count(self._data, self._manifest.thresholds))
        found = [modular.residues(values, prime) for prime in self.plan.parameters.plain_moduli]
        if not self.plan.authenticated:
            return found
        private, index = KeyStream(secrets.token_bytes(32)), self._manifest.parties.index(self.party)
        return [
            authenticator.sketch(index, each, private)
            for authenticator, each in zip(self._authenticators(common_secret), found, strict=True)
        ]

    def read(self, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return AUC and binning error from a result's slots, one vector of shape (slots,) for each prime.

        Raises
        ------
        VerificationError, ResultCheckError
            They are not those of an honest result over the rows of the parties counted.
        UndefinedAucError
            The pooled rows have one class only.
        """
        plan, primes = self.plan, self.plan.parameters.plain_moduli
        totals = [plan.layout.totals(each, prime) for each, prime in zip(decrypted, primes, strict=True)]
        found = self._verified(totals, counted, common_secret) if plan.authenticated else self._accepted(totals)
        options = dict(self._manifest.options)
        level = options.pop(INTERVAL, None)
        standard_error, interval, why_none = (None, None, ()) if level is None else _interval(found, float(level))
        return Evaluation(
            auc=float(found.auc),
            binning_error=float(found.binning_error),
            numerical_error=0.0,
            positives=found.positives,
            negatives=found.negatives,
            standard_error=standard_error,
            interval=interval,
            fraction=found.auc,
            binning_error_fraction=found.binning_error,
            soundness=self._soundness if plan.authenticated else None,
            protocol=self._manifest.protocol,
            backend=plan.parameters.backend,
            parties=len(counted),
            thresholds=plan.thresholds,
            verified=plan.authenticated,
            security_bits=SECURITY_BITS,
            settings={
                **options,
                "primes": len(primes),
                "flooding_bits": round(plan.flooding_margin, 1),
            },
            warnings=(*of_auc(self._manifest, len(counted), float(found.binning_error)), *why_none),
        )

    @property
    def _soundness(self) -> float:
        """Of any party: groups without a party in common may each be given a result of their own."""
        manifest = self._manifest
        return len(manifest.parties) // manifest.min_parties * self.plan.soundness

    def _accepted(self, totals: Sequence[Residues]) -> AucOfSums:
        plan = self.plan
        return auc_of_sums(integers(totals, plan.parameters.plain_moduli), plan.max_rows, plan.modulus)

    def _verified(self, totals: Sequence[Residues], counted: Sequence[str], common_secret: bytes) -> AucOfSums:
        """As `_accepted`, of a result that the authenticators fit; else raise `VerificationError`.

        All of it is computed whatever fails: when a party answers would otherwise tell the aggregator its verdict.
        """
        named = frozenset(counted)
        indices = [index for index, party in enumerate(self._manifest.parties) if party in named]
        fits = [
            authenticator.accepts(each, indices)
            for authenticator, each in zip(self._authenticators(common_secret), totals, strict=True)
        ]
        outcome: AucOfSums | EvaluationError
        try:
            outcome = self._accepted([released(self.plan.release, each) for each in totals])
        except EvaluationError as error:
            outcome = error
        if not all(fits):
            raise VerificationError(_NOT_ACCEPTED, check="authenticator")
        if isinstance(outcome, ResultCheckError):
            raise VerificationError(_NOT_ACCEPTED, check=outcome.check) from None
        if isinstance(outcome, UndefinedAucError):
            raise UndefinedAucError(f"{outcome}; this is verified") from None
        if isinstance(outcome, EvaluationError):
            raise outcome
        return outcome

    def _authenticators(self, common_secret: bytes) -> list[Authenticator]:
        digest = self._manifest.digest
        return [
            Authenticator(self.plan.release, common_secret, digest, which, prime)
            for which, prime in enumerate(self.plan.parameters.plain_moduli)
        ]


def _interval(found: AucOfSums, level: float) -> tuple[float | None, Interval | None, tuple[str, ...]]:
    """Return standard error, interval, and a warning where there is none: of the cubic sums, or of the AUC alone."""
    if found.q10 is None or found.q01 is None:
        method, standard_error = HANLEY_MCNEIL, hanley_mcneil(found.auc, found.positives, found.negatives)
    else:
        method, of_sums = DELONG, delong(found.auc, found.positives, found.negatives, found.q10, found.q01)
        if of_sums is None:
            return None, None, (_NO_INTERVAL,)
        standard_error = of_sums
    interval = on_logit_scale(found.auc, standard_error, level, method)
    if interval is None:
        return standard_error, None, (_NO_INTERVAL,)
    return standard_error, interval, (_FEW_ROWS,) if min(found.positives, found.negatives) < _FEW else ()
