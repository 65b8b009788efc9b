"""The report's figures, and these in words; functions that plot draw on `ax`, or pyplot's, and return the axes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.figures.plot import GREY, INK, LIGHT, blank_figure, current, tidy, written
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.results.decisions import Decision
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.report_card import ReportCard

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (4.1, 3.6)  # inches, 394 CSS pixels wide: a phone shows it, and its text, at about this size
_CELLS = 40  # of the score histogram
_NOTHING_LEFT = 0.05  # share of the prevalence, which is the most: where net benefits are below it the axis ends
_PER_BIN = 20  # points of the precision-recall curve
_CURVE: Mapping[str, Any] = {"color": INK, "linewidth": 1.6}  # of a model
_REFERENCE: Mapping[str, Any] = {"color": GREY, "linestyle": ":", "linewidth": 1.2}  # of no model, or a perfect one


class HasCards(Protocol):
    """What has the card of each model: a `Report`."""

    @property
    def cards(self) -> Mapping[str, ReportCard]:
        """Every number and curve, by the model's name."""


Reported: TypeAlias = HasCards | ReportCard | Sequence[ReportCard]


class Illustration(NamedTuple):
    """One figure of the report: a heading, how to read it, its alternative text, and what draws it."""

    title: str
    caption: str
    words: Callable[[ReportCard], str]
    plot: Callable[[Reported, Axes], Axes]
    of_noise: str = ""  # the caption where counts carry noise, if that is another one


def shown_in(cards: Sequence[ReportCard], name: str) -> tuple[ReportCard, ...]:
    """Return the cards that a figure shows: two figures need probabilities."""
    if name not in ("reliability", "decision_curve"):
        return tuple(cards)
    return tuple(card for card in cards if card.calibration is not None and card.decision_curve is not None)


def _of_probabilities(report: Reported, name: str) -> tuple[ReportCard, ...]:
    if not (cards := shown_in(cards_of(report), name)):
        raise InputError(f"these scores are not probabilities, so there is no {name.replace('_', ' ')}")
    return cards


def draw(report: Reported, name: str) -> Figure:
    """Draw one figure; `name` is a key of `FIGURES`."""
    figure = blank_figure(*_SIZE)
    FIGURES[name].plot(report, figure.add_subplot())
    return figure


def svg(figure: Figure) -> bytes:
    """Return the figure as SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "fhe-auc"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def png(figure: Figure) -> bytes:
    """Return the figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()


def cards_of(report: Reported) -> tuple[ReportCard, ...]:
    """Return the cards of what `fhe_auc.federated_report` returns, or cards themselves; `InputError` for all else."""
    cards: object = getattr(report, "cards", report)
    found = cards.values() if isinstance(cards, Mapping) else cards if isinstance(cards, (tuple, list)) else (cards,)
    of_cards = tuple(each for each in found if isinstance(each, ReportCard))
    if not of_cards or len(of_cards) < len(found):
        hint = "; plot_forest draws an evaluation" if isinstance(report, Evaluation) else ""
        raise InputError(
            f"expected the report that federated_report returns, or its card, got {type(report).__name__}{hint}"
        )
    return of_cards


def _named(card: ReportCard) -> str:
    return card.title.replace("$", r"\$")  # which would begin a formula


def _labelled(axes: Axes, x: str, y: str, where: str, **looks: Any) -> Axes:
    """Label the axes, and draw the legend, without a frame unless its looks are given."""
    axes.set(xlabel=x, ylabel=y)
    handles, labels = axes.get_legend_handles_labels()
    names, families = written(labels)
    axes.legend(handles, names, loc=where, prop={"size": 8, "family": families}, **(looks or {"frameon": False}))
    return tidy(axes)


def _styled(cards: tuple[ReportCard, ...]) -> Iterator[tuple[ReportCard, str, str]]:
    """Yield each card with the line and the marker of its model."""
    return zip(cards, ("-", "-."), ("o", "s"), strict=False)


