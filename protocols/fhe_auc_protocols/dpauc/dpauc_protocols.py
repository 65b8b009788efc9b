"""The three plug-ins of [DPAUC], and their roles; `fhe_auc_protocols.dpauc` says what they do."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError, InputError, UndefinedAucError
from fhe_auc.base.extras import require
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request, Spending
from fhe_auc_protocols import exact_sampling, opendp_samplers, result_warnings
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, Budget
from fhe_auc_protocols.dpauc.roc import STATISTICS, estimate, is_of_rows, statistics
from fhe_auc_protocols.unencrypted_protocol import ClearSums, UnencryptedProtocol

_LARGEST_FLOAT = 2.0**62  # far from where a cast to int64 overflows
_LOUD = 0.1  # noise above this share of the rarer label's rows is worth a warning
_OUTSIDE = 0.05  # share of the rows that may lie beyond either end of the thresholds before that is worth one
_SURELY = 4.0  # standard deviations of noise


class NoisyCounts(ClearSums, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Noisy counts at each threshold, m of each kind, of one party or of all; they may be negative."""

    tp: list[int]
    fp: list[int]
    fn: list[int]
    tn: list[int]

    @classmethod
    def integers(cls, manifest: Manifest, terms: Budget) -> int:
        """Return how many integers the counts are."""
        return len(STATISTICS) * len(manifest.thresholds)

    def check(self, manifest: Manifest, terms: Budget) -> None:
        """Raise `DeserialisationError` for other lengths, or counts that no such party has."""
        limit, thresholds = self.parties * _count_limit(manifest), len(manifest.thresholds)
        for name in STATISTICS:
            row = getattr(self, name)
            if len(row) != thresholds:
                raise DeserialisationError(f"{len(row)} {name} counts, but the session has {thresholds} thresholds")
            if max(row) > limit or min(row) < -limit:
                raise DeserialisationError(f"a {name} count is beyond ±{limit:,}")
        if terms.flips and not is_of_rows(self.array()):  # exact, but for the labels
            raise DeserialisationError("the counts are not those of flipped labels")

    def array(self) -> NDArray[np.int64]:
        """Return the counts, shape (4, m), in the order of `roc.STATISTICS`."""
        return np.array([self.tp, self.fp, self.fn, self.tn], dtype=np.int64)


