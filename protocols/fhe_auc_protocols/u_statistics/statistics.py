"""One statistic by one method, from users' records to a `UStatisticResult`: for ``fhe-auc ustat`` and experiments.

Every user's device is played in this process. With `RandomSources.secure`, its reports are as private as they would be
on the device; the process itself, of course, has seen the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fhe_auc.base.errors import InputError, UndefinedAucError
from fhe_auc_protocols import exact_sampling, opendp_samplers
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.option_values import checked_epsilon, is_whole
from fhe_auc_protocols.u_statistics import hierarchy, kernels, krr, noiseless, pairs
from fhe_auc_protocols.u_statistics.auc_estimate import AucEstimate, HierarchyMechanism, KrrMechanism, Mechanism
from fhe_auc_protocols.u_statistics.domain import Axis, Domain
from fhe_auc_protocols.u_statistics.kernels import Floats, Integers, Kernel

STATISTICS = ("kendall", "gini", "renyi2", "auc")
METHODS = ("krr", "hierarchy", "pairs")
STEPS = ("ideal-laplace", "bfv")

_COLUMNS = {"kendall": 2, "gini": 1, "renyi2": 1, "auc": 2}
_CHUNK = 1 << 16  # users
_DEFAULT_ALPHA = 10


@dataclass(frozen=True)
class RandomSources:
    """Where all randomness comes from: of randomisers, of the ideal two-party step, of pairings, which are public."""

    source: Source
    laplace: pairs.Laplace
    pairing: np.random.Generator

    @classmethod
    def secure(cls) -> RandomSources:
        """Return what protects users: a ChaCha20 stream under a fresh key, and OpenDP's Laplace sampler."""
        return cls(exact_sampling.secure(), opendp_samplers.laplace, np.random.default_rng())

    @classmethod
    def seeded_experiment(cls, seed: int) -> RandomSources:
        """Return what repeats: for experiments, it protects nobody."""
        generator = np.random.default_rng(seed)
        return cls(exact_sampling.SeededExperiment(generator), pairs.seeded_laplace(generator), generator)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What to estimate and how; the domain is public, and must not come from the data.

    Raises `InputError`: a name is unknown, the budget is out of range, or an option does not go with the method or with
    another one. What needs the rows to be checked is refused by `run`.
    """

    statistic: str | Kernel
    """One of `STATISTICS`, or any kernel (methods krr and pairs)."""
    method: str
    """One of `METHODS`."""
    epsilon: float
    """Budget of one user, from 0.000001 to 32."""
    values: tuple[tuple[float, ...], ...] = ()
    """Possible values, for each column or once for all: ascending, at least two. Not with method hierarchy."""
    ranges: tuple[tuple[float, float], ...] = ()
    """Instead of values: lowest and highest, for each column or once for all. Scores of the AUC: (0, 1) by default."""
    bins: int | None = None
    """Bins of a range, at least 2 (krr). None: by the rule of corollary 1, for a column of two its root."""
    alpha: int | None = None
    """Depth of the tree, 1 to 20 (hierarchy); None: 10."""
    pairings: int | None = None
    """P (pairs), at least 1 and fewer than users; None: 1, which is best where privacy dominates."""
    step: str = "ideal-laplace"
    """Two-party step (pairs), one of `STEPS`: ideal-laplace is simulated, bfv runs on ciphertexts and needs values."""

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if self.method not in METHODS:
            raise InputError(f"unknown method {self.method!r}; known are {', '.join(METHODS)}")
        if isinstance(self.statistic, str) and self.statistic not in STATISTICS:
            raise InputError(f"unknown statistic {self.statistic!r}; known are {', '.join(STATISTICS)}, or a Kernel")
        if self.method == "hierarchy" and self.statistic != "auc":
            raise InputError(f"method hierarchy is for the AUC only, not for {self.name}; take krr or pairs")
        for option, value, method in (
            ("bins", self.bins, "krr"),
            ("alpha", self.alpha, "hierarchy"),
            ("pairings", self.pairings, "pairs"),
        ):
            if value is not None and method != self.method:
                raise InputError(f"{option} is for method {method}, not for {self.method}")
        if self.step not in STEPS or (self.step != STEPS[0] and self.method != "pairs"):
            raise InputError(
                f"step {self.step!r} does not exist for method {self.method}; pairs has {', '.join(STEPS)}"
            )
        if self.values and (self.ranges or self.bins is not None):
            raise InputError("values name a domain alone: give either values, or a range and bins")
        if self.values and self.method == "hierarchy":
            raise InputError("the domain of method hierarchy is a range, not values")

    @property
    def name(self) -> str:
        """Name of the statistic."""
        return self.statistic if isinstance(self.statistic, str) else self.statistic.name


@dataclass(frozen=True, kw_only=True)
class UStatisticResult:
    """What was estimated."""

    statistic: str
    method: str
    epsilon: float
    users: int

    estimate: float
    """The U-statistic: tau-a, Gini's mean difference, the collision probability, the AUC. Not clipped to its range."""
    standard_error: float
    """Estimated from the reports: how far the estimate may lie from these users' own value. For pairs it is estimated
    from above, with the choice of pairs; for the AUC of binned scores, with what the bins leave undecided."""
    error_bound: float
    """Root of the theorem's bound on the mean squared error from noise and sampling, whatever the data; NaN where
    theorem 3's condition α <= √n fails. With what bins leave undecided of an AUC, and four standard errors of that."""
    derived: Mapping[str, float] = field(default_factory=dict)
    """What follows from the same reports at no further cost in privacy; not unbiased. NaN where undefined."""
    settings: Mapping[str, float | str] = field(default_factory=dict)
    """Parameters that were used, chosen ones among them."""
    notes: tuple[str, ...] = ()
    """What the reader of the number ought to know."""