def plot_roc(report: Reported, ax: Axes | None = None) -> Axes:
    """Draw the ROC curve: what the bins leave open, limits point by point, and two thresholds; of two models curves.

    Of counts with noise it is interpolated, with its bands.

    >>> from fhe_auc import federated_report, plot_roc
    >>> plot_roc(federated_report([([0, 1], [0.2, 0.9])], min_cell=1, thresholds="uniform:9")).get_xlabel()
    'False positive rate (1 − specificity)'
    """
    cards, axes = cards_of(report), current(ax)
    if len(cards) == 1:
        _roc_limits(cards[0], axes)
    for card, line, _ in _styled(cards):
        label = f"{_named(card)} (AUC {card.auc.value:.3f})"
        axes.plot(*_roc_points(card), line, label=label, **_CURVE)
    axes.plot([0, 1], [0, 1], label="chance (AUC 0.5)", **_REFERENCE)
    _mark_decisions(axes, cards, "specificity", "recall")
    looks: dict[str, Any] = {"edgecolor": "none", "framealpha": 0.9}  # the band may be behind it
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    labels = "False positive rate (1 − specificity)", "True positive rate (recall)"
    return _labelled(axes, *labels, "lower right", **looks)


def _roc_points(card: ReportCard) -> tuple[NDArray[np.float64], ...]:
    if card.private is None:
        return card.roc[:2]
    fpr, tpr, *_ = card.private.curves["roc"].values()
    return np.concatenate(([0], fpr, [1])), np.concatenate(([0], tpr, [1]))


def _bands(card: ReportCard, axes: Axes, curve: str) -> float:
    """Draw the bands of a curve of noisy counts, and return their highest point, 0 without such."""
    if card.private is None or card.private.bands is None:
        return 0.0
    at, _, low, high, lowest, highest = card.private.curves[curve].values()
    axes.fill_between(at, low, high, color=LIGHT, linewidth=0, label=f"{card.level_text} band, of each point")
    for ends in (lowest, highest):
        axes.plot(at, ends, color=GREY, linestyle="--", linewidth=0.7)
    axes.lines[-1].set_label(f"{card.level_text} band, of the whole curve")
    return float(high.max())


def _roc_limits(card: ReportCard, axes: Axes) -> None:
    if card.noisy:
        _bands(card, axes, "roc")
        return
    fpr, tpr, _ = card.roc
    # The rows' own curve rises somehow from each point to the next: it stays in the rectangle between them.
    across, low, high = np.repeat(fpr, 2)[1:-1], np.repeat(tpr[:-1], 2), np.repeat(tpr[1:], 2)
    axes.fill_between(across, low, high, color=LIGHT, linewidth=0, label="left open by the bins")
    if card.tpr_band and card.fpr_band:  # corners of the rectangle that both rates' intervals make around each point
        for x, y in ((card.fpr_band.high, card.tpr_band.low), (card.fpr_band.low, card.tpr_band.high)):
            axes.plot(x, y, color=INK, linestyle="--", linewidth=0.7)
        axes.lines[0].set_label(f"{card.level_text} limits, point by point")


def _roc_in_words(card: ReportCard) -> str:
    fpr, tpr = _roc_points(card)
    points = ", ".join(f"{np.interp(x, fpr, tpr):.2f} at {x:g}" for x in (0.05, 0.1, 0.25, 0.5))
    return f"ROC curve with an area of {card.auc.value:.3f}. True positive rate by false positive rate: {points}."


def plot_precision_recall(report: Reported, ax: Axes | None = None) -> Axes:
    """Draw precision by recall; inside a bin, true and false positives grow together (Davis, Goadrich, ICML 2006).

    >>> from fhe_auc import federated_report, plot_precision_recall
    >>> plot_precision_recall(federated_report([([0, 1], [0.2, 0.9])], min_cell=1, thresholds="uniform:9")).get_xlabel()
    'Recall'
    """
    cards, axes = cards_of(report), current(ax)
    top = 0.0
    for card, line, _ in _styled(cards):
        recall, precision = _precision_recall_points(card)
        top = max(top, precision.max(), _bands(card, axes, "precision_recall"))
        axes.plot(recall, precision, line, label=_named(card), **_CURVE)
    chance = cards[0].prevalence
    axes.axhline(chance, label=f"chance ({chance:.3g})", **_REFERENCE)
    _mark_decisions(axes, cards, "recall", "precision")
    axes.set(xlim=(-0.01, 1.01), ylim=(0, 1.02 * _round_up(1.4 * top)))
    return _labelled(axes, "Recall", "Precision", "upper right")


