"""Weights and follow-up times as options, keywords and studies ask for them, and how what cannot be is refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fhe_auc import federated_auc, federated_report
from fhe_auc.base.errors import InputError
from fhe_auc.cli import main
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.follow_up import KEYWORDS, AtHorizon, FollowUp, events_of, follow_up_of
from fhe_auc.question.study import Study
from fhe_auc.question.weights import Weights, weights_of

WORDS = {"model": "m", "outcome": "o", "cohort": "c", "period": "p"}
ROWS = {"y_true": [0, 1], "y_score": [0.2, 0.9], "ipw": [1, 2], "days": [3, 4], "status": [1, 0]}


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("", None),
        ("ipw=50", Weights("ipw", 50_000, 1000)),
        ("ipw=50,0.01", Weights("ipw", 5000, 100)),
        ("w=3,1", Weights("w", 3, 1)),
        ("w=1.0005", Weights("w", 1001, 1000)),
        ("w=0.3e1,1e-6", Weights("w", 3_000_000, 10**6)),
        ('"a,b=c"=7', Weights("a,b=c", 7000, 1000)),
        (' "in ""quotes""" = 7', Weights('in "quotes"', 7000, 1000)),
    ],
)
def test_a_column_of_weights_has_a_bound_and_a_step_in_one_text(text: str, weights: Weights | None) -> None:
    assert weights_of(text) == weights


@pytest.mark.parametrize("text", ["ipw", "ipw=", "ipw=much", "ipw=5,1,2", "a,b", "a=b=c"])
def test_weights_without_a_bound_are_asked_for_one(text: str) -> None:
    with pytest.raises(InputError, match=r"give its name and the most that one weight may be, which is public"):
        weights_of(text)


@pytest.mark.parametrize(
    "text", ["w=0.5", "w=-1", "w=inf", "w=20000", "w=5,0.02", "w=5,0", "w=5,-1", "w=5,10", "w=5,inf"]
)
def test_weights_too_large_or_too_fine_for_a_sum_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^weights in column 'w': their step is 1, 0\.1 "):
        weights_of(text)


@pytest.mark.parametrize(
    ("text", "column", "codes"),
    [
        ("status", "status", ("1", "0")),
        ("status=2,1", "status", ("2", "1")),
        ('status=dead,alive,"moved, or lost"', "status", ("dead", "alive", "moved, or lost")),
        ('"x=y"', "x=y", ("1", "0")),
    ],
)
def test_events_are_a_column_and_codes_in_one_text(text: str, column: str, codes: tuple[str, ...]) -> None:
    assert events_of(text) == (column, codes)


@pytest.mark.parametrize(
    ("grid", "step"), [("", 1.0), ("days", 1), ("weeks", 7), ("months", 30.4375), ("0.5", 0.5), (2, 2)]
)
def test_a_grid_of_times_has_a_name_or_is_a_step(grid: Any, step: float) -> None:
    assert follow_up_of("t", "e", (730, 365.0), grid) == FollowUp("t", "e", (365.0, 730.0), step=step)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("t", "", ()), r"^time: follow-up times need event, horizon too"),
        (("", "e", ()), r"^event: follow-up times need time, horizon too"),
        (("", "", (1.0,)), r"^horizon: follow-up times need time, event too"),
        (("", "", (), "weeks"), r"^time_grid: follow-up times need time, event, horizon too"),
        (("t", "e", (1.0,), "fortnights"), r"^time_grid is days, weeks, months or a step of times, not 'fortnights'"),
        (("t", "e", (1.0,), "-1"), r"steps of -1"),
        (("t", "e", (1.0, 1.0)), r"1 to 10 times above 0, ascending; got 1, 1"),
        (("t", "e", (0.0,)), r"1 to 10 times above 0"),
        (
            ("t", "e", (1e6,)),
            r"at most 65,536 up to the last horizon, 1e\+06; got steps of 1; take a wider one, as weeks",
        ),
        (("t", "e", (1.0,), 0.0), r"a step is above 0.* got steps of 0$"),
    ],
)
def test_times_events_and_horizons_go_together(given: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        follow_up_of(*given, names=KEYWORDS)


TIMES = ["--time-column", "days", "--event-column", "status", "--horizon", "30"]


@pytest.mark.parametrize("command", ["evaluate", "report"])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--weight-column", "ipw"], "column of weights 'ipw': give its name and the most"),
        (["--horizon", "30"], "--horizon: follow-up times need --time-column, --event-column too"),
        (["--horizon", "soon"], "give numbers, as in"),
        (["--event-column", "s"], "--event-column: follow-up times need --time-column, --horizon too"),
        ([*TIMES, "--label-column", "died"], "--label-column does not go with --time-column: no labels are read then"),
        ([*TIMES, "--positive-label", "2"], "--positive-label does not go with --time-column"),
        ([*TIMES, "--time-grid", "years"], "--time-grid is days, weeks, months or a step of times"),
        ([*TIMES[:-1], "30,60", "--event-column", "status=1"], "name the code of the event, that of the censored"),
        ([*TIMES, "--weight-column", "ipw=5"], "weights and follow-up times do not go together"),
        ([*TIMES, "--heterogeneity"], "AUCs are of labels 0 and 1, not across groups, and not of sites"),
    ],
)
def test_options_that_do_not_go_together_are_refused_by_name(
    tmp_path: Path, command: str, options: list[str], told: str
) -> None:
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for file in files:
        Path(file).write_text("\n".join(map(",".join, np.array([[*ROWS], *zip(*ROWS.values(), strict=True)]).tolist())))
    result = CliRunner().invoke(
        main, [command, *files, *options, *(["--out", str(tmp_path / "o")] * (command != "evaluate"))]
    )
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_options_of_noise_and_other_protocols_are_refused_before_a_file_is_read() -> None:
    for options, told in (
        (["--epsilon", "1", "--weight-column", "w=5"], "weights and follow-up times do not go with noise"),
        (["--epsilon", "1", *TIMES], "weights and follow-up times do not go with noise"),
        (["--protocol", "dpauc-rr", "-o", "epsilon=1", *TIMES], "protocol 'dpauc-rr' counts each row once"),
        (["--protocol", "malicious", "--weight-column", "w=5"], "protocol 'malicious' counts each row once"),
    ):
        result = CliRunner().invoke(main, ["evaluate", "absent.csv", *options])
        assert (result.exit_code, told in " ".join(result.stderr.split())) == (2, True), result.stderr