def run(
    setting: Setting, rows: Floats, using: RandomSources, progress: pairs.Progress = lambda done, total: None
) -> UStatisticResult:
    """Estimate a statistic of rows of shape (n, d); those of the AUC are (score, label), label 0 or 1.

    Raises `InputError`: the setting lacks what the method needs, or does not fit the rows, or an entry is not finite;
    `UndefinedAucError`: all labels are equal.
    """
    if rows.ndim != 2 or not rows.shape[1]:
        raise InputError(f"{setting.name} is of rows of shape (users, columns), not of an array of shape {rows.shape}")
    columns = _COLUMNS[setting.statistic] if isinstance(setting.statistic, str) else rows.shape[1]
    if rows.shape[1] != columns:
        raise InputError(f"{setting.name} is of records of {columns} columns, not of an array of shape {rows.shape}")
    if not (finite := np.isfinite(rows)).all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(f"row {row}: all entries must be finite, got {rows[row, column]:g}")
    noiseless.checked_users(len(rows))
    method = {"krr": _krr, "hierarchy": _hierarchy, "pairs": _pairs}[setting.method]
    found = method(setting, rows, using, progress)
    seeded = isinstance(using.source, exact_sampling.SeededExperiment)
    return UStatisticResult(
        statistic=setting.name,
        method=setting.method,
        epsilon=setting.epsilon,
        users=len(rows),
        estimate=float(found.estimate),
        standard_error=float(found.standard_error),
        error_bound=math.sqrt(found.squared_error),
        derived=found.derived,
        settings=found.settings,
        notes=(_SEEDED, *found.notes) if seeded else found.notes,
    )


