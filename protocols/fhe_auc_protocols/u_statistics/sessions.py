"""The AUC of all parties' rows under local differential privacy, as protocols on the ordinary rounds.

    ustat-krr         k-ary randomised response on binned scores
    ustat-hierarchy   one-bit reports on a tree over the thresholds' bins

Every row is a user: its party randomises it as the user's device would, with secure randomness, and forgets it. A party
sends how many of its rows gave each report, for each class; the aggregator adds up and sends the sums to all, and every
party estimates the AUC from them. What is promised of scores, not of labels: docs/evidence/noise.md.

The `settings` of an evaluation hold what noise and bins leave unsure, estimated from the reports: half the share of
pairs that the bins do not tell apart, if that exceeds its own standard error; the standard error, with that in it; and
the same with the bound on the noise, by theorem 1 or the formula of theorem 3, if that applies. `binning_error` and
`precision`, which bound the error for certain, are NaN.

Scores are told apart by the session's thresholds: `ustat-hierarchy` uses all, `ustat-krr` merges their bins into few.
"""

import math
from collections.abc import Mapping

import numpy as np

from fhe_auc.base.errors import DeserialisationError, InputError, UndefinedAucError
from fhe_auc.question.score_bins import bins_of
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request, Spending
from fhe_auc_protocols import exact_sampling, result_warnings
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.options import is_whole, privacy_budget
from fhe_auc_protocols.u_statistics.mechanisms import (
    AucEstimate,
    HadamardTree,
    Integers,
    Mechanism,
    RandomisedResponse,
    bins_by_rule,
)
from fhe_auc_protocols.unencrypted_protocol import MOST_ROWS, ClearSums, KeylessProtocol, T, UnencryptedProtocol


class Tallies(ClearSums, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Counts of reports of each class, of `Mechanism.shape`, of one party or of all."""

    positives: tuple[int, ...]
    negatives: tuple[int, ...]

    @classmethod
    def integers(cls, manifest: Manifest, terms: Mechanism) -> int:
        """Return how many integers the tallies hold, lengths included."""
        return 2 * (math.prod(terms.shape) + 2)

    def check(self, manifest: Manifest, terms: Mechanism) -> None:
        """Raise `DeserialisationError` where they cannot be tallies of the session."""
        size = math.prod(terms.shape)
        for name, tally in (("positives", self.positives), ("negatives", self.negatives)):
            if len(tally) != size or min(tally) < 0 or sum(tally) > MOST_ROWS:
                raise DeserialisationError(f"{name}: these are not {size} counts of no more than 2^62 reports")


class PrivateScores(KeylessProtocol[Evaluation, T]):
    """What all have in common whose epsilon is of a score: labels are public."""

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the manifest's options; raise `InputError` for a wrong one."""
        return {"epsilon": privacy_budget(request.options)}

    def spends(self, manifest: Manifest) -> Spending:
        """Return the budget of the scores: labels are public here."""
        return Spending(privacy_budget(manifest.options), "score")

    def estimated(self, manifest: Manifest, estimate: AucEstimate, bins: int, parties: int) -> Evaluation:
        """Return what is said of an estimate over so many bins."""
        warnings = [
            "labels are public: the aggregator (ustat-pairs: everybody) learns how many of each class every party has",
            result_warnings.BUDGETS_ADD_UP,
            *result_warnings.of_parties(manifest, parties),
        ]
        if not 0 <= estimate.auc <= 1:
            warnings.append(f"the estimate is {estimate.auc:.4g}, outside [0, 1], because of noise; it is clipped")
        settings = {**manifest.options, "bins": bins, "standard error": estimate.standard_error}
        if not math.isnan(estimate.squared_error):
            settings["standard error bound"] = math.sqrt(estimate.squared_error)
        if estimate.undecided:
            settings["undecided by bins"] = estimate.undecided
        if estimate.coarse:
            warnings.append(
                f"bins leave the AUC undecided by {estimate.undecided:.2g}, more than noise does: take more bins, or "
                "thresholds that fit the scores"
            )
        said = {"thresholds": bins, "settings": settings, "warnings": tuple(warnings)}
        return self.evaluation(manifest, estimate.auc, parties, **said)


def merged_bins(data: PartyData, manifest: Manifest, bins: int) -> Integers:
    """Return each row's bin of so many, made of neighbouring thresholds' where these are more; shape (n,)."""
    return bins_of(data.y_score, manifest.thresholds).astype(np.int64) * bins // len(manifest.thresholds)


class LocalProtocol(PrivateScores[Mechanism], UnencryptedProtocol[Evaluation, Mechanism, Tallies]):
    """Base of the plug-ins whose rows are randomised one by one."""

    sums = Tallies
    trust = "nobody with the scores, which are randomised row by row; all with the labels, which are public"

    source = staticmethod(exact_sampling.secure)  # and nothing else where it protects someone

    def submission(self, manifest: Manifest, terms: Mechanism, data: PartyData) -> Tallies:
        """Return tallies of reports, of rows that are randomised one by one."""
        bins, source = merged_bins(data, manifest, terms.bins), self.source()
        tallies = (terms.tally(bins[rows], source) for rows in (data.y_true, ~data.y_true))
        return Tallies(1, *(tuple(tally.ravel().tolist()) for tally in tallies))

    def told(self, manifest: Manifest, terms: Mechanism, sums: Tallies) -> Evaluation:
        """Return the estimate; raise `UndefinedAucError` where all rows have one label."""
        positives, negatives = (np.reshape(tally, terms.shape) for tally in (sums.positives, sums.negatives))
        if not positives.any() or not negatives.any():
            raise UndefinedAucError(result_warnings.ONE_CLASS)
        return self.estimated(manifest, terms.auc(positives, negatives), terms.bins, sums.parties)


class UstatKrr(LocalProtocol):
    """Plug-in ``ustat-krr``."""

    name = "ustat-krr"
    summary = "local differential privacy: each row's binned score by randomised response, unbiased AUC"
    options = options_of.USTAT_KRR

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the manifest's options, the number of bins, 2 to that of thresholds, among them."""
        found = super().agreed(request)
        most = len(request.thresholds)
        bins = request.options.get("bins", min(most, bins_by_rule(request.min_rows, float(found["epsilon"]))))
        if not is_whole(bins, range(2, most + 1)):
            raise InputError(f"bins must be a whole number from 2 to the number of thresholds, {most}, got {bins!r}")
        return {**found, "bins": bins}

    def terms(self, options: Mapping[str, object], thresholds: int) -> Mechanism:
        """Return randomised response on the session's bins; raise `InputError` for a wrong option."""
        bins = options.get("bins")
        if not is_whole(bins, range(2, thresholds + 1)):
            raise InputError(f"the session's manifest has no number of bins that fits its thresholds: {bins!r}")
        return RandomisedResponse(bins, privacy_budget(options))


class UstatHierarchy(LocalProtocol):
    """Plug-in ``ustat-hierarchy``."""

    name = "ustat-hierarchy"
    summary = "local differential privacy: one bit a row on a tree over all thresholds' bins"
    options = options_of.USTAT_HIERARCHY

    def terms(self, options: Mapping[str, object], thresholds: int) -> Mechanism:
        """Return the tree over the session's bins; raise `InputError` for a wrong option."""
        return HadamardTree(max(1, (thresholds - 1).bit_length()), privacy_budget(options), thresholds)
