"""The plug-ins: each a way of counting, and what is read off the counts."""

from collections.abc import Sequence
from dataclasses import replace

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import Options
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import CellCounts, CensoringCurve, Evaluation, QuantileThresholds, Replicates
from fhe_auc.rows.own_checks import left_out
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.histograms.censored_rows import CensoredRows
from fhe_auc_protocols.histograms.exact_counts import OF_WEIGHTS, ExactCounts
from fhe_auc_protocols.histograms.local_randomisation import LocalRandomisation
from fhe_auc_protocols.histograms.quantile_thresholds import ExactQuantiles, PrivateQuantiles, TreeQuantiles
from fhe_auc_protocols.histograms.replicates import ReplicateCounts
from fhe_auc_protocols.histograms.score_histogram import (
    Cells,
    ExactScoreHistogram,
    PrivateScoreHistogram,
    RandomisedScoreHistogram,
)


class DistributedNoise(ExactCounts[R]):
    """Base of the plug-ins that add up counts and shares of noise."""

    def analysis_of(self, manifest: Manifest) -> Analysis:
        """Return whose scores are counted; `InputError` where a row may count more than once, or by a weight.

        The noise is sized for rows of one model that count once, and who makes a session may lie.
        """
        analysis = super().analysis_of(manifest)
        if analysis != Analysis(models=analysis.models[:1]):
            raise InputError("the session's noise is for one model's rows that count once each, and it counts others")
        return analysis

    def takes(self, request: Request | Manifest) -> Options:
        """Return the options: a fleet's say what epsilon protects, of sites it is a row."""
        more = {} if request.fleet is None else options_of.OF_FLEET
        return replace(self.options, known={**self.options.known, **more})


class HistogramFederated(ExactCounts[Evaluation]):
    """Plug-in ``histogram-federated``."""

    name = "histogram-federated"
    summary = (
        "one-time pads, an exact sum of each bin's positives and negatives: the parties get the pooled score histogram"
    )
    trust = "the aggregator does not collude with who has the pads (its sums are proved); parties see pooled bins"
    boundaries = "boundaries-federated"
    weighs = True
    readout = ExactScoreHistogram()
    options = options_of.HISTOGRAM_FEDERATED


class HistogramDistributedDp(DistributedNoise[Evaluation]):
    """Plug-in ``histogram-distributed-dp``."""

    name = "histogram-distributed-dp"
    summary = (
        "one-time pads, sums of each bin's counts, differential privacy: the parties' shares of noise add up to one"
    )
    trust = "parties draw their noise, no two collude; sums are proved; of a row others learn what epsilon allows"
    boundaries = "boundaries-distributed-dp"
    readout = PrivateScoreHistogram()
    options = options_of.HISTOGRAM_DISTRIBUTED_DP
    staged = staticmethod(readout.staged)


class HistogramLocalDp(LocalRandomisation[Evaluation]):
    """Plug-in ``histogram-local-dp``."""

    name = "histogram-local-dp"
    summary = "local differential privacy: each row's label and bin by unary encoding, nothing encrypted"
    trust = "nobody but its own party with a row: others learn what epsilon allows; all compute what they should"
    boundaries = "boundaries-local-dp"
    readout = RandomisedScoreHistogram()
    options = options_of.HISTOGRAM_LOCAL_DP
    staged = staticmethod(readout.staged)


class QuantilesFederated(ExactCounts[QuantileThresholds]):
    """Plug-in ``boundaries-federated``."""

    name = "boundaries-federated"
    summary = (
        "one-time pads, an exact sum of histograms without labels: the parties get quantile thresholds, and no AUC"
    )
    trust = "the aggregator does not collude with who has the pads (its sums are proved); parties see pooled cells"
    yields = QuantileThresholds
    readout = ExactQuantiles()
    options = options_of.BOUNDARIES_FEDERATED
    several = True

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the readout's options, and the names of models; `InputError` for groups, classes or sites."""
        analysis = request.analysis
        if analysis.by or analysis.classes or analysis.heterogeneity:
            raise InputError(f"protocol {self.name!r} finds thresholds for models, over all rows")
        return super().agreed(request)


class CountsFederated(ExactCounts[CellCounts]):
    """Plug-in ``counts-federated``."""

    name = "counts-federated"
    summary = "one-time pads, an exact sum of each group's rows in a few bins: for groups and two models of a report"
    yields = CellCounts
    readout = Cells()
    several = True

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the names of models and variables; raise `InputError` for classes, sites and patients."""
        analysis = request.analysis
        if analysis.classes or analysis.cross_groups or analysis.heterogeneity or analysis.cluster:
            raise InputError(f"protocol {self.name!r} counts rows of labels 0 and 1, by group and bin")
        return super().agreed(request)


class CensoringFederated(ExactCounts[CensoringCurve]):
    """Plug-in ``censoring-federated``."""

    name = "censoring-federated"
    summary = "one-time pads, an exact sum of rows by time and event: the censoring curve, for weights at a horizon"
    yields = CensoringCurve
    readout = CensoredRows()
    several = True

    def own_warnings(self, manifest: Manifest, parties: Sequence[PartyData]) -> tuple[str, ...]:
        """Return what was left out of the rows: scores tell labels apart at a horizon only."""
        return left_out(parties)


class ReplicatesFederated(ExactCounts[Replicates]):
    """Plug-in ``replicates-federated``."""

    name = "replicates-federated"
    summary = "one-time pads, exact sums of counts in which rows count as often as sites draw: for bootstrap intervals"
    yields = Replicates
    readout = ReplicateCounts()
    options = options_of.REPLICATES_FEDERATED
    several = True

    def counted(self, analysis: Analysis) -> Analysis:
        """Return models, patients, and weights."""
        return Analysis(**{name: getattr(analysis, name) for name in ("models", "cluster", *OF_WEIGHTS)})

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the number of replicates, and what is counted; raise `InputError` for groups, classes and sites."""
        analysis = request.analysis
        if analysis.by or analysis.classes or analysis.heterogeneity or len(analysis.models) > 2:
            raise InputError(f"protocol {self.name!r} counts rows of labels 0 and 1, of one model or of two")
        replicates = ReplicateCounts(analysis, request.options.get("replicates")).replicates
        return {**super().agreed(request), "replicates": replicates}


class QuantilesDistributedDp(DistributedNoise[QuantileThresholds]):
    """Plug-in ``boundaries-distributed-dp``."""

    name = "boundaries-distributed-dp"
    summary = (
        "one-time pads, sums of hierarchical counts with shares of noise: quantile thresholds, as many as are best"
    )
    trust = "parties draw their noise, no two collude; sums are proved; of a row others learn what epsilon allows"
    yields = QuantileThresholds
    readout = TreeQuantiles()
    options = options_of.BOUNDARIES_DISTRIBUTED_DP


class QuantilesLocalDp(LocalRandomisation[QuantileThresholds]):
    """Plug-in ``boundaries-local-dp``."""

    name = "boundaries-local-dp"
    summary = "local differential privacy: quantile thresholds from one randomised report a row, nothing encrypted"
    trust = "nobody but its own party with a row: others learn what epsilon allows; all compute what they should"
    yields = QuantileThresholds
    readout = PrivateQuantiles()
    options = options_of.BOUNDARIES_LOCAL_DP