def without_noise(statistic: str, rows: Floats) -> dict[str, float]:
    """Return the rows' own values, which are **not private**: the estimate's goes by the statistic's name."""
    if statistic == "kendall":
        return dict(zip(("kendall", "tau_b"), noiseless.kendall(rows), strict=True))
    if statistic == "gini":
        return {"gini": noiseless.gini(rows[:, 0])}
    if statistic == "renyi2":
        collision = noiseless.collision(rows[:, 0])
        return {"renyi2": collision, "entropy": _entropy(collision)}
    _, ranks = np.unique(rows[:, 0], return_inverse=True)
    labels = rows[:, 1] == 1
    size = int(ranks.max()) + 1
    return {"auc": noiseless.auc(*(np.bincount(ranks[of], minlength=size) for of in (labels, ~labels)))}


class _Found(NamedTuple):
    """What a method finds, as in a `UStatisticResult`; its bound on the mean squared error is not yet a root."""

    estimate: float
    standard_error: float
    squared_error: float
    settings: Mapping[str, float | str]
    notes: tuple[str, ...]
    derived: dict[str, float]


def _krr(setting: Setting, rows: Floats, using: RandomSources, progress: pairs.Progress) -> _Found:
    if setting.statistic == "auc":
        return _krr_auc(setting, rows, using, progress)
    domain, kernel = _domain(setting, rows), _kernel(setting)
    mechanism = KrrMechanism(len(domain), setting.epsilon)
    response, reported = mechanism.response, _tallied(mechanism, domain.index(rows), using.source, progress)
    points = domain.points
    matrix = kernel.matrix(points)
    found = response.estimate(reported, matrix)
    derived: dict[str, float] = {}
    if setting.statistic == "kendall":
        derived["tau_b"] = _tau_b(found, response, reported, points)
    if setting.statistic == "renyi2":
        derived["entropy"] = _entropy(found)
    settings: dict[str, float | str] = {"k": len(domain), "beta": response.beta}
    notes: tuple[str, ...] = (_OUTSIDE,)
    if not setting.values:
        notes += ("values are rounded to the middles of bins: the estimate is that of the rounded values",)
        if kernel.lipschitz is not None and len(domain.axes) == 1:  # the constant is of one number, not of two
            low, high = _per_column(setting.ranges, 0, 1, "range")
            bound = krr.quantisation_bound(len(domain), kernel.lipschitz, high - low)
            settings["rounding inside the range"] = math.sqrt(bound)
    error, bound = response.standard_error(reported, matrix), response.variance_bound(len(rows), kernel.width)
    return _Found(found, error, bound, settings, notes, derived)


def _tau_b(tau_a: float, response: krr.RandomisedResponse, reported: Integers, points: Floats) -> float:
    """Return tau-b; NaN where the share of untied pairs of a column is below two of its standard errors."""
    ties = []
    for column in (0, 1):
        tied = (points[:, None, column] == points[None, :, column]).astype(float)
        ties.append(response.estimate(reported, tied))
        if 1 - ties[-1] < 2 * response.standard_error(reported, tied):
            return math.nan
    return noiseless.tau_b(tau_a, *ties)


def _krr_auc(setting: Setting, rows: Floats, using: RandomSources, progress: pairs.Progress) -> _Found:
    positives, negatives = _classes(rows)
    axis = _axis(setting, 0, len(rows), 1)
    mechanism = KrrMechanism(len(axis), setting.epsilon)
    tallies = (_tallied(mechanism, axis.index(side), using.source, progress) for side in (positives, negatives))
    found = mechanism.estimate(*tallies)
    settings = {"k": len(axis), "beta": mechanism.response.beta}
    if setting.values:  # equal scores are ties of their own
        return _Found(found.auc, found.noise_error, found.noise_bound, settings, (_LABELS, _OUTSIDE), {})
    return _binned(found, settings)


def _binned(found: AucEstimate, settings: Mapping[str, float | str], *notes: str) -> _Found:
    """Return the AUC of scores that bins have rounded, with what they leave undecided."""
    tied = _TIED
    if found.coarse:
        tied += f", which leaves the AUC undecided by {found.undecided:.2g}: take more of them, or a range that fits"
    settings = {**settings, "undecided by bins": found.undecided}
    return _Found(found.auc, found.standard_error, found.squared_error, settings, (_LABELS, _OUTSIDE, tied, *notes), {})


