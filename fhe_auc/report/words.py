"""What a report says in words of its sessions: what they have revealed to whom, what they cost, what to beware of."""

import math
from collections.abc import Iterator

import numpy as np

from fhe_auc import __version__
from fhe_auc.base.quantities import chance_text
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.probabilities import of_probabilities
from fhe_auc.metrics.recalibration import NEAREST_END
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import Evaluation, verified_as_dict
from fhe_auc.results.intervals import BELOW_HALF, REVERSED
from fhe_auc.results.report_card import Bootstrap, ReportCard
from fhe_auc.session import registry

_FEW_VALUES = 50  # of scores: measures, some 40 with four digits, tell how many rows have each

NO_DIFFERENCE = (
    "the difference of net benefit has no interval: counts by both models at the threshold are too small to show, or "
    "the models decide alike"
)
TWO_MODELS = (
    "\n\nThe second model has a histogram of its own, and counts of groups. The sums behind the difference of AUCs "
    "were told to each party, and, where a threshold is asked for, another session how many rows of each label are at "
    "or above it by both models, by either alone, and by neither. Two models on a page are two reports on the same "
    "rows: where one model's scores are the other's, recalibrated, differences of their counts can be small ones."
)
_KEYS = {
    "sealed": "A key holder has drawn each party's pad, and the parties' common secret: it and the aggregator must not "
    "collude, as together they read every party's counts. No party can read another's.",
    "helper": "A helper takes the pads off the sum, and sees neither counts nor their sum. It and the aggregator must "
    "not collude with a party.",
}
_ONE_PROCESS = (
    "For this page one process has read the rows of all parties and has played every role in turn. The above describes "
    "what the roles exchange, and holds between sites where each runs its own role."
)


def evaluation_privacy(protocol: str, analysis: Analysis, bins: int) -> str:
    """Say what the session of groups has told each party, and what that of groups' counts in so many bins has."""
    learnt = ["the AUC of all rows and the sums behind it, in the bins before merging"]
    if analysis.by:
        learnt.append("the same for each group, also for those not shown")
    if bins:
        learnt.append(
            f"in a third session, each group's rows of each label in up to {bins} bins of scores, which "
            "end at the threshold, if there is one, or hold about equally many rows"
        )
    if analysis.cluster:
        learnt.append("how many patients there are, and sums over all of them")
    if analysis.heterogeneity:
        learnt.append("sums over sites, from which who knows all sites but three can work out these three's AUCs")
    return (
        f"\n\nGroups, sites and patients come from a second session, of protocol {protocol}, and from the bins before "
        f"merging. It told each party {'; '.join(learnt)}."
    )


def other_intervals(bootstrap: int) -> str:
    """Say which intervals take rows as independent, where rows have patients; some may be by so many replicates."""
    by_patients = "those of AUCs and by the bootstrap" if bootstrap else "those of AUCs alone"
    return (
        f"of this page's intervals, {by_patients} take patients as independent; the others take rows so, and are too "
        "narrow where patients have several"
    )


def replicates_privacy(found: Bootstrap, analysis: Analysis) -> str:
    """Say what the session of replicates has told each party."""
    more = ["about how many rows lie in a bin of the one model and one of the other"] * (len(analysis.models) > 1)
    more += ["about which bins have rows of the same patients"] * bool(analysis.cluster)
    more += ["the weights of single rows, in bins of few"] * bool(analysis.units)
    beyond = ", and ".join(more) if more else "nothing: from a histogram anybody can draw as good ones"
    return (
        f"\n\nFor intervals by the bootstrap one more session told each party {found.replicates} replicates of the "
        f"counts, in {found.bins} bins, merged from those above where these are more. In each a row counts 0, 1, 2 … "
        f"times, as its site has drawn in secret. Beyond the counts above they tell {beyond}."
    )