def _precision_recall_points(card: ReportCard) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if card.private is not None:
        recall, precision, *_ = card.private.curves["precision_recall"].values()
        return recall, precision
    tp, fp = (np.append(np.cumsum(side[::-1]), 0.0)[[-1, *range(side.size)]] for side in _classes(card.histogram))
    bins = np.arange(len(tp))
    inside = np.linspace(0, bins[-1], _PER_BIN * bins[-1] + 1)[1:]
    tp, fp = (np.interp(inside, bins, counts) for counts in (tp, fp))
    some = tp + fp > 0
    return tp[some] / tp[-1], tp[some] / (tp[some] + fp[some])


def _precision_recall_in_words(card: ReportCard) -> str:
    precision, recall, _ = card.precision_recall
    if card.noisy:
        recall, precision = _precision_recall_points(card)
    points = ", ".join(f"{precision[recall >= x].max():.2f} at {x:g}" for x in (0.25, 0.5, 0.75, 0.9))
    return f"Precision-recall curve. Best precision by recall: {points}. Chance gives {card.prevalence:.3g}."


def plot_calibration(report: Reported, ax: Axes | None = None) -> Axes:
    """Draw the observed share of positive rows by mean score, with Wilson's intervals; scores are probabilities.

    >>> from fhe_auc import federated_report, plot_calibration
    >>> plot_calibration(federated_report([([0, 1], [0.2, 0.9])], min_cell=1, thresholds="uniform:9")).get_xlabel()
    'Mean score'
    """
    cards, axes = _of_probabilities(report, "reliability"), current(ax)
    highest = 0.0
    for card, line, marker in _styled(cards):
        assert card.calibration is not None  # noqa: S101 - else it is not shown
        observed, score, _ = card.calibration
        if card.observed_band:
            low, high = card.observed_band
            label = f"{card.level_text} interval" if card is cards[0] else ""
            axes.vlines(score, low, high, color=INK, linewidth=1.2, label=label)
            highest = max(highest, high.max())
        looks: dict[str, Any] = {"color": INK, "linewidth": 1.2, "markersize": 5, "clip_on": False}
        axes.plot(score, observed, marker + line, label=_named(card), **looks)
        highest = max(highest, observed.max(), score.max())
    reach = _round_up(1.08 * highest)
    axes.plot([0, reach], [0, reach], label="perfect calibration", zorder=1, **_REFERENCE)
    axes.set(xlim=(0, reach), ylim=(0, reach), aspect="equal")
    return _labelled(axes, "Mean score", "Observed share of positive rows", "upper left")


def _reliability_in_words(card: ReportCard) -> str:
    assert card.calibration is not None  # noqa: S101 - else there is no figure
    observed, score, _ = card.calibration
    points = ", ".join(f"{o:.3g} at {s:.3g}" for s, o in zip(score, observed, strict=True))
    return f"Reliability diagram. Observed share of positive rows by mean score: {points}."


def plot_decision_curve(report: Reported, ax: Axes | None = None) -> Axes:
    """Draw net benefit by threshold probability, beside treating all rows and none; scores are probabilities.

    >>> from fhe_auc import federated_report, plot_decision_curve
    >>> plot_decision_curve(federated_report([([0, 1], [0.2, 0.9])], min_cell=1, thresholds="uniform:9")).get_xlabel()
    'Threshold probability'
    """
    cards, axes = _of_probabilities(report, "decision_curve"), current(ax)
    prevalence, last = cards[0].prevalence, 0.0
    for card, line, _ in _styled(cards):
        assert card.decision_curve is not None  # noqa: S101 - else it is not shown
        thresholds, model, treat_all = card.decision_curve
        axes.plot(thresholds, model, line, label=_named(card), **_CURVE)
        if card.net_benefit_band:
            label = f"{card.level_text} interval" if card is cards[0] else ""
            axes.fill_between(thresholds, *card.net_benefit_band, color=LIGHT, alpha=0.6, linewidth=0, label=label)
        last = max(last, *thresholds[model > _NOTHING_LEFT * prevalence], 1.5 * prevalence)
    axes.plot(thresholds, treat_all, color=INK, linestyle="--", linewidth=1.2, label="treat all")
    axes.axhline(0, label="treat none", **_REFERENCE)
    axes.set(xlim=(0, _round_up(last)), ylim=(-0.2 * prevalence, 1.2 * prevalence))
    return _labelled(axes, "Threshold probability", "Net benefit (true positives a row)", "upper right")