def _hierarchy(setting: Setting, rows: Floats, using: RandomSources, progress: pairs.Progress) -> _Found:
    positives, negatives = _classes(rows)
    alpha = _DEFAULT_ALPHA if setting.alpha is None else setting.alpha
    low, high = _per_column(setting.ranges or ((0.0, 1.0),), 0, 1, "range")
    mechanism = HierarchyMechanism(alpha, setting.epsilon)
    leaves = (hierarchy.leaves(scores, alpha, low, high) for scores in (positives, negatives))
    estimate, method, found = mechanism.recursion(
        *(_tallied(mechanism, each, using.source, progress) for each in leaves)
    )
    nodes = {"nodes recursed": found.recursed, "nodes discarded": found.discarded}
    settings = {"alpha": alpha, "C": mechanism.tree.constant, "a": method.a, **nodes}
    return _binned(estimate, settings, *((_UNBOUNDED,) if math.isnan(estimate.noise_bound) else ()))


def _pairs(setting: Setting, rows: Floats, using: RandomSources, progress: pairs.Progress) -> _Found:
    number = 1 if setting.pairings is None else setting.pairings
    users, factor = len(rows), 1.0
    if not is_whole(number, range(1, users)):
        raise InputError(f"there must be 1 to {users - 1:,} pairings of {users:,} users, got {number!r}")
    notes: tuple[str, ...] = (_STEP[setting.step],)
    if setting.values or setting.ranges:
        notes = (_OUTSIDE, *notes)
    kernel, step = _step(setting, rows, setting.epsilon / number, using)
    if setting.statistic == "auc":
        positives, negatives = (len(side) for side in _classes(rows))
        factor = users * (users - 1) / (2 * positives * negatives)
        notes = (_CLASSES, *notes)
    elif setting.statistic == "gini":
        rows = np.clip(rows, *_ends(setting))
    chosen = pairs.pairings(users, number, using.pairing)
    mean, variance = pairs.estimate(rows, step, chosen, progress)
    spread = max(variance - step.noise_variance, 0.0)  # ζ₂, and at least 2·ζ₁
    squared_error = pairs.mean_squared_error(users, number, spread / 2, spread, step.noise_variance)
    bound = factor**2 * pairs.error_bound(users, number, kernel.width, step.noise_variance)
    settings: dict[str, float | str] = {
        "step": setting.step,
        "pairings": number,
        "pairs": len(chosen),
        "noise deviation of a pair": math.sqrt(step.noise_variance),
    }
    derived = {"entropy": _entropy(mean)} if setting.statistic == "renyi2" else {}
    return _Found(factor * mean, factor * math.sqrt(squared_error), bound, settings, notes, derived)


def _step(setting: Setting, rows: Floats, epsilon: float, using: RandomSources) -> tuple[Kernel, pairs.PairStep]:
    """Return the kernel, and the two-party step with that budget."""
    if setting.step == "bfv" and not setting.values:
        raise InputError(f"step bfv needs a small public domain for {setting.name}: give the values")
    kernel = _kernel(setting)
    if setting.step == "ideal-laplace":
        if setting.statistic != "gini" and (setting.values or setting.ranges):
            raise InputError(f"step ideal-laplace needs no domain for {setting.name}: leave out values and ranges")
        kernel.check_symmetry(rows[:8])
        return kernel, pairs.IdealLaplace(kernel, epsilon, using.laplace)
    from fhe_auc_protocols.u_statistics.two_party import TwoPartyResponse  # SEAL

    return kernel, TwoPartyResponse(kernel, _domain(setting, rows), epsilon)