def weighting(analysis: Analysis, card: ReportCard) -> dict[str, object]:
    """Return what `Facts.weighting` holds: how much rows count, and what positive ones are at a horizon."""
    if analysis.units is None:
        return {}
    effective = dict(
        zip(("positive", "negative"), (math.floor(each + 1e-6) for each in card.histogram.effective), strict=True)
    )
    told: dict[str, object] = {"step": 1 / analysis.units.per, "effective_rows": effective}
    if analysis.weights:
        of = analysis.weights
        text = f"Rows have weights: column “{of.column}”, in steps of {1 / of.per:g}, {of.most / of.per:g} at most."
    elif analysis.follow_up and analysis.at:
        of_event, horizon, unknown = analysis.follow_up, analysis.at.horizon, card.histogram.unknown
        event, censored, *competing = of_event.codes
        lost = 0 if unknown is None else round(unknown.sum())
        hidden = 0 < lost < card.min_cell
        told |= {"horizon": horizon, "event": f"{of_event.event} = {event}", "competing": competing}
        told["censored_before"] = None if hidden else lost
        others = f", or had a competing one before ({', '.join(competing)})" if competing else ""
        text = (
            f"At the horizon {horizon:g} of column “{of_event.time}”: rows are positive that had the event by then "
            f"(column “{of_event.event}”: {event}), negative that were followed up for longer{others}. "
            f"{f'Fewer than {card.min_cell}' if hidden else f'{lost:,}'} rows were censored before (code {censored}); "
            f"others stand for them, each with a weight, in steps of {told['step']:g}: 1 over the share that is not "
            "censored by its time. Observed events are those of "
            f"{'Aalen and Johansen' if competing else 'Kaplan and Meier'}, over all rows."
        )
    told["text"] = (
        f"{text} All numbers but those of rows are weighted. They are worth {effective['positive']:,} positive and "
        f"{effective['negative']:,} negative rows of equal weight (effective rows). Intervals take the weights as known"
        + (", which makes them wider than need be." if analysis.at else ".")
    )
    return told


def interval_warnings(card: ReportCard, wanted: float | None) -> Iterator[str]:
    """Say why the AUC has no interval, or that labels may be reversed."""
    if wanted is None:
        return
    if card.private and card.level and not card.private.intervals["positive_rows"].low > 0:
        yield "noise may be all that there is of positive rows: there may be none"
    if card.interval is None:
        why = card.private.why_none if card.private else "a label has fewer than two rows, or all scores are tied"
        yield f"the AUC has no confidence interval: {why}"
    elif card.interval.high < 0.5:
        yield f"the AUC: {BELOW_HALF}, so {REVERSED}"


def end_warnings(card: ReportCard, counted: Histogram, least: float, below: float = math.inf) -> Iterator[str]:
    """Warn where so many rows lie at an end: of fewer than are shown, the page does not say so; noise hides them."""
    usable = counted.cleaned()
    near = usable.real[:, np.minimum(usable.centres, 1 - usable.centres) < NEAREST_END].sum()
    if of_probabilities(usable) and least <= near < below and not card.noisy:
        yield (
            f"scores nearer than {NEAREST_END:.0e} to 0 or 1 count as {NEAREST_END:.0e} away from it in slope, "
            "intercept and calibration in the large, which depend on that"
        )


def cell_warnings(card: ReportCard, counted: Histogram) -> Iterator[str]:
    """Say which small counts are not shown, or are, or can be worked out; noise hides them all."""
    if card.noisy:
        return
    for decision in card.chosen:
        if decision.hidden:
            yield f"threshold {decision.threshold:.6g}: {decision.hidden}"
    sides = counted.real
    if np.count_nonzero(counted.counts) <= _FEW_VALUES and ((sides > 0) & (sides < card.min_cell)).any():
        yield "scores have few values: counts hidden here can be worked out from the measures of all rows"
    if card.min_cell == 1:
        yield "small counts are shown (--min-cell 1, in Python min_cell=1): a count from 1 to 9 may tell who is meant"