def _decision_curve_in_words(card: ReportCard) -> str:
    assert card.decision_curve is not None  # noqa: S101 - else there is no figure
    thresholds, model, treat_all = card.decision_curve
    better = thresholds[model > np.maximum(treat_all, 0)]
    where = f"between the thresholds {better.min():.3g} and {better.max():.3g}" if len(better) else "nowhere"
    return (
        f"Decision curve. The {card.title} has a larger net benefit than treating all rows or none {where}. At "
        f"threshold 0 both have {card.prevalence:.3g}, the share of positive rows; treating none has 0 throughout."
    )


def plot_scores(report: Reported, ax: Axes | None = None) -> Axes:
    """Draw the scores of either class, as shares; a second model's in grey.

    >>> from fhe_auc import federated_report, plot_scores
    >>> plot_scores(federated_report([([0, 1], [0.2, 0.9])], min_cell=1, thresholds="uniform:9")).get_xlabel()
    'Score'
    """
    cards, axes = cards_of(report), current(ax)
    top, several = 0.0, len(cards) > 1
    ends = list[float]()
    for card, colour in zip(cards, (INK, GREY), strict=False):
        cells, shares = _shares(_spread(card))
        if not several:
            axes.stairs(shares[0], cells, fill=True, facecolor=LIGHT, edgecolor="none")
        of = f"{_named(card)}, " if several else ""
        for share, label, line in zip(shares, ("positive rows", "negative rows"), ("-", "--"), strict=True):
            axes.stairs(share, cells, color=colour, linestyle=line, linewidth=1.4, label=of + label)
            top = max(top, share.max())
        ends += [cells[0], cells[-1]]
    for card in cards[: not several]:
        for decisions, line in (((card.best,), "-."), (card.chosen, ":")):
            if within := [each for each in decisions if ends[0] <= each.threshold <= ends[1]]:
                at = [each.threshold for each in within]
                axes.vlines(at, 0, 1.08 * top, color=GREY, linestyle=line, linewidth=1.2, label=_label(within))
    axes.set(xlim=(min(ends), max(ends)), ylim=(0, (1.55 if several else 1.35) * top))  # room for the legend
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")
    ncols = 1 if several else 2
    return _labelled(axes, "Score", "Share of the class's rows", "upper center", frameon=False, ncols=ncols)


def _scores_in_words(card: ReportCard) -> str:
    spread = _spread(card)
    positive, negative = (_quantile(spread.edges, counts, 0.5) for counts in _classes(spread))
    return f"Histogram of scores. The median score is {positive:.3g} for positive and {negative:.3g} for negative rows."


def _mark_decisions(axes: Axes, cards: tuple[ReportCard, ...], of_x: str, of_y: str) -> None:
    """Mark the thresholds of the only model, where they are defined: whole rows would miss the curve by a rounding."""
    if len(cards) > 1:
        return
    card = cards[0]
    for decisions, marker in (((card.best,), "o"), (card.chosen, "D")):
        marked, points = list[Decision](), list[tuple[float, float]]()
        for decision in decisions:
            values = {each.name: each.estimate.value for each in decision.measures if each.estimate is not None}
            if of_x in values and of_y in values:
                marked.append(decision)
                points.append((1 - values[of_x] if of_x == "specificity" else values[of_x], values[of_y]))
        if marked:
            looks: dict[str, Any] = {"color": "white", "markeredgecolor": INK, "markersize": 7, "linestyle": ""}
            looks |= {"label": _label(marked), "clip_on": False, "zorder": 3}  # whole at the ends of the axes too
            axes.plot(*zip(*points, strict=True), marker, **looks)


def _label(decisions: Sequence[Decision]) -> str:
    title, at = decisions[0].title, [f"{each.threshold:.3g}" for each in decisions]
    return f"{title[0].lower()}{title[1:]}, at {', '.join(at[:3])}{', …' * (len(at) > 3)}"


