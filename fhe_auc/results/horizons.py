"""Evaluations at horizons as one result; and what readers of it ought to know."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from fhe_auc.question.analysis import Analysis
from fhe_auc.question.follow_up import EVENT
from fhe_auc.results.estimates import with_holm
from fhe_auc.results.evaluation import COSTS, CensoringCurve, Evaluation, preceded

_FEW, _LARGE = 30, 10  # rows beyond a horizon, and a weight, that are worth a warning
_OF_ONE = "effective_events", "effective_others"  # settings that each horizon has of its own
_DYNAMIC = "rows with the event by the horizon, from rows without one (cumulative cases, dynamic controls)"
_COMPETING = _DYNAMIC.replace("(", "or with a competing one (")


def at_horizons(evaluations: Sequence[Evaluation], curve: CensoringCurve, analysis: Analysis) -> Evaluation:
    """Return the evaluation of all horizons, of that of each, with the costs and warnings of the curve's session."""
    first, several = evaluations[0], len(evaluations) > 1
    of_all = set(first.warnings).intersection(*(each.warnings for each in evaluations))
    texts = [
        f"horizon {each.horizon:g}: {text}" if several and text not in of_all else text
        for each in evaluations
        for text in each.warnings
    ]
    proved = [*(each.soundness for each in evaluations), curve.soundness]
    everybody = int(curve.counts.sum()) + curve.beyond
    lost = [everybody - (each.rows or 0) for each in evaluations]
    told = [{name: each.settings[name] for name in _OF_ONE if name in each.settings} for each in evaluations]
    if all(number == 0 or number >= analysis.min_cell for number in lost):
        told = [{**own, "censored": number} for own, number in zip(told, lost, strict=True)]
    if several:
        told = [
            {f"{name}_at_{each.horizon:g}": value for name, value in own.items()}
            for each, own in zip(evaluations, told, strict=True)
        ]
    made = replace(
        first,
        **{name: sum(getattr(each, name) for each in evaluations) for name in COSTS},
        seconds={phase: sum(each.seconds.get(phase, 0.0) for each in evaluations) for phase in first.seconds},
        estimates=tuple(estimate for each in evaluations for estimate in each.estimates),
        comparisons=with_holm([comparison for each in evaluations for comparison in each.comparisons]),
        warnings=(*texts, *_doubts(evaluations, curve, analysis)),
        own_warnings=tuple(dict.fromkeys(text for each in evaluations for text in each.own_warnings)),
        unproved_parties=tuple(dict.fromkeys(name for each in evaluations for name in each.unproved_parties)),
        verified=curve.verified and all(each.verified for each in evaluations),
        soundness=None if None in proved else sum(chance for chance in proved if chance is not None),
        inputs_not_proved=(*first.inputs_not_proved, *["the censoring curve"] * bool(first.inputs_proved)),
        settings={
            **{name: value for name, value in first.settings.items() if name not in _OF_ONE},
            "definition": _COMPETING if len(curve.counts) > 2 else _DYNAMIC,
            **{name: value for own in told for name, value in own.items()},
        },
    )
    return preceded(made, curve)


def _doubts(evaluations: Sequence[Evaluation], curve: CensoringCurve, analysis: Analysis) -> Iterator[str]:
    """Yield warnings: of few rows, large weights, rows that are not those of the curve, and horizons close together."""
    for each in evaluations:
        if not analysis.follow_up or each.horizon is None:
            return
        at, ended = f"horizon {each.horizon:g}", curve.until(analysis.follow_up.until(each.horizon))
        if ended.beyond < _FEW:
            yield f"{at}: fewer than {_FEW} rows are followed up for longer; an earlier one says more"
        if (most := 1 / ended.not_censored[-1]) > _LARGE:
            lost = "so many rows are censored before that one stands for up to"
            yield f"{at}: {lost} {most:.3g}; what is said of it hangs on few"
        events, others = int(ended.counts[EVENT].sum()), int(ended.counts[EVENT + 2 :].sum()) + ended.beyond
        if (each.estimates[0].positives, each.estimates[0].negatives) != (events, others):
            yield f"{at}: its rows are not those of the censoring curve: a site was away, or has other rows since"
    for before, after in pairwise(evaluations):
        near, few = [], range(1, analysis.min_cell)
        for first, second in zip(before.estimates, after.estimates, strict=True):
            more, fewer = (second.positives or 0) - (first.positives or 0), (first.rows or 0) - (second.rows or 0)
            if None not in (first.rows, second.rows) and (more in few or fewer in few):
                near.append(second.group or "all rows")
        if near:
            yield (
                f"horizons {before.horizon:g} and {after.horizon:g}: their numbers tell that fewer than "
                f"{analysis.min_cell} rows had the event, or were censored, between them "
                f"({', '.join(dict.fromkeys(near))}): then publish one of the two"
            )