ASKED = {"time": "days", "event": "status", "horizon": 3}


@pytest.mark.parametrize("function", [federated_auc, federated_report])
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"weight": "ipw"}, "weights have a column and a bound, which is public: weight='ipw', max_weight=50"),
        ({"max_weight": 5}, "weights have a column and a bound"),
        ({"weight": "ipw", "max_weight": 0.1}, "the most that one may be lies between 1 and 16,777,216 steps"),
        ({"weight": "ipw", "max_weight": "5"}, "max_weight must be a number, got '5'"),
        ({"weight": "ipw", "max_weight": 1}, r"party 'a', row 1, column 'ipw': weight is above 1, the most"),
        ({"time": "days"}, "time: follow-up times need event, horizon too"),
        ({"event_codes": [2, 1]}, "event_codes: follow-up times need time, event, horizon too"),
        ({"horizon": "soon"}, "horizon must be a time, or a list of times, got 'soon'"),
        ({"time": "days", "event": "status", "horizon": 3, "label": "died"}, "label does not go with time: no labels"),
        (
            {"time": "days", "event": "status", "horizon": 3, "positive_label": 1},
            "positive_label does not go with time",
        ),
        (
            {"time": "days", "event": "status", "horizon": [2, 3], "event_codes": "2,1"},
            "event is '0', and codes are '2', '1', while",
        ),
        ({"time": "days", "event": "status", "horizon": 3, "event_codes": [1]}, "name the code of the event"),
    ],
)
def test_keywords_that_do_not_go_together_are_refused_by_name(function: Any, values: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        function({"a": ROWS, "b": ROWS}, **values)


@pytest.mark.parametrize("asked", [{"weight": "ipw", "max_weight": 2}, {**ASKED}])
def test_a_report_with_noise_and_a_pool_above_its_bound_are_refused(asked: dict[str, Any]) -> None:
    for model in ("distributed-dp", "local-dp"):
        with pytest.raises(InputError, match="weights and follow-up times do not go with a model that adds noise"):
            federated_report({"a": ROWS, "b": ROWS}, protocol=f"histogram-{model}", epsilon=1, **asked)
    if "weight" in asked:
        with pytest.raises(InputError, match="the parties have 6 rows by weight in all, 1 more than max_rows = 5"):
            federated_auc({"a": ROWS, "b": ROWS}, max_rows=5, min_rows=2, **asked)


def test_a_studys_file_asks_for_weights_or_times_and_names_their_columns() -> None:
    weighed = Study(**WORDS, weight_column="ipw=50,0.01", by=("sex=F,M",))
    assert weighed.analysis().weights == Weights("ipw", 5000, 100)
    assert (weighed.number_columns, weighed.other_columns) == (["ipw"], ["sex"])
    times = {"time_column": "days", "event_column": "status=2,1", "horizon": (30.0, 60.0), "time_grid": "weeks"}
    followed = Study(**WORDS, **times, score_columns=("a", "b"), cluster="id")
    assert followed.analysis().follow_up == FollowUp("days", "status", (30.0, 60.0), ("2", "1"), 7.0)
    assert (followed.number_columns, followed.other_columns) == (["a", "b", "days"], ["id", "status"])
    for values, told in (
        ({"weight_column": "ipw"}, "column of weights 'ipw'"),
        ({**times, "label_column": "died"}, "label-column does not go with time-column"),
        ({**times, "horizon": ()}, "time-column: follow-up times need horizon too"),
        ({"time_grid": 2.0}, "time-grid: follow-up times need time-column, event-column, horizon too"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(told)}"):
            Study(**WORDS, **values)


def test_a_partys_weights_are_within_its_cap_as_its_rows_are() -> None:
    study = Study(**WORDS, row_caps={"north": 100})
    study.require_rows("north", 100, weighed=True)
    with pytest.raises(InputError, match=r"^party 'north' counts as 101 rows, more than its cap"):
        study.require_rows("north", 101, weighed=True)


@pytest.mark.parametrize(
    ("horizon", "weights", "beyond"),
    [
        (10.0, (1000, 9000, *[1000] * 9), 9000),  # one cell of time stands out
        (10.0, (1000,) * 11, 999),
        (10.0, (1000,) * 3, 1000),  # fewer cells than there are up to the horizon
        (7.0, (1000,) * 8, 1000),  # no horizon that was asked for
    ],
)
def test_weights_that_no_censoring_curve_makes_are_refused(horizon: float, weights: Any, beyond: int) -> None:
    follow_up = FollowUp(time="days", event="status", horizons=(10.0,))
    right = AtHorizon(horizon=10.0, weights=(1000,) * 11, beyond=1000)
    assert Analysis(follow_up=follow_up, at=right).units == (1000, 1000)
    with pytest.raises(InputError, match="weight"):
        Analysis(follow_up=follow_up, at=AtHorizon(horizon=horizon, weights=weights, beyond=beyond))
