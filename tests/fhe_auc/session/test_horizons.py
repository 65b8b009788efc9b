"""Evaluations at horizons: sessions one after the other, what is merged of them, and how it is shown."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fhe_auc import Evaluation, federated_auc
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.cli.evaluation_table import Form, print_evaluation
from fhe_auc.figures import forest_plot
from fhe_auc.question.analysis import Analysis, Questions
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.results import result_file, result_tables
from fhe_auc.results.asked import Asked
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.evaluation import CensoringCurve, Outcome
from fhe_auc.results.horizons import at_horizons
from fhe_auc.rows.frames import parties_of
from fhe_auc.rows.party_data import AS_THEY_ARE, PartyData
from fhe_auc.session import registry
from fhe_auc.session.one_process import picked, run
from fhe_auc.session.protocol import Request
from fhe_auc.session.steps import evaluation_steps, step_after, told_by
from tests.support import row_auc_at

HORIZONS = (100.0, 200.0)
FOLLOW_UP = FollowUp(time="days", event="status", horizons=HORIZONS, codes=("1", "0", "2"), step=10.0)
ABOUT = {"party": "north", "session": "00", "version": "1", "time": "2030-01-01T00:00:00+00:00"}
BASE = Request(parties=("north", "south", "west"), thresholds=np.empty(0))
ASKED = {"time": "days", "event": "status", "event_codes": [1, 0, 2], "horizon": HORIZONS, "time_grid": 10.0}


def made(number: int, seed: int) -> dict[str, Any]:
    """Rows of a site with times that are multiples of ten, a third of them censored, a few with a competing event."""
    random = np.random.default_rng(seed)
    risk = random.random(number)
    event, lost = (np.ceil(random.exponential(scale)) for scale in (30 / (0.4 + 2 * risk), np.full(number, 40)))
    status = np.where(lost < event, 0, np.where(random.random(number) < 0.2, 2, 1))
    other = np.clip(risk + random.normal(0, 0.2, number), 0, 1)
    return {"days": 10 * np.minimum(event, lost), "status": status, "a": risk.round(1), "b": other.round(1)}


ROWS = {name: made(150, seed) for seed, name in enumerate(("north", "south", "west"))}
ALL = {column: np.concatenate([site[column] for site in ROWS.values()]) for column in ("days", "status", "a", "b")}


def right(model: str, horizon: float) -> row_auc_at.Estimate:
    return row_auc_at.auc_at(ALL[model], ALL["days"], ALL["status"], horizon)


@pytest.fixture(scope="module")
def both() -> Evaluation:
    return federated_auc(ROWS, score=["a", "b"], protocol="exact", round_scores=1, **ASKED)


def test_each_horizon_has_the_aucs_of_the_program_over_rows(both: Evaluation) -> None:
    assert [(each.horizon, each.model) for each in both.estimates] == [
        (at, model) for at in HORIZONS for model in ("a", "b")
    ]
    for each in both.estimates:
        over_rows = right(each.model, each.horizon or 0)
        assert each.auc == pytest.approx(over_rows.auc, abs=1e-4)
        assert each.standard_error == pytest.approx(over_rows.error, rel=1e-3, abs=5.1e-5)  # of three digits
        labels, weights = row_auc_at.at_horizon(ALL["days"], ALL["status"], each.horizon or 0)
        assert (each.positives, each.rows) == (labels.sum(), (weights > 0).sum())
    assert (both.auc, both.horizon) == (both.estimates[0].auc, 100.0)
    assert both.headline.startswith(f"AUC at 100 {both.auc:.4f} (95 % interval ")


def test_what_all_sessions_have_told_and_cost_is_one_result(both: Evaluation) -> None:
    assert both.rounds == 3 * 2
    assert both.seconds["censoring curve: submit"] > 0 < both.seconds["submit"]
    curve = "every party learns how many pooled rows had an event, and were censored, in each of 21 cells of time"
    assert sum(curve in text for text in both.warnings) == 1
    assert "or with a competing one" in str(both.settings["definition"])
    for each in both.estimates:
        labels, weights = (values for values in row_auc_at.at_horizon(ALL["days"], ALL["status"], each.horizon or 0))
        assert both.settings[f"censored_at_{each.horizon:g}"] == len(ALL["days"]) - (each.rows or 0) > 10
        worth = weights[labels == 1].sum() ** 2 / np.square(weights[labels == 1]).sum()
        assert both.settings[f"effective_events_at_{each.horizon:g}"] == pytest.approx(worth, abs=0.7)  # a whole number
    assert not {"censored", "effective_events"} & {*both.settings}
    assert ", weighted; protocol exact" in both.headline
    assert [each.horizon for each in both.comparisons] == [*HORIZONS]
    of_both = [each.p_value or 0 for each in both.comparisons]
    assert min(each.p_holm or 0 for each in both.comparisons) == pytest.approx(min(1, 2 * min(of_both)))  # of two tests


def test_tables_frames_plots_and_json_say_the_horizon(both: Evaluation) -> None:
    table = result_tables.of_estimates(both.estimates)
    assert table.header[:3] == ("horizon", "model", "n")
    assert [row[:2] for row in table.rows] == [("100", "a"), ("100", "b"), ("200", "a"), ("200", "b")]
    assert [row[0] for row in result_tables.of_comparisons(both.comparisons).rows] == [
        "b minus a at 100",
        "b minus a at 200",
    ]
    frame, differences = both.to_frame(), both.differences_to_frame()
    assert frame["horizon"].tolist() == [100, 100, 200, 200]
    assert (
        differences[["horizon", "n", "events"]].to_numpy().tolist()
        == frame[frame.model == "a"][["horizon", "n", "events"]].to_numpy().tolist()
    )
    labels = [text.get_text() for text in forest_plot.draw(both).axes[0].get_yticklabels()]
    assert labels == ["all rows\nat 100", "all rows\nat 200"]
    axes = forest_plot.draw(both).axes[0]
    dotted = [(line.get_xdata()[0], *line.get_ydata()) for line in axes.lines if line.get_linestyle() == ":"]
    assert [auc for auc, *_ in dotted] == [each.auc for each in both.estimates]
    assert all(
        top < centre < bottom for (_, top, bottom), centre in zip(dotted, np.repeat(axes.get_yticks(), 2), strict=True)
    )
    assert dotted[0][2] == dotted[2][1]  # a line spans its horizon's rows only
    plain = json.loads(json.dumps(both.as_dict()))
    assert [*plain][:2] == ["auc", "horizon"]
    assert plain["horizon"] == 100
    assert [each["horizon"] for each in (*plain["estimates"], *plain["comparisons"])] == [100, 100, 200, 200, 100, 200]


def test_brief_has_a_line_for_each_horizon(both: Evaluation, capsys: pytest.CaptureFixture[str]) -> None:
    print_evaluation(both, Form(costs=False, brief=True, as_json=False))
    lines = capsys.readouterr().out.splitlines()
    of_first = [each for each in both.estimates if each.model == "a"]
    assert [line[:17] for line in lines] == [f"AUC at {each.horizon:g} {each.auc:.4f}" for each in of_first]
    for line, each in zip(lines, of_first, strict=True):
        assert f"; n {each.rows:,}, events {each.positives:,}, weighted; protocol exact" in line


def test_what_bins_say_at_a_horizon_or_of_weights_is_said_to_be_weighted() -> None:
    rows = {"protocol": "histogram-federated", "score": "a", "interval": None}
    at = federated_auc(ROWS, **rows, **{**ASKED, "horizon": 100})
    assert ", weighted; protocol histogram-federated" in at.headline
    assert at.settings["weights"] == "steps of 0.001"
    sites = {name: {**site, "died": site["status"] == 1, "w": np.full(150, 1.5)} for name, site in ROWS.items()}
    of_weights = federated_auc(sites, **rows, label="died", weight="w", max_weight=2)
    assert ", weighted; protocol histogram-federated" in of_weights.headline


def test_without_follow_up_times_nothing_has_a_horizon() -> None:
    rows = {name: {**site, "died": (site["status"] == 1).astype(int)} for name, site in ROWS.items()}
    found = federated_auc(rows, label="died", score=["a", "b"], protocol="exact", round_scores=1)
    assert "horizon" not in json.dumps(found.as_dict())
    assert "horizon" not in [*found.to_frame().columns, *found.differences_to_frame().columns]


def parties(models: tuple[str, ...] = ("a",)) -> tuple[list[PartyData], Analysis]:
    questions = Questions(score_columns=models, follow_up=FOLLOW_UP)
    return parties_of(ROWS, questions, site=None, label="y_true", entries=AS_THEY_ARE)


def played(asked: Asked, data: list[PartyData]) -> list[Outcome]:
    """Play a question's sessions; a site writes each down, and what comes next follows from these files."""
    outcomes = list[Outcome]()
    while (step := step_after(evaluation_steps(asked, BASE), outcomes)) is not None:
        rows = [picked(each, asked.analysis, step.request.analysis) for each in data]
        outcome = run(registry.load(step.protocol), step.request, rows, None)
        before_it = [result_file.as_plain(each) for each in outcomes]
        told = json.loads(json.dumps({**ABOUT, **result_file.as_plain(outcome), "before": before_it}))
        outcomes.append(result_file.parsed(told).outcome)
        assert [type(each) for each in result_file.parsed(told).outcomes] == [type(each) for each in outcomes]
    return outcomes


