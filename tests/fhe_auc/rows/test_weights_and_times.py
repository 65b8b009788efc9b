"""Weights, follow-up times and events: what is read of tables, what is refused, and what counts at a horizon."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis, Questions
from fhe_auc.question.follow_up import AtHorizon, FollowUp
from fhe_auc.question.weights import Weights
from fhe_auc.rows.at_horizon import at_horizon
from fhe_auc.rows.entries import Coded, frozen
from fhe_auc.rows.frames import MemoryTable, parties_of
from fhe_auc.rows.own_checks import doubts, looked_at, row_hashes
from fhe_auc.rows.party_data import AS_THEY_ARE, Entries, PartyData
from fhe_auc.rows.party_files import FileEntries, read_for, write_rows
from fhe_auc.rows.party_rows import parties_in
from fhe_auc.rows.pieces import OPTIONS
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from tests.support.tables import write_table

IPW = Weights("ipw", 50_000, 1000)
FOLLOWED = FollowUp("days", "status", (30.0, 60.0))
WEIGHTED = Questions(score_columns=("risk",), weights=IPW)
TIMED = Questions(score_columns=("risk",), follow_up=FOLLOWED)
ROWS = {"risk": [0.1, 0.4, 0.7], "y_true": [0, 1, 1], "ipw": [1, 2.5, 0], "days": [10, 0.5, 90], "status": [1, 0, 1]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(questions: Questions, entries: Entries = AS_THEY_ARE, **columns: Any) -> PartyData:
    (found,), _ = parties_of({"north": {**ROWS, **columns}}, questions, entries=entries)
    return found


def columns_of(data: PartyData) -> dict[str, list[float]]:
    return {name: array.tolist() for name, array in data.optional.items()}


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "feather", "csv.gz"])
def test_weights_times_and_events_are_read_of_files_and_no_label_beside_times(folder: Path, suffix: str) -> None:
    file = write_table(f"north.{suffix}", **ROWS)
    ((north,), analysis) = read_for(WEIGHTED, file)
    assert (north.labels.tolist(), columns_of(north), north.notes) == ([0, 1, 1], {"weights": [1000, 2500, 0]}, ())
    assert analysis == Analysis(weights=IPW)
    file = write_table(f"south.{suffix}", **{name: ROWS[name] for name in ("risk", "days", "status")})
    ((south,), analysis) = read_for(TIMED, file)
    assert (south.labels.tolist(), columns_of(south)) == ([0, 1, 0], {"times": [10, 0.5, 90]})  # indices of codes
    assert analysis == Analysis(follow_up=FOLLOWED)


def test_rows_of_one_table_keep_their_weights_patients_and_groups_as_they_are_sorted_by_site() -> None:
    table = {
        "site": ["b", "a", "b", "a", "b"],
        "y_true": [0, 1, 1, 0, 1],
        "risk": [0.5, 0.25, 0.125, 0.75, 0.0],
        "ipw": [5, 4, 3, 2, 1],
        "sex": list("FMFMM"),
        "id": [1, 2, 1, 2, 3],
    }
    questions = replace(WEIGHTED, by={"sex": ()}, cluster="id")
    parties, _ = parties_of(table, questions, site="site")
    assert [(each.name, columns_of(each), each.groups[0].tolist()) for each in parties] == [
        ("b", {"clusters": [0, 0, 2], "weights": [5000, 3000, 1000]}, [0, 0, 1]),
        ("a", {"clusters": [1, 1], "weights": [4000, 2000]}, [1, 1]),
    ]


def test_a_note_says_that_weights_or_times_were_rounded_only_where_some_were() -> None:
    told = ("column 'ipw': weights were rounded to multiples of 0.001",)
    assert read(WEIGHTED, ipw=[0.1, 0.3, 49.999]).notes == ()  # no float64 is that
    rounded = read(WEIGHTED, ipw=[1 / 3, 2 / 3, 0])
    assert (rounded.notes, columns_of(rounded)) == (told, {"weights": [333, 667, 0]})
    tiny = read(WEIGHTED, ipw=[1 / 3, 2 / 3, 0.0004])  # a row that counts, counts one step at least
    more = f"{told[0]}, some by more than 5%: take a finer step, or multiply all by one number"
    assert (tiny.notes, columns_of(tiny)) == ((more,), {"weights": [333, 667, 1]})
    years = ("column 'days': each time counts as the next whole one, unless a time grid is finer",)
    for days, step, notes in (([1.0, 2.5, 3.0], 1.0, years), ([1.0, 2.5, 3.0], 0.25, ()), ([1.0, 2.0, 3.0], 1.0, ())):
        followed = FollowUp("days", "status", (3.0,), step=step)
        assert read(replace(TIMED, follow_up=followed), days=days).notes == notes
    whole = replace(WEIGHTED, weights=Weights("ipw", 3, 1))
    assert columns_of(read(whole, ipw=["1", "2.0", 3])) == {"weights": [1, 2, 3]}


def test_weights_whose_sum_rounding_moves_by_more_than_5_percent_are_refused() -> None:
    table = {"site": list("aabb"), "y_true": [0, 1] * 2, "risk": [0.5] * 4}
    whole = replace(WEIGHTED, weights=Weights("ipw", 8, 1))
    parties_of({"all": {**table, "ipw": [0.3, 0, 8, 8]}}, whole)
    parties_of({**table, "ipw": [6, 5.7, 6.6, 7]}, whole, site="site")
    for weights, step in (([0.3, 6, 1, 1], 1), ([1, 1, 1e-5, 4e-5], 1000), ([1, 1, 1.4, 1.4], 1)):
        questions = replace(WEIGHTED, weights=Weights("ipw", 8 * step, step))
        told = "its weights add up to other than before, by more than 5%: take a finer step, or multiply all weights by"
        with pytest.raises(InputError, match=f"^party '[ab]': .*, {told}"):
            parties_of({**table, "ipw": weights}, questions, site="site")


@pytest.mark.parametrize(
    ("questions", "column", "entry", "told"),
    [
        (WEIGHTED, "ipw", -1, "weight is -1.0; weights must be 0 or more"),
        (WEIGHTED, "ipw", float("inf"), "weight is inf; weights must be finite"),
        (WEIGHTED, "ipw", "much", "weight is 'much', which is not a number"),
        (WEIGHTED, "ipw", "", "weight is missing; --drop-missing leaves such rows out"),
        (
            WEIGHTED,
            "ipw",
            50.0001,
            "weight is above 50, the most that one may be, which is public: all sites agree on a higher one",
        ),
        (TIMED, "days", -3, "follow-up time is -3.0; follow-up times must be 0 or more"),
        (TIMED, "days", "inf", "follow-up time is inf; follow-up times must be finite"),
        (TIMED, "days", "NA", "follow-up time is missing; --drop-missing leaves such rows out"),
        (TIMED, "status", "NA", "event is 'NA', which counts as missing; --drop-missing leaves such rows out"),
    ],
)
def test_what_cannot_be_is_refused_with_party_line_column_and_value_but_of_a_bound_not_what_is_above(
    folder: Path, questions: Questions, column: str, entry: Any, told: str
) -> None:
    rows = {**ROWS, column: [*ROWS[column][:2], entry]}
    write_table("north.csv", **rows)
    with pytest.raises(InputError) as refused:
        read_for(questions, ["north.csv"])
    assert str(refused.value) == f"party 'north', north.csv, line 4, column '{column}': {told}"
    if "missing" in told:
        (north,), _ = read_for(questions, ["north.csv"], entries=FileEntries(drop_missing=True))
        assert (north.rows, north.dropped) == (2, 1)


@pytest.mark.parametrize(
    ("status", "codes", "labels"),
    [
        ([True, False, True], ("1", "0"), [0, 1, 0]),
        (["1.0", "0", "TRUE"], ("1", "0"), [0, 1, 0]),
        ([2, 1, 2], ("2", "1"), [0, 1, 0]),  # as of R's survival
        ([2.0, 1.0, 3.0], ("2.0", "1", "3"), [0, 1, 2]),
        (["dead", "alive", "moved"], ("dead", "alive", "moved"), [0, 1, 2]),
        ([True, False, True], ("True", "False"), [0, 1, 0]),
        ([0, 1, 0], ("1", "0"), [1, 0, 1]),
        ([0, 0, 0], ("1", "0"), [1, 1, 1]),
    ],
)
def test_events_are_coded_as_named_whatever_their_type(
    status: Sequence[Any], codes: tuple[str, ...], labels: list[int]
) -> None:
    questions = replace(TIMED, follow_up=FollowUp("days", "status", (30.0,), codes))
    assert read(questions, status=status).labels.tolist() == labels


@pytest.mark.parametrize(
    ("status", "codes", "told"),
    [
        (
            [1, 0, 2],
            ("1", "0"),
            "event is '2', and codes are '1', '0', while the column has '0', '1', '2': where 1 is the event, %1,0,2",
        ),
        (
            [1, 2, 1],
            ("1", "0"),
            "event is '2', and codes are '1', '0', while the column has '1', '2': where 2 is the event, %2,1",
        ),
        ([1, 0, 1], ("2", "1"), "event is '0', .* has '0', '1': where 1 is the event, %1,0"),
        ([True, False, True], ("2", "1"), "event is 'False', .* has 'False', 'True': where True is .*, %True,False"),
        (
            ["d", 0, 1],
            ("1", "0"),
            "event is 'd', .* has '0', '1', 'd': write codes alike at all sites; name the event first, the censored "
            "next, then competing ones, as %EVENT,CENSORED",
        ),
        ([1, 0, 7], ("1", "0"), "has '0', '1', '7': write codes alike at all sites; .*, as %EVENT,CENSORED"),
        ([1, 0, 1], ("1", "0", "1.0"), "event '1' is also written '1.0'"),
    ],
)
def test_codes_that_nobody_has_named_are_asked_about_with_all_that_there_are(
    status: Sequence[Any], codes: tuple[str, ...], told: str
) -> None:
    questions = replace(TIMED, follow_up=FollowUp("days", "status", (30.0,), codes))
    with pytest.raises(InputError, match=told.replace("%", 'event_codes="')):
        read(questions, status=status)
    assert OPTIONS.events == "--event-column NAME="


def test_labels_of_codes_count_by_these_unless_1_and_2_leave_open_which_one_is_the_event() -> None:
    def of(stored: dict[str, str], codes: tuple[str, ...] = ("1", "0")) -> list[int]:
        table = MemoryTable("table", "north", {name: ROWS[name][:2] for name in ("risk", "days", "status")})
        table._coded["status"] = Coded(np.arange(2, dtype=np.int32), list(stored), stored=stored)
        questions = replace(TIMED, follow_up=FollowUp("days", "status", (30.0,), codes))
        (data,), _ = parties_in([table], questions, site=None, label="y_true", entries=AS_THEY_ARE)
        return [int(label) for label in data.labels]

    assert of({"dead": "1", "censored": "0"}) == [0, 1]
    assert of({"dead": "2", "alive": "1"}, ("2", "1")) == of({"dead": "2", "alive": "1"}, ("dead", "alive")) == [0, 1]
    with pytest.raises(InputError, match=r"event is 'censored', .* has 'censored', 'dead'"):
        of({"censored": "1", "dead": "2"})


def test_one_column_has_one_meaning_and_a_pair_no_weights() -> None:
    for questions in (replace(WEIGHTED, weights=Weights("risk", 1000)), replace(TIMED, by={"status": ()})):
        with pytest.raises(
            InputError, match=r"patient, weight, time and event columns must differ, but '(risk|status)'"
        ):
            read(questions)
    for questions in (WEIGHTED, TIMED):
        with pytest.raises(InputError, match=r"is a pair .* weights or times are asked for: give a table"):
            parties_of([([0, 1], [0.5, 0.5])], questions)
        with pytest.raises(InputError, match=r"is PartyData, .*: give a table"):
            parties_of([PartyData.from_arrays("a", [0, 1], [0.5, 0.5])], questions)


def test_at_a_horizon_events_by_then_are_positive_and_who_was_lost_before_does_not_count() -> None:
    """Cells end on days 0, 10, 20, 30; 30 is the horizon: its weights are those of these cells, then beyond."""
    at = AtHorizon(horizon=30.0, weights=(1000, 1100, 1200, 1300), beyond=1400)
    follow_up = FollowUp("days", "status", (30.0,), ("1", "0", "2"), step=10.0)
    rows = {"risk": [0.5] * 8, "days": [0, 10, 10.5, 30, 30.5, 30, 31, 5], "status": [1, 0, 2, 1, 1, 0, 0, 2]}
    analysis = Analysis(follow_up=follow_up, at=at)
    (data,), _ = parties_of([rows], Questions.of(analysis, "risk"))
    reduced = at_horizon(data, analysis)
    assert reduced.labels.tolist() == [1, 0, 0, 1, 0, 0, 0, 0]
    assert columns_of(reduced) == {"weights": [1000, 0, 1200, 1300, 1400, 0, 1400, 1100]}
    assert at_horizon(reduced, analysis) is reduced
    assert at_horizon(data, Analysis(follow_up=follow_up)) is data
    plain = at_horizon(data, Analysis())  # of a session that finds thresholds
    assert (plain.labels.tolist(), columns_of(plain)) == ([1, 0, 0, 1, 1, 0, 0, 0], {})
    assert columns_of(at_horizon(read(WEIGHTED), Analysis())) == {}
    assert (data.weighing(at.units), reduced.weighing(at.units)) == (8, 8)
    assert read(WEIGHTED, ipw=[1, 2.5, 0.5]).weighing(Analysis(weights=IPW).units) == 4


def test_a_party_whose_rows_are_gone_has_the_columns_that_others_have() -> None:
    at = AtHorizon(horizon=30.0, weights=tuple([1000] * 31), beyond=1000)
    for analysis, name in (
        (Analysis(weights=IPW), "weights"),
        (Analysis(follow_up=FOLLOWED), "times"),
        (Analysis(follow_up=FOLLOWED, at=at), "weights"),
    ):
        gone = at_horizon(PartyData.without_rows("north", analysis), analysis)
        assert (columns_of(gone), gone.weighing(analysis.units)) == ({name: []}, 0)


@pytest.mark.parametrize("questions", [WEIGHTED, TIMED])
def test_rows_that_one_site_writes_another_process_reads_alike(folder: Path, questions: Questions) -> None:
    data, analysis = read(questions), questions.analysis({})
    at = AtHorizon(horizon=30.0, weights=tuple([1000] * 31), beyond=1000)
    for asked in (analysis, Analysis(), *([Analysis(follow_up=FOLLOWED, at=at)] if analysis.follow_up else [])):
        write_rows(folder / "rows.npz", data, asked)
        ((found,), again) = read_for(Questions.of(asked, "y_score"), folder / "rows.npz")
        expected = at_horizon(data, replace_at(asked))
        assert again == asked
        assert [each.tolist() for each in found.arrays] == [each.tolist() for each in expected.arrays]


def replace_at(analysis: Analysis) -> Analysis:
    return Analysis(weights=analysis.weights, follow_up=analysis.follow_up)


def test_rows_that_differ_in_weight_or_time_alone_are_no_copies() -> None:
    many = {name: np.repeat(ROWS[name][:1], 60) for name in ("y_true", "status")} | {
        "risk": np.tile(np.arange(30) / 30, 2)
    }
    for questions, column in ((WEIGHTED, "ipw"), (TIMED, "days")):
        same, other = (read(questions, **many, ipw=each, days=each) for each in (np.ones(60), np.arange(60) / 2))
        assert (looked_at(same, 100).times == 2).all()
        assert (looked_at(other, 100).times == 1).all(), column
    assert len(set(row_hashes(read(WEIGHTED)).tolist())) == 3


def test_rows_that_do_not_count_raise_no_doubt_and_calm_none() -> None:
    n = 100
    rows = {"y_true": [0, 1] * n, "risk": [*np.linspace(0.5, 0.9, 2 * n)][::-1]}
    rows["risk"] = [0.2 + 0.001 * row if label else 0.5 + 0.001 * row for row, label in enumerate(rows["y_true"])]
    grid = np.linspace(0, 1, 101)
    turned = read(WEIGHTED, **rows, ipw=[1] * 2 * n, days=[1] * 2 * n, status=[1] * 2 * n)
    assert "fall where labels rise" in " ".join(doubts([turned], grid))
    few = replace(turned, weights=np.array([1000] * 9 + [0] * (2 * n - 9)))
    assert "fall where labels rise" not in (told := " ".join(doubts([few], grid)))
    assert "fewer than 10 rows" in told


@pytest.mark.parametrize("name", registry.names())
def test_every_protocol_has_weights_or_refuses_them_with_a_sentence(name: str) -> None:
    plugin, grid = registry.load(name), np.linspace(0, 1, 11)
    for analysis in (Analysis(weights=IPW), Analysis(follow_up=FOLLOWED)):
        of_all = {"epsilon": 1.0, "delta": 1e-6, "bins": 8}
        options = {name: value for name, value in of_all.items() if name in plugin.options.known}
        request = Request(parties=("a", "b"), thresholds=grid, analysis=analysis, options=options)
        if not (plugin.several or plugin.weighs):
            with pytest.raises(
                InputError, match=f"protocol '{name}' counts each row once: weights and follow-up times"
            ):
                plugin.prepare(request)
        elif "epsilon" in options:
            with pytest.raises(InputError, match=r"epsilon: weights and follow-up times do not go with noise"):
                plugin.prepare(request)


def test_a_site_that_loses_rows_earlier_than_all_is_told_and_one_that_does_not_is_not() -> None:
    rng = np.random.default_rng(31)
    event = rng.exponential(500, 900)
    sites = {}
    losses = ("early", rng.exponential(150, 300), slice(300)), ("late", np.full(600, 1e4), slice(300, 900))
    for name, lost, rows in losses:
        times = np.minimum(event[rows], lost)
        own = {"days": np.ceil(times), "status": (times < lost).astype(int), "risk": rng.random(len(times)).round(3)}
        sites[name] = own
    asked = {"score": "risk", "time": "days", "event": "status", "horizon": 200, "protocol": "exact", "interval": None}
    told = [text for text in federated_auc(sites, **asked).own_warnings if "censored earlier, or later" in text]
    assert len(told) == 1
    assert told[0].startswith("2 of 2 parties, 'early' first, have rows that are censored")
    times = np.ceil(event)
    status = (np.arange(900) % 9 > 0).astype(int)  # one in nine is censored, at both
    alike = {
        name: {"days": times[at::2], "status": status[at::2], "risk": rng.random(450)} for at, name in enumerate(sites)
    }
    assert not [text for text in federated_auc(alike, **asked).own_warnings if "censored earlier" in text]


def test_of_many_rows_a_difference_that_hardly_matters_is_not_told() -> None:
    follow_up = FollowUp(time="days", event="status", horizons=(1.0,))
    analysis = Analysis(follow_up=follow_up, at=AtHorizon(horizon=1.0, weights=(1000, 1000), beyond=1250))
    rng = np.random.default_rng(4)
    for lost, told in ((0.19, False), (0.17, True)):  # 0.2 by the curve
        kept = rng.random(100_000) > lost
        data = PartyData.from_arrays("north", np.arange(100_000) % 2, rng.random(100_000))
        own = replace(data, weights=frozen(np.where(kept, 1250, 0)))
        assert told == any("censored earlier" in text for text in doubts([own], np.linspace(0, 1, 11), analysis))
