"""A report's measures and groups as text: the cells of its tables; what an evaluation has too: `result_tables`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.group_decisions import (
    CELLS,
    SHOWN_RATES,
    GroupCalibration,
    GroupDecision,
    alike,
    differences,
    fairness,
)
from fhe_auc.results.intervals import Interval, rate_interval
from fhe_auc.results.report_card import ReportCard
from fhe_auc.results.report_measures import NOT_SHOWN, Measure
from fhe_auc.results.result_tables import TextTable, ends, heading, p_text


def of_measures(cards: Iterable[ReportCard]) -> TextTable:
    """Return a row for each measure of scores and of calibration: of each model value and interval."""
    each_model = [(card, (*card.measures, *card.calibration_measures)) for card in cards]
    rows = []
    for same in zip(*(measures for _, measures in each_model), strict=True):
        cells = ((value_text(each), "" if each.interval is None else ends(each.interval)) for each in same)
        rows.append((same[0].title, *(text for pair in cells for text in pair), same[0].meaning))
    heads = (f"{card.model} {head}".strip() for card, measures in each_model for head in ("value", heading(measures)))
    return TextTable(("metric", *heads, ""), tuple(rows), 1)


def of_net_benefits(measures: Sequence[Measure], head: str = "") -> TextTable:
    """Return a row for each net benefit, and one for the difference; or for differences of other measures."""
    rows = ((each.title, value_text(each), ends(each.interval) if each.interval else "", "") for each in measures)
    return TextTable((head or measures[0].meaning, "value", heading(measures), ""), tuple(rows), 1)


def value_text(measure: Measure) -> str:
    """Return "0.7864"; why one is not shown is said once, in the warnings."""
    if measure.estimate is None:
        return NOT_SHOWN if measure.missing.startswith(NOT_SHOWN) else "undefined"
    return f"{measure.estimate.value:.4f}"


def count_text(count: float) -> str:
    """Return "1,234", or of weights "1,234.5"."""
    return f"{count:,}" if isinstance(count, int) else f"{count:,.1f}"


class GroupTables(NamedTuple):
    """What there is of one model's groups besides their AUCs; tables may have no rows."""

    decisions: TextTable
    calibrations: TextTable
    differences: TextTable
    fairness: TextTable


def of_groups(card: ReportCard) -> GroupTables:
    """Return what a card has of its groups: at the threshold, calibration, and how far they are apart."""
    decisions = card.group_decisions
    return GroupTables(
        _of_group_decisions(decisions, card.level),
        _of_group_calibrations(card.group_calibrations),
        _of_group_differences(decisions, card.groups, card.level),
        _of_fairness(decisions),
    )


def _of_group_calibrations(calibrations: Sequence[GroupCalibration]) -> TextTable:
    """Return each group's ratio of observed to expected events, and its calibration slope."""
    rows = tuple((f"{each.variable}: {each.level}", *map(_measure, each.measures), "") for each in calibrations)
    titles = (measure.title for each in calibrations[:1] for measure in each.measures)
    return TextTable(("group", *titles, ""), rows, 1)


def _of_group_decisions(decisions: Sequence[GroupDecision], level: float | None) -> TextTable:
    """Return a row for each group at the threshold: rates with Wilson's intervals, and counts."""

    def cell(decision: GroupDecision, name: str) -> str:
        hit, among = decision.rate(name)
        interval = rate_interval(hit, among, level)
        within = "" if interval is None else f" ({ends(interval, '.3f')})"
        return f"{hit / among:.3f}{within}" if among else ""

    rows = tuple(
        (
            f"{each.variable}: {each.level}",
            *(cell(each, name) for name in SHOWN_RATES),
            NOT_SHOWN if each.counts is None else ", ".join(map("{} {}".format, CELLS, map(count_text, each.counts))),
        )
        for each in decisions
    )
    return TextTable(("group", *SHOWN_RATES.values(), ""), rows, 1)


def _of_fairness(decisions: Sequence[GroupDecision]) -> TextTable:
    """Return difference and ratio of each of Fairlearn's measures; bounds, with the groups that these leave out."""
    rows: list[tuple[str, ...]] = []
    for variable, found in fairness(decisions).items():
        for (name, difference), ratio in zip(list(found.items())[::2], list(found.values())[1::2], strict=True):
            title = f"{variable}: {name.removesuffix('_difference').replace('_', ' ')}"
            chance = "" if difference.by_chance is None else f"{difference.by_chance:.4f}"
            left_out = f"{', '.join(ratio.left_out)} not shown: too few of such rows" if ratio.left_out else ""
            rows.append((title, str(difference), chance, str(ratio), left_out))
    return TextTable(("between groups", "difference", "by chance alone", "ratio", ""), tuple(rows), 1)


def _of_group_differences(
    decisions: Sequence[GroupDecision], estimates: Sequence[GroupEstimate], level: float | None
) -> TextTable:
    """Return each group's rates less the largest group's, and each variable's p that all groups are alike."""

    def cell(value: float, interval: Interval | None) -> str:
        return f"{value:+.3f}" + ("" if interval is None else f" ({ends(interval, '+.3f')})")

    rows: list[tuple[str, ...]] = [
        (
            f"{variable}: {group} minus {largest}",
            *(cell(*of[name]) if name in of else "" for name in SHOWN_RATES),
            "",
            "",
        )
        for variable, group, largest, of in differences(decisions, level)
    ]
    for variable, found in alike(decisions, estimates).items():
        p_values = {name: "" if p is None else f"p {p_text(p)}" for name, p in found.items()}
        rows.append((f"{variable}: all alike", *(p_values[name] for name in (*SHOWN_RATES, "roc_auc")), ""))
    return TextTable(("between groups", *SHOWN_RATES.values(), "AUC", ""), tuple(rows), 1)


def _measure(measure: Measure) -> str:
    return value_text(measure) + (f" ({ends(measure.interval)})" if measure.interval else "")