def test_sessions_after_one_another_by_files_tell_what_one_process_tells() -> None:
    data, analysis = parties()
    asked = Asked(analysis=analysis, thresholds="quantile:12", protocol="exact")
    outcomes = played(asked, data)
    assert [each.protocol for each in outcomes] == ["boundaries-federated", "censoring-federated", "exact", "exact"]
    made = told_by(evaluation_steps(asked, BASE), outcomes)
    *before, last = (result_file.as_plain(each) for each in outcomes)
    assert result_file.parsed({**ABOUT, **last, "before": before}).evaluation().estimates == made.estimates
    assert result_file.parsed({**ABOUT, **last, "before": before}).evaluation().rounds == made.rounds == 8
    assert [each.horizon for each in made.estimates] == [*HORIZONS]
    with pytest.raises(InputError, match="is no evaluation: it has the censoring curve for one"):
        result_file.parsed({**ABOUT, **before[1], "before": before[:1]}).evaluation()
    both = federated_auc(ROWS, score="a", protocol="exact", thresholds="quantile:12", **ASKED)
    assert both.estimates == made.estimates


def test_a_horizon_that_nobody_reaches_is_refused_once_the_curve_says_so() -> None:
    with pytest.raises(EvaluationError, match="no row is followed up for longer than 5000"):
        federated_auc(ROWS, score="a", protocol="exact", **{**ASKED, "horizon": 5000})


