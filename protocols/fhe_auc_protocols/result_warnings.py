"""What the reader of any result ought to know: who is in it, what the thresholds leave out, and what the AUC tells."""

from fhe_auc.question.thresholds import MAX_PLACES, held_back, perhaps_found
from fhe_auc.results.evaluation import NOT_TOLD_APART
from fhe_auc.results.intervals import TELLING
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest

_COARSE = 0.01  # a binning error above this is worth a warning where there is no standard error to hold it against
ALL_DIGITS = (
    "all digits of the AUC are released: assume that parties can work out how many pooled rows have each label; only "
    "differential privacy (as of dpauc-laplace) bounds what a result tells"
)
"""The warning on an AUC of which all digits are released, and no counts beside it."""


def of_parties(manifest: Manifest, parties: int) -> tuple[str, ...]:
    """Return warnings where one or two parties, or not all, are in the result, and where keys are joint."""
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
    if manifest.joint_keys:
        found.append(manifest.joint_keys_leave)
    return tuple(found)


def of_auc(
    manifest: Manifest,
    parties: int,
    binning_error: float,
    standard_error: float | None = None,
    *,
    histogram: bool = False,
) -> tuple[str, ...]:
    """Return the warnings on any AUC of so many parties, with this binning error and, where known, standard error.

    The AUC of a `histogram` has no interval, and its thresholds lie in [0, 1]: nothing is said of others.
    """
    found = of_parties(manifest, parties)
    if binning_error <= (TELLING * standard_error if standard_error else _COARSE):
        return found
    rounded = manifest.options.get("round_scores")
    against, widened = "", ""
    if standard_error:
        times = "a quarter of the" if binning_error <= standard_error else "the whole"
        against = f", more than {times} standard error {standard_error:.2g}"
        if binning_error > standard_error and rounded is None and not histogram:
            widened = "; the interval is widened by it"
    quantiles = "take quantile:1000, which a session before finds"
    if rounded is not None:
        remedy = f"more decimals tell more of them apart, and the AUC is exact for the scores as rounded to {rounded}"
        if rounded == MAX_PLACES:
            remedy = f"do not round them, but {quantiles}"
    elif registry.load(manifest.protocol).boundaries is None:
        remedy = "take thresholds that fit them, by number or by range (uniform and hybrid cover 0 to 1)"
    elif not perhaps_found(manifest.thresholds):
        remedy = quantiles
        if not histogram:
            remedy += (
                "; logits that become 0 or 1 on the score scale logit need thresholds that span the logits themselves"
            )
    elif not held_back(manifest.thresholds):
        remedy = "ask for more quantile thresholds"
    else:
        remedy = ""
    advice = (
        f"where their scores are equal, nothing helps; where scores differ, {remedy}"
        if remedy
        else "most of them have equal scores, and nothing helps"
    )
    return (*found, f"{NOT_TOLD_APART}: the binning error is {binning_error:.2g}{against}{widened}; {advice}")
