"""Reports of rows with weights, and at a horizon: what sessions count, and what page, JSON and text say of it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import rfc8785

from fhe_auc import federated_report
from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.question.analysis import Analysis, Questions, Variable
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.question.weights import Units, Weights
from fhe_auc.report.report import Report
from fhe_auc.report.steps import report_steps
from fhe_auc.results.asked import Asked, ReportAsked
from fhe_auc.results.evaluation import CellCounts, Evaluation
from fhe_auc.results.result_file import _of_plain, as_plain
from fhe_auc.rows.frames import parties_of
from fhe_auc.rows.party_data import Entries, PartyData
from fhe_auc.session import one_process, registry
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.histograms.exact_counts import bounds
from tests.support.vector_sessions import VectorPlay
from tests.support.weighted_rows import some_rows

GRID = np.arange(100) / 100
LABELS, SCORES, IPW = some_rows(900, decimals=3)
RANDOM = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {
        "died": LABELS,
        "risk": SCORES,
        "other": (SCORES + RANDOM.normal(0, 0.1, 900)).clip(0.01, 0.99).round(3),
        "ipw": IPW,
        "sex": RANDOM.choice(["F", "M"], 900),
        "site": RANDOM.choice(["north", "south", "west"], 900),
    }
)
ASKED = {"label": "died", "site": "site", "weight": "ipw", "max_weight": 4, "thresholds": GRID, "threshold": 0.3}


def made(**changes):
    return federated_report(TABLE, **{"score": "risk", **ASKED, **changes})


def by_bin(values: pd.Series | np.ndarray, of: np.ndarray) -> np.ndarray:
    at = np.searchsorted(GRID, SCORES[of], side="right") - 1
    return np.bincount(at, np.asarray(values)[of], len(GRID))


def test_a_histogram_has_sums_of_weights_and_of_their_squares_and_rows() -> None:
    ours = made(min_cell=1).card.histogram
    for side, label in enumerate((1, 0)):
        of = label == LABELS
        np.testing.assert_allclose(ours.sides[side], by_bin(IPW, of), atol=1e-9)
        np.testing.assert_allclose(ours.spread[side], by_bin(IPW**2, of), atol=1e-4)
        np.testing.assert_array_equal(ours.real[side], by_bin(np.ones(900), of))


def test_squares_have_the_room_that_sums_of_vectors_leave() -> None:
    assert bounds(None, 500, 3, 2) == (500, 1)
    assert bounds(Units(4000, 1000), 10_000, 3, 1) == (10_010_000 * 4000 + 3, 1)
    most, square = bounds(Units(50_000, 1000), 10**6, 20, 1)
    assert most <= 2**40 // 20
    assert 900 < square < 1000  # of a million units² of a row of weight 1
    precise = made(min_cell=1).card.histogram.spread
    coarse = made(min_cell=1, max_rows=10**8).card.histogram.spread
    assert 0 < np.abs(coarse - precise).max() < 0.2
    np.testing.assert_allclose(coarse.sum(axis=1), precise.sum(axis=1), rtol=0.01)


WEIGHTS = Weights("ipw", 5000)


def party(name: str, weights: list[int]) -> PartyData:
    data = PartyData.from_arrays(name, [0, 1], [0.2, 0.7])
    given = np.array(weights)
    given.flags.writeable = False
    return replace(data, weights=given)


def test_more_rows_than_agreed_on_or_more_weight_give_no_number() -> None:
    def reads(*weights: int):
        sites = [party(name, [each, each]) for name, each in zip("ab", weights, strict=True)]
        play = VectorPlay(sites, thresholds=GRID, max_rows=4, min_rows=2, analysis=Analysis(weights=WEIGHTS))
        return play.first_reads()

    assert reads(1000, 1000).histogram.sides.sum() == 4
    with pytest.raises(ResultCheckError, match="the parties have 12 rows in all, 8 more than max_rows = 4"):
        reads(3000, 3000)
    unweighted = [PartyData.from_arrays(name, [0, 1], [0.2, 0.7]) for name in "ab"]
    with pytest.raises(InputError, match="its rows are not those of the session's analysis"):
        VectorPlay(unweighted, thresholds=GRID, analysis=Analysis(weights=WEIGHTS))


def test_groups_and_two_models_have_sums_of_weights_with_effective_rows() -> None:
    report = made(min_cell=1, by="sex", score=["risk", "other"], thresholds=GRID[::10])
    above = SCORES >= 0.3
    for group in report.card.group_decisions:
        own = (group.level == TABLE.sex).to_numpy()
        cells = [own & (y == LABELS) & (above == act) for act in (True, False) for y in (1, 0)]
        assert group.counts == pytest.approx([IPW[each].sum() for each in cells], abs=1e-9)
        assert group.squares == pytest.approx([(IPW[each] ** 2).sum() for each in cells], abs=1e-3)
        hit, among = group.rate("precision")
        assert hit / among == pytest.approx(IPW[cells[0]].sum() / IPW[cells[0] | cells[1]].sum(), rel=1e-9)
        assert among < 0.7 * (cells[0] | cells[1]).sum()
    acts = {"first": above, "second": TABLE.other.to_numpy() >= 0.3}
    worth = {name: np.where(LABELS, 1, -0.3 / 0.7) * of for name, of in acts.items()}
    worth["difference"] = worth["second"] - worth["first"]
    for each in report.facts.net_benefits:
        mean = np.average(worth[each.name], weights=IPW)
        assert each.estimate.value == pytest.approx(mean, abs=1e-9)
        error = np.sqrt(np.sum((IPW * (worth[each.name] - mean)) ** 2)) / IPW.sum()
        assert each.interval.high - mean == pytest.approx(1.959964 * error, rel=1e-6)


def test_a_group_with_few_effective_rows_in_a_cell_is_not_shown() -> None:
    one = np.flatnonzero((TABLE.sex == "F") & (LABELS == 1) & (SCORES >= 0.3))[0]
    heavy = TABLE.assign(ipw=np.where(np.arange(900) == one, 70.0, 1.0))
    asked = {**ASKED, "score": "risk", "max_weight": 70, "by": "sex"}
    groups = federated_report(heavy, **asked).card.group_decisions
    assert all(each.counts is None for each in groups)  # M would give F away
    alike = federated_report(TABLE.assign(ipw=1.0), **asked).card.group_decisions
    assert [each.counts is None for each in alike] == [False, False]
    assert all(count % 2 == 0 for each in alike for count in each.counts)  # in steps of two effective rows


def test_page_json_and_text_say_that_numbers_are_weighted() -> None:
    report = made()
    told, text = report.as_dict(), report.facts.weighting["text"]
    assert text.startswith("Rows have weights: column “ipw”, in steps of 0.001, 4 at most. All numbers but those of")
    assert "Intervals take the weights as known." in text
    assert told["weighting"]["step"] == 0.001
    kish = [IPW[label == LABELS].sum() ** 2 / (IPW[label == LABELS] ** 2).sum() for label in (1, 0)]
    assert list(told["weighting"]["effective_rows"].values()) == pytest.approx(kish, rel=0.02)
    assert (told["rows"], told["positive_rows"]) == (900, LABELS.sum())
    assert text in report.html()
    assert "900 rows" in str(report)
    assert "by weight" in str(report)
    assert "Of each bin parties learn sums of weights, of their squares, and rows" in told["privacy"]
    json.dumps(told, allow_nan=False)
    plain = {**ASKED, "weight": None, "max_weight": None}
    assert "weighting" not in federated_report(TABLE, **plain, score="risk").as_dict()


FOLLOWED = TABLE.assign(days=RANDOM.integers(1, 40, 900), status=RANDOM.choice([0, 1, 2], 900, p=[0.3, 0.5, 0.2]))
AT = {"score": "risk", "site": "site", "time": "days", "event": "status", "event_codes": ("1", "0", "2")}


def test_at_a_horizon_page_and_json_say_what_is_counted_and_what_not() -> None:
    report = federated_report(FOLLOWED, **AT, horizon=20, thresholds=GRID)
    told = report.as_dict()["weighting"]
    lost = int(((FOLLOWED.days <= 20) & (FOLLOWED.status == 0)).sum())
    assert (told["horizon"], told["event"], told["competing"]) == (20, "status = 1", ["2"])
    assert told["censored_before"] == lost
    assert f"{lost} rows were censored before (code 0)" in told["text"]
    assert "Observed events are those of Aalen and Johansen, over all rows." in told["text"]
    assert told["text"].endswith("Intervals take the weights as known, which makes them wider than need be.")
    assert report.card.rows == 900
    assert report.as_dict()["positive_rows"] == int(((FOLLOWED.days <= 20) & (FOLLOWED.status == 1)).sum())
    assert told["text"] in report.html()
    assert "Fewer than 10 rows were censored" in str(
        federated_report(
            FOLLOWED[(FOLLOWED.status != 0) | (FOLLOWED.days > 20) | (np.arange(900) < 20)],
            **AT,
            horizon=20,
            thresholds=GRID,
        ).facts.weighting["text"]
    )
    with pytest.raises(InputError, match="a report is at one horizon, got 10, 20; make one for each"):
        federated_report(FOLLOWED, **AT, horizon=[10, 20], thresholds=GRID)


@pytest.mark.parametrize("weights", [((1234, 5), (2001, 999)), ((1000, 3000), (2000, 2000))])
def test_a_file_of_a_result_holds_weighted_counts_as_they_are_by_whichever_tool_it_was_rewritten(weights) -> None:
    plugins = {name: registry.load(name) for name in ("histogram-federated", "counts-federated")}
    asked = Request(parties=("a", "b"), thresholds=GRID, max_rows=40, analysis=Analysis(weights=WEIGHTS))
    sites = [party(name, list(own)) for name, own in zip("ab", weights, strict=True)]
    for plugin in plugins.values():
        outcome = one_process.run(plugin, asked, sites, None)
        assert isinstance(outcome, (Evaluation, CellCounts))
        for write in (json.dumps, rfc8785.dumps):  # as JavaScript does, the latter writes 3.0 as 3
            again = _of_plain(json.loads(write(json.loads(json.dumps(as_plain(outcome))))))
            before, after = ((each.histogram if isinstance(each, Evaluation) else each) for each in (outcome, again))
            for name in ("positives", "negatives", "squares", "rows"):
                np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
                assert getattr(before, name).dtype == getattr(after, name).dtype, (name, write)
            assert before.unknown is after.unknown is None


@pytest.mark.parametrize("how", [pytest.param("weights", marks=pytest.mark.slow), "horizon"])
def test_files_of_all_sessions_tell_the_same_report(how) -> None:
    of = {"weights": Weights("ipw", 4000)} if how == "weights" else {"follow_up": FollowUp("days", "status", (20.0,))}
    by = (Variable("sex", ("F", "M")),)
    questions = Questions(score_columns=("risk", "other"), by={each.name: each.levels for each in by}, **of)
    table = FOLLOWED[FOLLOWED.status != 2]
    parties, analysis = parties_of(table, questions, site="site", label="died", entries=Entries())
    asked = Asked(analysis=analysis, thresholds="uniform:10", report=ReportAsked(threshold=(0.3,)))
    base, outcomes = Request(parties=tuple(data.name for data in parties), thresholds=np.empty(0)), []

    def kept(step, outcome):
        outcomes.append(_of_plain(json.loads(json.dumps(as_plain(outcome)))))
        return outcome

    told = Report(*one_process.play(report_steps(asked, base), parties, analysis, None, said=kept)).as_dict()
    again = Report.of(asked, outcomes).as_dict()
    for report in (told, again):
        del report["session"]["seconds by phase"], report["privacy"]
    assert again == told
    assert told["group_decisions"]
    assert told["group_calibration"]
    assert told["models"]["net_benefit"]["second"]["interval"]