def test_rows_without_times_are_no_part_of_a_censoring_curve() -> None:
    data, analysis = parties()
    asked = Asked(analysis=analysis, protocol="exact")
    with pytest.raises(InputError, match="party 'north' has no follow-up times, and the session asks for them"):
        played(asked, [replace(each, times=None) for each in data])
    step = step_after(evaluation_steps(Asked(), BASE), ())
    assert step is not None
    with pytest.raises(InputError, match="the session has no such times"):
        registry.load("censoring-federated").prepare(step.request)


def test_a_curve_is_no_less_proved_than_the_numbers_that_rest_on_it(both: Evaluation) -> None:
    data, analysis = parties()
    asked = Asked(analysis=analysis, protocol="exact")
    step = step_after(evaluation_steps(asked, BASE), ())
    assert step is not None
    curve = run(registry.load(step.protocol), step.request, data, None)
    assert isinstance(curve, CensoringCurve)
    proved: Mapping[str, Any] = {"verified": True, "soundness": 2.0**-50, "inputs_proved": "row caps"}
    estimates = [tuple(replace(each, horizon=at) for each in both.estimates[:1]) for at in HORIZONS]
    first, second = (replace(both, **proved, estimates=each, comparisons=()) for each in estimates)
    made = told_by(evaluation_steps(asked, BASE), [curve, first, second])
    assert made.verified
    assert made.soundness == pytest.approx(2.0**-49 + curve.soundness)
    assert made.inputs_not_proved == ("the censoring curve",)
    assert not told_by(evaluation_steps(asked, BASE), [replace(curve, verified=False), first, second]).verified