class DpaucProtocol(UnencryptedProtocol[Evaluation, Budget, NoisyCounts]):
    """Base of the three plug-ins."""

    sums = NoisyCounts

    mechanism: ClassVar[str]  # one of `fhe_auc_protocols.dpauc.budget`

    trust = "aggregator and parties compute what they should; a manifest whose budget every party has checked"

    def check_party(self, terms: Budget, data: PartyData) -> None:
        """Raise `InputError` where scores with a budget are not all in [0, 1]."""
        if terms.score_epsilon is not None and (data.y_score.min() < 0 or data.y_score.max() > 1):
            raise InputError(f"party {data.name!r}: score_epsilon is for scores in [0, 1] only, and some lie outside")

    def submission(self, manifest: Manifest, terms: Budget, data: PartyData) -> NoisyCounts:
        """Return counts with noise, or of flipped labels."""
        labels, scores = data.y_true, data.y_score
        if terms.flips:
            below = exact_sampling.threshold(1, 1, terms.epsilon)
            labels = labels ^ exact_sampling.choose(exact_sampling.secure(), below, len(labels))
        if terms.score_scale is not None:
            scores = opendp_samplers.laplace(scores, terms.score_scale)
        counts = statistics(labels, scores, manifest.thresholds)
        if terms.mechanism == LAPLACE:
            counts = opendp_samplers.laplace(counts, terms.noise_scale)
        elif terms.mechanism == GAUSSIAN:
            noised = np.rint(opendp_samplers.gaussian(counts.astype(np.float64), terms.noise_scale))
            counts = noised.clip(-_LARGEST_FLOAT, _LARGEST_FLOAT).astype(np.int64)
        limit = _count_limit(manifest)
        return NoisyCounts(1, *np.clip(counts, -limit, limit).tolist())

    def told(self, manifest: Manifest, terms: Budget, sums: NoisyCounts) -> Evaluation:
        """Return the AUC."""
        counts, flipped = sums.array().astype(np.float64), terms.flip_probability if terms.flips else None
        auc = float(estimate(counts, terms.curve, flip_probability=flipped))
        if math.isnan(auc):
            raise UndefinedAucError("the flipped labels hold one class only, so there is no AUC; more rows are needed")
        noise = {"noise_scale": terms.noise_scale} if flipped is None else {"flip_probability": flipped}
        return self.evaluation(
            manifest,
            auc,
            sums.parties,
            thresholds=len(manifest.thresholds),
            settings={**terms.as_options(), **noise},
            warnings=_warnings(manifest, terms, counts, sums.parties, auc),
        )

    def spends(self, manifest: Manifest) -> Spending:
        """Return the budget of the labels; where scores have one as well, that of a row, which is both together."""
        budget = self.terms(manifest.options, len(manifest.thresholds))
        if budget.score_epsilon is not None:
            return Spending(budget.epsilon + budget.score_epsilon, "row")
        return Spending(budget.epsilon, "label", budget.delta or 0.0)

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the budget as options; raise `InputError` for a wrong one."""
        return self.terms(request.options, len(request.thresholds)).as_options()

    def terms(self, options: Mapping[str, object], thresholds: int) -> Budget:
        """Return the budget that options state; raise `InputError` for a bad one, or without the extra."""
        require("dp")
        return Budget.checked(self.mechanism, options, thresholds)


class DpaucLaplace(DpaucProtocol):
    """Plug-in ``dpauc-laplace``."""

    name = "dpauc-laplace"
    summary = "label differential privacy; Laplace noise on each party's counts, nothing encrypted"
    mechanism = LAPLACE
    options = options_of.DPAUC_LAPLACE


class DpaucGaussian(DpaucProtocol):
    """Plug-in ``dpauc-gaussian``."""

    name = "dpauc-gaussian"
    summary = "label differential privacy, but for a chance of delta; Gaussian noise on each party's counts"
    mechanism = GAUSSIAN
    options = options_of.DPAUC_GAUSSIAN


class DpaucRandomizedResponse(DpaucProtocol):
    """Plug-in ``dpauc-rr``."""

    name = "dpauc-rr"
    summary = "label differential privacy; each party flips labels at random, nothing encrypted"
    trust = "as dpauc-laplace: check the manifest's budget; the aggregator learns how many scores lie where"
    mechanism = RANDOMIZED_RESPONSE
    options = options_of.DPAUC_RANDOMIZED_RESPONSE


def _count_limit(manifest: Manifest) -> int:
    """Return the largest count that a party may send: the sum of all stays an int64."""
    return (2**63 - 1) // len(manifest.parties)


def _warnings(
    manifest: Manifest, budget: Budget, sums: NDArray[np.float64], parties: int, auc: float
) -> tuple[str, ...]:
    found = ["epsilon is spent by every session, and by every restart within one: budgets on the same labels add up"]
    if budget.weak:
        found.append(budget.weak)
    found += result_warnings.of_parties(manifest, parties)
    if budget.flips and budget.score_epsilon is None:
        found.append("scores are not protected: the aggregator sees how many rows a party has between any thresholds")
    if not 0 <= auc <= 1:
        found.append(
            f"what was estimated, {auc:.3g}, is no AUC, and was moved to the nearer end of 0 to 1: it says little"
        )
    # Where noise drowns the counts, or the thresholds miss the scores.
    labels = (sums[:2] + sums[2:]).mean(axis=-1)
    rows = max(float(labels.sum()), 0.0)
    noise_of_sum = math.sqrt(parties) * budget.noise_deviation
    if budget.flips:
        rho = budget.flip_probability
        labels = (labels - rho * rows) / (1 - 2 * rho)
        deviation, what = math.sqrt(rho * (1 - rho) * rows) / (1 - 2 * rho), "what flips do to the number of positives"
        advice = "a larger epsilon, or more rows"
    else:
        deviation, what, advice = noise_of_sum, "the noise on each count", "fewer thresholds or a larger epsilon"
    rarer = max(float(labels.min()), 0.0)
    if deviation > _LOUD * rarer:
        found.append(
            f"{what} (standard deviation {deviation:.3g}) is not small against the rows of the rarer label (about "
            f"{rarer:.3g}): the AUC may be far off; take {advice}"
        )
    outside = max(float(sums[2:, 0].sum()), float(sums[:2, -1].sum()))  # below the first threshold; from the last on
    if not budget.curve.endpoints and outside > _OUTSIDE * rows + _SURELY * math.sqrt(2) * noise_of_sum:
        found.append(
            f"the thresholds do not span the scores (about {outside:.3g} of {rows:.3g} rows lie beyond one end): the "
            "curve stops short, and the AUC is wrong; take thresholds that reach further, or endpoints=true"
        )
    return tuple(found)
