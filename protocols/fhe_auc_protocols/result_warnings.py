"""What the reader of any result ought to know: who is in it, what the thresholds leave out, and what the AUC tells."""

from fhe_auc.metrics.binning_error import TELLING
from fhe_auc.question.thresholds import held_back, perhaps_found
from fhe_auc.results.evaluation import NOT_TOLD_APART
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest

_COARSE = 0.01  # a binning error above this is worth a warning where there is no standard error to hold it against
FEW_VALUES = "scores of few values are told apart exactly by --round-scores DECIMALS"
UNPROVED = (
    "epsilon holds where the aggregator computes what it should, which nothing proves in a fleet, and where so many "
    "devices count that tell nobody their noise"
)
BUDGETS_ADD_UP = (
    "epsilon is spent by every session: budgets of sessions on the same rows add up, such as those of `fhe-auc "
    "evaluate --epsilon` and `fhe-auc report --epsilon`"
)
ONE_CLASS = "the pooled rows have one class only, so the AUC is undefined; no number is given"
ALL_DIGITS = (
    "all digits of the AUC are released: assume that parties can work out how many pooled rows have each label; only "
    "differential privacy (as of dpauc-laplace) bounds what a result tells"
)
"""The warning on an AUC of which all digits are released, and no counts beside it."""


def of_parties(manifest: Manifest, parties: int) -> tuple[str, ...]:
    """Return warnings where one or two parties, or not all, are in the result."""
    found = []
    if manifest.size == 1:
        found.append("there is only one party, so the result is that party's own AUC (a site column?)")
    elif parties == 1:
        found.append("only one party is in the result, which is about that party's rows alone")
    elif parties == 2:
        found.append(
            "only two parties are in the result: each can subtract its own rows from what it is told, and what is left "
            "is about the other's alone"
        )
    if parties < manifest.size:
        found.append(f"{manifest.size - parties} of {manifest.size} parties are not in the result")
    return tuple(found)


def of_auc(
    manifest: Manifest,
    parties: int,
    binning_error: float,
    standard_error: float | None = None,
    *,
    told: bool = False,
    histogram: bool = False,
) -> tuple[str, ...]:
    """Return the warnings on any AUC of so many parties, with this binning error and, where known, standard error.

    Where ties are `told`, those of equal scores are no part of the binning error. The AUC of a `histogram` has no
    interval, and its thresholds lie in [0, 1]: nothing is said of others. NaN, by noise, is not large.
    """
    found = of_parties(manifest, parties)
    if not binning_error > (TELLING * standard_error if standard_error else _COARSE):
        return found
    against, widened = "", ""
    if standard_error:
        times = "a quarter of the" if binning_error <= standard_error else "the whole"
        against = f", more than {times} standard error {standard_error:.2g}"
        if binning_error > standard_error and not histogram:
            widened = "; the interval is widened by it"
    remedies = []
    if registry.load(manifest.protocol).boundaries is None:
        remedies = ["take thresholds that fit them, by number or by range (uniform and hybrid cover 0 to 1)"]
    elif manifest.thresholds[0] < 0 or manifest.thresholds[-1] > 1:
        remedies = ["list all scores that there are (--thresholds values:FIRST:LAST), or take a file of thresholds"]
    elif not perhaps_found(manifest.thresholds):
        remedies = ["take quantile:1000, which a session before finds"]
        if not histogram:
            remedies.append("logits that become 0 or 1 on the score scale logit need none: leave it out")
    elif not held_back(manifest.thresholds):
        remedies = ["ask for more quantile thresholds"]
    if told:
        remedies.append(FEW_VALUES)
    else:
        differ = [f"where scores differ: {remedies[0]}"] if remedies else []
        remedies = ["where their scores are equal, the AUC is right as it is", *differ, *remedies[1:]]
    advice = "; ".join(remedies)
    return (*found, f"{NOT_TOLD_APART}: the binning error is {binning_error:.2g}{against}{widened}; {advice}")