def warned(counts: Any, beyond: int, told: Mapping[str, list[tuple[int, int]]], min_cell: int = 10) -> list[str]:
    """What is said of horizons 100 and 200, with these rows of the curve, and of each group at both horizons."""
    common: Mapping[str, Any] = {"protocol": "", "backend": "", "parties": 3, "security_bits": 0}
    curve = CensoringCurve(**common, counts=np.array(counts), beyond=beyond)
    evaluations = []
    for at, horizon in enumerate(HORIZONS):
        of_groups = {
            group: {"positives": rows[at][0], "negatives": rows[at][1], "horizon": horizon}
            for group, rows in told.items()
        }
        estimates = tuple(GroupEstimate(model="", group=group, auc=0.7, **own) for group, own in of_groups.items())
        evaluations.append(
            Evaluation(
                **common, auc=0.7, binning_error=0.0, numerical_error=0.0, thresholds=9, verified=True,
                estimates=estimates,
            )
        )  # fmt: skip
    follow_up = FollowUp(time="days", event="status", horizons=HORIZONS, step=100.0)
    return [*at_horizons(evaluations, curve, Analysis(follow_up=follow_up, min_cell=min_cell)).warnings]


def test_what_few_rows_reach_or_large_weights_stand_for_is_told_without_a_count() -> None:
    assert warned([[0, 40, 40], [0, 20, 20]], 100, {"": [(40, 160), (80, 100)]}) == []
    few = warned([[0, 40, 40], [0, 300, 20]], 20, {"": [(40, 80), (80, 20)]})
    assert few == ["horizon 200: fewer than 30 rows are followed up for longer; an earlier one says more"]
    large = warned([[0, 40, 40], [0, 2000, 20]], 100, {"": [(40, 160), (80, 100)]})
    assert large == [
        f"horizon {at}: so many rows are censored before that one stands for up to {most}; what is said of it hangs on "
        "few"
        for at, most in ((100, 13.5), (200, 16.2))
    ]


def test_horizons_between_which_few_rows_have_an_event_tell_these_and_are_not_both_for_publishing() -> None:
    told = {"": [(40, 160), (80, 100)], "sex: F": [(20, 80), (23, 70)], "sex: M": [(20, 80), (57, 41)]}
    (near,) = warned([[0, 40, 40], [0, 20, 20]], 100, told)
    assert near.startswith("horizons 100 and 200: their numbers tell that fewer than 10 rows had the event, or were")
    assert near.endswith("between them (sex: F, sex: M): then publish one of the two")
    assert warned([[0, 40, 40], [0, 20, 20]], 100, told, min_cell=1) == []


def test_rows_that_are_not_those_of_the_curve_are_told() -> None:
    """A site was away in one of the sessions, has read other rows since, or lies."""
    told = warned([[0, 40, 40], [0, 20, 20]], 100, {"": [(40, 159), (80, 100)]})
    assert told == [
        "horizon 100: its rows are not those of the censoring curve: a site was away, or has other rows since"
    ]


def test_how_many_rows_were_censored_is_told_but_for_few() -> None:
    few = {name: {**site, "status": site["status"].copy()} for name, site in ROWS.items()}
    for site in few.values():
        early = np.flatnonzero((site["days"] <= 100) & (site["status"] == 0))
        site["status"][early[1:]] = 1
    asked = {**ASKED, "horizon": 100.0}
    one = federated_auc(few, score="a", protocol="exact", round_scores=1, interval=None, **asked)
    assert "censored" not in one.settings
    shown = federated_auc(few, score="a", protocol="exact", round_scores=1, interval=None, min_cell=1, **asked)
    assert shown.settings["censored"] == 3