def session(evaluation: Evaluation, thresholds: str) -> dict[str, object]:
    """Return the facts of the session of the histogram, by name."""
    settings = {name: value for name, value in evaluation.settings.items() if name != "grid"}  # told as thresholds
    return {
        "protocol": evaluation.protocol,
        "parties": evaluation.parties,
        "thresholds": thresholds,
        "keys": evaluation.keys,
        "encryption library": evaluation.backend,
        "security, bits": evaluation.security_bits,
        "verified": verified_as_dict(evaluation.verified),
        **({"settings": settings} if settings else {}),
        "rounds": evaluation.rounds,
        "bytes a party sent": evaluation.upload_bytes_per_party,
        "bytes a party received": evaluation.download_bytes_per_party,
        "seconds by phase": {phase: float(f"{taken:.3g}") for phase, taken in evaluation.seconds.items()},
        "fhe-auc": __version__,
    }


def privacy(evaluation: Evaluation, card: ReportCard, thresholds: str) -> str:
    """Say what this session reveals, and to whom, from what it really was."""
    bins, of_rows = f"{evaluation.thresholds:,} bins of scores", "grid" in evaluation.settings
    if evaluation.security_bits:
        aggregator = (
            "Parties sent counts under one-time pads; the aggregator saw numbers that say nothing, and added them up. "
            f"The sums are verified: an aggregator that changes them is noticed, but for a chance of "
            f"{chance_text(evaluation.soundness or 1.0)}. What each party has counted nobody can check."
        )
    else:
        aggregator = "Nothing was encrypted: the aggregator saw what each party sent."
    if card.noisy:
        settings = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in evaluation.settings.items()
            if name != "signed"
        )
        learnt = (
            f"Counts in {bins} carry random noise ({settings or 'no settings stated'}); epsilon is the privacy "
            "budget of a row replaced, label and score. This page and report.json hold "
            "nothing else about rows. What the noise protects, and from whom, is what the protocol states below."
        )
        if grids.quantiles_wanted(thresholds) == 0:
            learnt += (
                " Bins are about half the root of half epsilon times the rows of the rarer label, 6 to 100: more would "
                "add noise to the curves, and fewer leave out more of their shape."
            )
    else:
        page = "report.json holds these numbers, and the curves on this page nearly do: readers learn them too."
        if card.histogram.bins < card.fine_bins:
            found = grids.quantiles_wanted(thresholds) or of_rows  # edges are at places that rows choose
            told = found or any(each.hidden for each in card.chosen)  # that few rows lie beyond a threshold
            placed = "" if told else f", no row is placed among fewer than {card.min_cell}"
            page = (
                f"Here and in report.json there are {card.histogram.bins:,} bins, merged from these: no count is from "
                f"1 to {card.min_cell - 1}{placed}, and curves and counts are of them. Measures of all rows, such as "
                "the AUC, are of the bins before, with four digits."
            )
        learnt = (
            f"Each party learns the exact number of positive and of negative rows of all parties together in each of "
            f"{bins}. {page} No noise is added. A bin in which one party alone has rows shows that party's rows; "
            "whoever knows all rows but one party's learns that party's counts. Fewer thresholds reveal less."
        )
    if card.weighted:
        learnt += (
            " Of each bin parties learn sums of weights, of their squares, and rows: where few rows are in one, the "
            "weights themselves (at a horizon: when the event was); where weights have few values, how many rows have "
            "each."
        )
        if card.min_cell > 1:
            learnt += (
                " So sums of weights on this page, and curves of them, are in steps of two effective rows of their "
                "label, and rates at thresholds, each computed before, in steps of about two of its rows."
            )
    if grids.quantiles_wanted(thresholds) is not None:
        learnt += " Thresholds come from the scores themselves, by a session before; the warnings say what it revealed."
    if of_rows:
        learnt += f" Thresholds are {thresholds}: this process has read the rows, and chosen them."
    keys, trust = _KEYS.get(evaluation.keys, "There are no keys."), registry.load(evaluation.protocol).trust
    return (
        f"Model “{evaluation.protocol.removeprefix('histogram-')}”. {aggregator} {learnt}\n\n"
        f"{keys} To be trusted: {trust}." + ("" if evaluation.study else f"\n\n{_ONE_PROCESS}")
    )
