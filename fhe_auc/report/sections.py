"""What sections of the page say, as its template takes it: numbers as text, sentences about a card, headings."""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from fhe_auc.figures.report_card import level_text, model_text
from fhe_auc.results.decisions import Decision
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.group_decisions import CELLS, GroupDecision
from fhe_auc.results.intervals import WIDENED
from fhe_auc.results.report_card import ReportCard, TwoModels
from fhe_auc.results.report_measures import NOT_SHOWN, Measure

ABREAST = 4  # decisions in one table
CONFUSION = {"True positives": (1, 1), "False positives": (0, 1), "False negatives": (1, 0), "True negatives": (0, 0)}
"""Where a decision has how many rows."""

_NEGLIGIBLE = 5e-5  # what four decimals do not show
_RANGE_HOLDS = {
    False: "the metric of the counted rows lies inside it.",
    True: "it leaves out the noise that the counts carry for privacy, so the metric of the rows may lie outside.",
}


def number(value: float, form: str = ".4g") -> str:
    """Write a number."""
    return f"{value:{form}}"


def percent(share: float) -> str:
    """Write a share."""
    return f"{100 * share:.3g}%"


def whole(count: int | None, unknown: str = NOT_SHOWN) -> str:
    """Write how many there are."""
    return unknown if count is None else f"{count:,}"


def text(value: object) -> str:
    """Write the fact of a session."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {text(entry)}" for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(text(entry) for entry in value)
    return "–" if value is None else str(value)


def of(card: ReportCard) -> str:
    """Return what is added to a heading of one of several models."""
    return f" of {model_text(card)}" if card.model else ""


def anchor(card: ReportCard, name: str) -> str:
    """Return an id for a section of one model: names may be anything, so that it has a number."""
    return f"{name}-{zlib.crc32(card.model.encode())}" if card.model else name


def value(measure: Measure) -> str:
    """Write a measure; why one is not shown is said once, in the warnings."""
    if measure.estimate is None:
        return NOT_SHOWN if measure.missing.startswith(NOT_SHOWN) else "undefined"
    return f"{measure.estimate.value:.4f}"


def span(measure: Measure) -> str:
    """Return what the bins leave open of a measure, if that shows; or why there is none."""
    estimate = measure.estimate
    if estimate is None:
        return "" if measure.missing.startswith(NOT_SHOWN) else measure.missing
    if not math.isfinite(estimate.half_width):
        return "not known"
    if estimate.half_width < _NEGLIGIBLE:
        return ""
    return Markup("<span>{:.4f} to</span> <span>{:.4f}</span>").format(estimate.low, estimate.high)


def with_interval(told: str) -> Markup:
    """Return HTML of "0.9 (0.8 to 1)"."""
    before, _, within = told.partition(" (")
    return Markup("{}<small>CI {}</small>").format(before, within[:-1]) if within else Markup("{}").format(told)


def decision_head(decision: Decision) -> Markup:
    """Return the heading of a decision's column."""
    return Markup("{}<small>threshold {:.6g}</small>").format(decision.title, decision.threshold)


def auc_head(model: str) -> Markup:
    """Return the heading of the column of a model's AUCs."""
    return Markup("AUC<small>{}</small>").format(model) if model else Markup("AUC")


def groups(estimates: Sequence[GroupEstimate]) -> list[list[GroupEstimate]]:
    """Return the estimates of each group: one of each model."""
    names = dict.fromkeys(each.group for each in estimates)
    return [[each for each in estimates if each.group == name] for name in names]


def counts(decision: GroupDecision) -> str:
    """Write the counts of a group at the threshold, if they are shown."""
    return "" if decision.counts is None else ", ".join(map("{} {:,}".format, CELLS, decision.counts))


def left_open(cards: Sequence[ReportCard]) -> str:
    """Say what the range beside a measure is."""
    where = "The range" if len(cards) == 1 else "The last range"
    return f"{where} is what the bins leave open: {_RANGE_HOLDS[cards[0].noisy]}"


def about_models(models: TwoModels) -> str:
    """Say how two models are compared."""
    about = "Both models on the same rows."
    if models.comparison is not None and models.comparison.interval is not None:
        about += f" Interval and p of the AUCs: {models.comparison.interval.method}."
    if models.net_benefits:
        about += f" Net benefit: {models.net_benefits[0].meaning[0].lower()}{models.net_benefits[0].meaning[1:]}"
    return about


def headline_range(card: ReportCard) -> str:
    """Say what noise or bins leave open; where an interval is not widened by it, tables alone have it."""
    if card.noisy:
        return "computed from counts with random noise, which no range on this page covers"
    if card.interval is not None and not card.interval.method.endswith(WIDENED):
        return ""
    low, high = f"{card.auc.low:.3f}", f"{card.auc.high:.3f}"
    return f"binning: the AUC of these rows lies between {low} and {high}" if low != high else ""


def at_best_f1(card: ReportCard) -> dict[str, float]:
    """Return what the decision with the best F1 has, by name."""
    return {each.name: each.estimate.value for each in card.best.measures if each.estimate is not None}


def brier_in_words(cards: Sequence[ReportCard]) -> str:
    """Say of which parts the Brier score of each model with probabilities consists."""
    told = []
    for card in (each for each in cards if each.brier is not None):
        merged, parts = card.histogram.bins < card.fine_bins, map("{:.4f}".format, card.brier or ())
        told.append(
            "The Brier score{} is {}reliability {} − resolution {} + uncertainty {} (Murphy, 1973; by bins{}).".format(
                of(card), "about " * merged, *parts, ", which leave out how scores differ inside" * merged
            )
        )
    return " ".join(told)


FILTERS: Mapping[str, Callable[..., object]] = {
    **{name: each for name, each in vars().items() if getattr(each, "__module__", "") == __name__},
    **{"level_text": level_text, "model_text": model_text},
}
"""What the template calls by these names: the functions here."""