def _spread(card: ReportCard) -> Histogram:
    return card.histogram if card.private is None else card.private.spread


def _classes(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return histogram.positives, histogram.negatives


def _shares(histogram: Histogram) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Spread each bin's rows evenly over equal cells that cover all but a thousandth at either end."""
    ends = [_quantile(histogram.edges, histogram.counts, share) for share in (0.001, 0.999)]
    width = max(ends[1] - ends[0], 1e-6)
    first, last = histogram.edges[[0, -1]]
    low, high = max(first, ends[0] - 0.02 * width), min(last, ends[1] + 0.02 * width)
    if high - low > 0.7 * (last - first):
        low, high = first, last
    cells: NDArray[np.float64] = np.linspace(low, high, _CELLS + 1, dtype=np.float64)
    shares: list[NDArray[np.float64]] = []
    for counts in _classes(histogram):
        below = np.interp(cells, histogram.edges, np.append(0.0, np.cumsum(counts))) / counts.sum()
        below[0], below[-1] = 0.0, 1.0  # the ends take in what lies beyond, and rows at the upper end itself
        shares.append(np.diff(below))
    return cells, shares


def _quantile(edges: NDArray[np.float64], counts: NDArray[np.float64], share: float) -> float:
    return float(np.interp(share * counts.sum(), np.append(0.0, np.cumsum(counts)), edges))


def _round_up(reach: float) -> float:
    """Return a round number that is not below, and 1 at most."""
    unit = 10.0 ** np.floor(np.log10(max(reach, 1e-9)))
    return float(min(1.0, next(step * unit for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * unit >= reach)))


FIGURES: dict[str, Illustration] = {
    "roc": Illustration(
        "ROC curve",
        "The further the line bends towards the upper left corner, the better the classifier tells the classes apart. "
        "Of one model, a grey band is what the bins leave open; dashed lines pass through the corners of Wilson's "
        "intervals of both rates, each at that level.",
        _roc_in_words,
        plot_roc,
        "Interpolated between the edges of few bins. The grey band holds the true curve at a place, and the dashed one "
        "all of it, with that probability: both allow for noise, chance, and the interpolation.",
    ),
    "precision_recall": Illustration(
        "Precision and recall",
        "What share of the rows predicted positive truly are, as the threshold is lowered to find more of them.",
        _precision_recall_in_words,
        plot_precision_recall,
        "What share of the rows predicted positive truly are, as the threshold is lowered to find more of them. Bands "
        "are as of the ROC curve.",
    ),
    "reliability": Illustration(
        "Reliability",
        "Points on the dotted line mean that scores can be read as probabilities; points below it, that scores are too "
        "high. Points stand for about equally many rows, or are about equally uncertain; they are fewer than ten where "
        "small counts would show. The bars are Wilson's intervals.",
        _reliability_in_words,
        plot_calibration,
        "Points on the dotted line mean that scores can be read as probabilities; points below it, that scores are too "
        "high. The bars allow for noise and chance. Mean scores are interpolated in wide bins, and have no interval.",
    ),
    "decision_curve": Illustration(
        "Decision curve",
        "What acting on the classifier is worth where a positive row's treatment is worth the harm of treating "
        "(1 − t)/t negative rows, t being the threshold probability (Vickers and Elkin, 2006). The band has each "
        "point's interval. The axis ends after the last threshold with a net benefit above a twentieth of the share of "
        "positive rows, and after one and a half of that share.",
        _decision_curve_in_words,
        plot_decision_curve,
        "What acting on the classifier is worth where a positive row's treatment is worth the harm of treating "
        "(1 − t)/t negative rows, t being the threshold probability (Vickers and Elkin, 2006), at the edges of bins. "
        "The band has each point's interval, noise included.",
    ),
    "scores": Illustration(
        "Scores of either class",
        "The less the two outlines overlap, the easier it is to tell the classes apart.",
        _scores_in_words,
        plot_scores,
        "Interpolated in the bins of noisy counts; the outlines have no bands.",
    ),
}
"""The report's figures, by the names of their files, in order."""
