"""The options of every protocol here, typed: ``federated_auc(rows, protocol=DpaucLaplace(epsilon=1.0))``.

What values are allowed each protocol checks itself, as they may come from a manifest too.
"""

from dataclasses import dataclass

from fhe_auc.base.options import Options, option


@dataclass(frozen=True, kw_only=True)
class Exact(Options):
    """Of ``exact``."""

    protocol = "exact"
    default_thresholds = "hybrid:5000"  # a threshold is a few bytes

    round_scores: int | None = option(
        "round scores to so many decimals, 1 to 5, each of which is a threshold: the AUC is then that of the rounded "
        "scores, and pairs of rows that rounding ties count as undecided",
        default=None,
    )
    plain_interval: bool = option(
        "give DeLong's interval as AUC ± z·SE, cut at 0 and 1, as pROC does; otherwise it is made on the logit scale",
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class Verified(Exact):
    """Of ``verified``."""

    protocol = "verified"

    epsilon: float | None = option(
        "privacy budget of the session: the AUC is then released with noise, and nothing else; otherwise exactly",
        default=None,
    )
    epsilon_unit: str | None = option(
        "what epsilon protects: row (label and score of a row; the default) or label (that of a row)", default=None
    )
    colluders: int | None = option(
        "so many parties may tell each other their noise, beside whoever reads the result; otherwise none", default=None
    )


@dataclass(frozen=True, kw_only=True)
class SemiHonest(Options):
    """Of ``semi-honest``: none."""

    protocol = "semi-honest"


@dataclass(frozen=True, kw_only=True)
class Malicious(Options):
    """Of ``malicious``."""

    protocol = "malicious"

    tolerance: float | None = option(
        "by how much executions may differ; otherwise by ten times what they honestly do", default=None
    )


@dataclass(frozen=True, kw_only=True)
class HistogramFederated(Options):
    """Of ``histogram-federated``: none."""

    protocol = "histogram-federated"
    default_thresholds = "hybrid:5000"  # those of exact and verified: a report's AUC is theirs


@dataclass(frozen=True, kw_only=True)
class CountsFederated(Options):
    """Of ``counts-federated``: none."""

    protocol = "counts-federated"


@dataclass(frozen=True, kw_only=True)
class HistogramDistributedDp(Options):
    """Of ``histogram-distributed-dp``."""

    protocol = "histogram-distributed-dp"

    epsilon: float = option("privacy budget of a row, that of a session for quantile thresholds included")
    boundaries_epsilon: float | None = option(
        "how much of epsilon such a session spends, or has spent; otherwise a quarter", default=None
    )
    height: int | None = option("of the hierarchy that quantile thresholds come from; see boundaries-…", default=None)


@dataclass(frozen=True, kw_only=True)
class HistogramLocalDp(HistogramDistributedDp):
    """Of ``histogram-local-dp``."""

    protocol = "histogram-local-dp"


@dataclass(frozen=True, kw_only=True)
class BoundariesFederated(Options):
    """Of ``boundaries-federated``."""

    protocol = "boundaries-federated"

    bins: int | None = option("how many thresholds to find; `federated_thresholds` gives it", default=None)


@dataclass(frozen=True, kw_only=True)
class BoundariesDistributedDp(BoundariesFederated):
    """Of ``boundaries-distributed-dp``."""

    protocol = "boundaries-distributed-dp"

    epsilon: float = option("privacy budget of a row added or removed")
    height: int = option("of the hierarchy: thresholds are multiples of 2^-height, 1 to 13", default=10)


@dataclass(frozen=True, kw_only=True)
class BoundariesLocalDp(BoundariesFederated):
    """Of ``boundaries-local-dp``."""

    protocol = "boundaries-local-dp"

    epsilon: float = option("privacy budget of a row's score")
    height: int = option("of the hierarchy: thresholds are multiples of 2^-height, 1 to 14", default=8)


@dataclass(frozen=True, kw_only=True)
class _Dpauc(Options):
    """Of all three [DPAUC]."""

    epsilon: float = option("privacy budget of a label for this session")
    clip: bool = option("raise sums below 0 to 0, as in the paper", default=True)
    endpoints: bool = option("add (0, 0) and (1, 1) to the curve; the paper does not", default=False)
    monotone: bool = option("make the curve monotone by isotonic regression; the paper does not", default=False)


@dataclass(frozen=True, kw_only=True)
class DpaucLaplace(_Dpauc):
    """Of ``dpauc-laplace``."""

    protocol = "dpauc-laplace"

    budget_thresholds: int | None = option("|Θ| of ε/(4|Θ|), where it exceeds the number of thresholds", default=None)


@dataclass(frozen=True, kw_only=True)
class DpaucGaussian(DpaucLaplace):
    """Of ``dpauc-gaussian``."""

    protocol = "dpauc-gaussian"

    delta: float = option("how much of the guarantee may fail")


@dataclass(frozen=True, kw_only=True)
class DpaucRandomizedResponse(_Dpauc):
    """Of ``dpauc-rr``."""

    protocol = "dpauc-rr"

    score_epsilon: float | None = option("budget of a score in [0, 1]; otherwise scores stay as they are", default=None)


@dataclass(frozen=True, kw_only=True)
class UstatHierarchy(Options):
    """Of ``ustat-hierarchy``."""

    protocol = "ustat-hierarchy"

    epsilon: float = option("privacy budget of one row, 0.000001 to 32")


@dataclass(frozen=True, kw_only=True)
class UstatKrr(UstatHierarchy):
    """Of ``ustat-krr``."""

    protocol = "ustat-krr"

    bins: int | None = option(
        "bins of scores, made of neighbouring thresholds'; otherwise by the rule k = min_rows^¼·√ε", default=None
    )
