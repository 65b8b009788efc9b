"""What the template of the page calls: numbers and names as text, headings, groups of what one row shows."""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from fhe_auc.metrics.binning_error import WIDENED
from fhe_auc.results.decisions import Decision
from fhe_auc.results.group_decisions import CELLS, SHOWN_RATES, GroupDecision
from fhe_auc.results.report_card import ReportCard
from fhe_auc.results.report_measures import NOT_SHOWN, Measure
from fhe_auc.results.result_tables import ends, of_groups, p_of

_NEGLIGIBLE = 5e-5  # what four decimals do not show


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
    return f" of {card.title}" if card.model else ""


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


def counts(decision: GroupDecision) -> str:
    """Write the counts of a group at the threshold, if they are shown."""
    return "" if decision.counts is None else ", ".join(map("{} {:,}".format, CELLS, decision.counts))


def named(measures: Sequence[Measure], name: str) -> Measure:
    """Return one of the measures."""
    return next(each for each in measures if each.name == name)


FILTERS: Mapping[str, Callable[..., object]] = {
    **{name: each for name, each in vars().items() if getattr(each, "__module__", "") == __name__},
    "number": format,
}
"""What the template calls by these names: the functions here."""

GLOBALS = {
    **{"ends": ends, "p_of": p_of, "of_groups": of_groups, "zip": zip, "widened": WIDENED, "abreast": 4},
    "rates": list(SHOWN_RATES.values()),
    "confusion": {
        **{"True positives": (1, 1), "False positives": (0, 1)},
        **{"False negatives": (1, 0), "True negatives": (0, 0)},
    },
}
"""What else it names: tables of text; how many decisions one table has; where a decision has how many rows."""