_SEEDED = "randomness was seeded: nothing is private"
_OUTSIDE = "values outside were moved to the nearest end of the domain"
_LABELS = "labels are public: only the scores are protected"
_CLASSES = "class sizes are public; scores and labels are protected"
_TIED = "scores in one bin count as ties"
_UNBOUNDED = "there is no error bound: theorem 3 asks for alpha of at most the root of the number of users"
_STEP = {
    "ideal-laplace": "the two-party step is an ideal functionality: simulated, as by a trusted third",
    "bfv": "the two-party step ran on BFV ciphertexts; it withstands users who are curious, not users who cheat",
}


def _tallied(mechanism: Mechanism, values: Integers, source: Source, progress: pairs.Progress) -> Integers:
    """Return the tally of all users' reports, made chunk by chunk."""
    total = np.zeros(mechanism.size, np.int64)
    for start in range(0, len(values), _CHUNK):
        progress(start, len(values))
        total += mechanism.tally(values[start : start + _CHUNK], source)
    progress(len(values), len(values))
    return total


def _kernel(setting: Setting) -> Kernel:
    if isinstance(setting.statistic, Kernel):
        return setting.statistic
    if setting.statistic == "gini":
        low, high = _ends(setting)
        return kernels.gini(high - low)
    return {"kendall": kernels.KENDALL, "renyi2": kernels.COLLISION, "auc": kernels.AUC}[setting.statistic]


def _domain(setting: Setting, rows: Floats) -> Domain:
    """Return the records that there may be; those of the AUC have a label beside the score."""
    columns = 1 if setting.statistic == "auc" else rows.shape[1]
    axes = [_axis(setting, column, len(rows), columns) for column in range(columns)]
    return Domain((*axes, Axis(np.array([0.0, 1.0])))) if setting.statistic == "auc" else Domain(tuple(axes))


def _axis(setting: Setting, column: int, users: int, columns: int) -> Axis:
    if setting.values:
        return Axis(np.array(_per_column(setting.values, column, columns, "list of values")))
    ranges = setting.ranges or (((0.0, 1.0),) if setting.statistic == "auc" else ())
    if not ranges:
        raise InputError(f"method krr needs a public domain for {setting.name}: give the values, or a range")
    low, high = _per_column(ranges, column, columns, "range")
    bins = setting.bins
    if bins is None:
        bins = max(2, round(krr.bins_by_rule(users, setting.epsilon, _steepness(setting, high - low)) ** (1 / columns)))
    return Axis.bins(low, high, bins)


def _steepness(setting: Setting, length: float) -> float:
    """Return the Lipschitz constant with range and kernel scaled to [0, 1]; 1 where there is none."""
    kernel = setting.statistic
    if isinstance(kernel, str) or kernel.lipschitz is None:
        return 1.0  # Gini's is 1 on every range
    return kernel.lipschitz * length / kernel.width


def _ends(setting: Setting) -> tuple[float, float]:
    """Return the range that bounds Gini's kernel, and with it the noise."""
    if setting.values:
        axis = Axis(np.array(_per_column(setting.values, 0, 1, "list of values")))
        return float(axis.points[0]), float(axis.points[-1])
    if not setting.ranges:
        raise InputError("method pairs needs a public range for gini: the noise is scaled to it")
    low, high = _per_column(setting.ranges, 0, 1, "range")
    return low, high


def _per_column(given: tuple[Any, ...], column: int, columns: int, what: str) -> Any:
    if len(given) not in (1, columns):
        raise InputError(f"there are {columns} columns but {len(given)} of: {what}; give one for all, or one for each")
    return given[column if len(given) > 1 else 0]


def _classes(rows: Floats) -> tuple[Floats, Floats]:
    """Return the scores of label 1 and of label 0; neither is empty."""
    labels = rows[:, 1]
    if not np.isin(labels, (0, 1)).all():
        raise InputError("labels must be 0 or 1")
    positives, negatives = rows[labels == 1, 0], rows[labels == 0, 0]
    if not len(positives) or not len(negatives):
        raise UndefinedAucError("all users have the same label, so there is no AUC")
    return positives, negatives


def _entropy(collision: float) -> float:
    return -math.log(collision) if collision > 0 else math.nan
