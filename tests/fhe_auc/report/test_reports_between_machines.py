"""A report whose sessions sites play one after the other is that of one process, digit by digit, out of one file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc import Evaluation, InputError, Report
from fhe_auc.machines import outcomes
from fhe_auc.machines.answers import answer
from fhe_auc.machines.site_state import site_storage
from fhe_auc.question.analysis import Analysis, Questions, Variable
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.report.steps import next_step
from fhe_auc.results import calibration_file, result_file
from fhe_auc.results.asked import Asked, ReportAsked
from fhe_auc.results.evaluation import Outcome
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import FileEntries, read_for
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request
from fhe_auc_keys.site.key_store_sites import Records
from tests.support.command_line import assert_refused, call, printed
from tests.support.stored_sites import Consortium

SITES = ("coast", "north", "south")
SEX = Variable("sex", ("F", "M"))
TWO = Asked(
    analysis=Analysis(models=("risk_a", "risk_b"), by=(SEX,), cluster="patient"),
    thresholds="quantile:12",
    report=ReportAsked(threshold=(0.3,), title="Sepsis, by night"),
)
ONE = Asked(analysis=Analysis(models=("risk_a",)), thresholds="uniform:20", report=ReportAsked(cost_ratio=9.0))
SHOWN: dict[str, str | None] = {"COLUMNS": "400", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of rows for each site; patients have several."""
    place = tmp_path_factory.mktemp("consortium")
    for seed, name in enumerate(SITES):
        random, rows = np.random.default_rng(seed), 500
        died = random.random(rows) < 0.3
        risks = [1 / (1 + np.exp(-random.normal(2.0 * died - 1, wide))) for wide in (1.0, 1.6)]
        sexes, patients = random.choice(SEX.levels, rows), random.integers(0, 200, rows)
        lines = zip(died.astype(int), *risks, sexes, patients, strict=True)
        head = "died,risk_a,risk_b,sex,patient"
        (place / f"{name}.csv").write_text("\n".join([head, *(",".join(map(str, line)) for line in lines)]) + "\n")
    return place


def rows_of(folder: Path, name: str, analysis: Analysis) -> PartyData:
    """As a site reads them for a session."""
    (data,), _ = read_for(
        Questions.of(analysis, "y_score"), [folder / f"{name}.csv"], label_column="died", entries=FileEntries()
    )
    return data


class Site:
    """The results of one site, in the order in which they came."""

    def __init__(self) -> None:
        self.files: list[Path] = []

    @property
    def known(self) -> list[Outcome]:
        return [result_file.read_result(file).outcome for file in self.files]


class Sessions(Consortium):
    """One session of a question, over key stores: every site writes a signed result, with those before it."""

    folder_of_rows: Path
    asked: Asked
    records: dict[str, Records]
    all: Mapping[str, Site]

    def answer(self, name: str, message: bytes, *_: Any) -> bytes:
        with site_storage().site(self.made.sites[name]) as site:
            return answer(
                site, message, lambda name, joined: rows_of(self.folder_of_rows, name, joined.analysis), self.done
            ).submission

    def done(self, party: Party[Any], records: Records) -> None:
        (place := self.folder / f"results of {party.name}").mkdir()
        before = self.all[party.name].files
        file = outcomes.write(place, party, records.signed, asked=self.asked, before=before)
        before.append(file)
        self.records[party.name] = records


def played(folder: Path, to: Path, asked: Asked) -> list[Sessions]:
    """Play all sessions that a question takes."""
    sites, sessions = {name: Site() for name in SITES}, list[Sessions]()
    base = Request(parties=SITES, thresholds=np.empty(0), max_rows=10_000)
    while True:
        asked_for = [next_step(asked, base, site.known) for site in sites.values()]
        if (step := asked_for[0]) is None:
            assert asked_for == [None] * len(SITES)
            return sessions
        for other in asked_for[1:]:  # of each site's own results
            assert other is not None
            assert (other.protocol, other.request.analysis) == (step.protocol, step.request.analysis)
            assert np.array_equal(other.request.thresholds, step.request.thresholds)
        data = [rows_of(folder, name, step.request.analysis) for name in SITES]
        changes = {each: getattr(step.request, each) for each in ("thresholds", "analysis", "interval", "options")}
        session = Sessions(data, to / f"session {len(sessions)}", step.protocol, max_rows=10_000, **changes)
        session.folder_of_rows, session.asked, session.all, session.records = folder, asked, sites, {}
        conduct(session.aggregator(), session.exchange)
        sessions.append(session)


def file_of(session: Sessions, name: str) -> Path:
    """What a site has written of a session."""
    return session.all[name].files[int(session.folder.name.split()[1])]


@pytest.fixture(scope="module")
def two(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Sessions]:
    return played(folder, tmp_path_factory.mktemp("two"), TWO)


def asked_of_one_process(folder: Path, asked: Asked, name: str, *others: str) -> tuple[str, ...]:
    """The same question on the command line."""
    analysis, files = asked.analysis, [str(folder / f"{site}.csv") for site in SITES]
    groups = [f"{variable.name}={','.join(variable.levels)}" for variable in analysis.by]
    several = len(analysis.models) > 1
    options = ["--label-column", "died", "--thresholds", str(asked.thresholds), *others]
    options += ["--score-columns" if several else "--score-column", ",".join(analysis.models)]
    options += [text for group in groups for text in ("--by", group)]
    options += ["--cluster", str(analysis.cluster)] if analysis.cluster else []
    return *name.split(), *files, *options


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_the_sessions_are_an_evaluation_and_for_each_model_histogram_and_counts_of_groups(two: list[Sessions]) -> None:
    of_a_model = ["histogram-federated", "counts-federated"]
    expected = ["boundaries-federated", "verified", *of_a_model, *of_a_model, "counts-federated"]
    assert [session.plugin.name for session in two] == expected


def test_check_prints_at_every_site_what_evaluate_prints_in_one_process(folder: Path, two: list[Sessions]) -> None:
    expected = lines(printed(*asked_of_one_process(folder, TWO, "evaluate"), **SHOWN))
    assert sum(line.startswith("risk_b") for line in expected) > 3
    for name, session in zip(SITES, (two[1], two[-1], two[-1]), strict=True):  # the last one's file has all
        found = iter(lines(printed("check", str(file_of(session, name)), *session.options(name), **SHOWN)))
        assert [line for line in expected if line not in found] == []  # in this order
    assert Evaluation.load(file_of(two[-1], "north")).auc_text(6) in expected[0]


@pytest.mark.usefixtures("without_figures")
def test_the_page_and_all_its_numbers_are_those_of_one_process(folder: Path, two: list[Sessions]) -> None:
    options = ("--threshold", "0.3", "--title", "Sepsis, by night", "--out", str(folder / "one"))
    expected = lines(printed(*asked_of_one_process(folder, TWO, "report", *options), **SHOWN))
    of_one_process = json.loads((folder / "one" / "report.json").read_text())
    last, out = str(file_of(two[-1], SITES[0])), folder / "out"
    shown = printed("report", last, "--out", str(out), **SHOWN).replace(str(out), str(folder / "one"))
    assert lines(shown) == expected
    plain = json.loads((out / "report.json").read_text())
    assert "one process" in of_one_process["privacy"]
    assert "one process" not in plain["privacy"]
    for of_site in (plain, *(Report.load(file_of(two[-1], name)).as_dict() for name in SITES[1:])):
        assert without_session(json.loads(json.dumps(of_site))) == without_session(of_one_process)


def without_session(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if key not in ("session", "privacy", "date")}


@pytest.fixture(scope="module")
def one(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    (session,) = played(folder, tmp_path_factory.mktemp("one"), ONE)
    return session


@pytest.mark.usefixtures("without_figures")
def test_of_one_model_one_session_has_page_and_calibration_map(folder: Path, one: Sessions, tmp_path: Path) -> None:
    last, maps = str(file_of(one, "south")), [tmp_path / f"{name}.json" for name in ("sites", "alone")]
    asked = asked_of_one_process(folder, ONE, "report", "--cost-ratio", "9", "--out", str(tmp_path / "out"))
    expected = lines(printed(*asked, **SHOWN))
    shown = lines(printed("report", last, "--out", str(tmp_path / "out"), "--force", **SHOWN))
    assert shown == expected
    for method in ("slope-intercept", "isotonic"):
        options = ("--method", method, "--force", "--out")
        of_sites = lines(printed("calibrate", "fit", last, *options, str(maps[0]), **SHOWN))
        of_one = lines(printed(*asked_of_one_process(folder, ONE, "calibrate fit", *options, str(maps[1])), **SHOWN))
        assert [line.replace(str(maps[0]), str(maps[1])) for line in of_sites] == of_one
        assert maps[0].read_bytes() == maps[1].read_bytes()


def test_of_two_models_the_score_column_says_whose_map_it_is(two: list[Sessions], tmp_path: Path) -> None:
    last, out = str(file_of(two[-1], "north")), str(tmp_path / "map.json")
    assert_refused(call("calibrate", "fit", last, "--out", out), "--score-column says which of 'risk_a', 'risk_b'")
    made = []
    for model in TWO.analysis.models:
        printed("calibrate", "fit", last, "--score-column", model, "--out", out, "--force")
        made.append(Path(out).read_bytes())
    assert made[0] != made[1]


def test_at_a_horizon_a_map_is_of_events_by_then_of_rows_by_their_weights(tmp_path: Path) -> None:
    """A fit's own equations: of labels less calibrated scores, by weight, nothing is left along the log odds."""
    pooled = []
    for seed, name in enumerate(SITES):
        random = np.random.default_rng(seed)
        odds, ends = random.normal(size=500), np.ceil(random.uniform(5, 80, 500))
        died = np.ceil(random.exponential(30 * np.exp(-odds)))
        rows = np.column_stack([1 / (1 + np.exp(-0.5 - 1.8 * odds)), np.minimum(died, ends), died <= ends])
        text = "".join(f"{risk!r},{days:g},{dead:g}\n" for risk, days, dead in rows.tolist())
        (tmp_path / f"{name}.csv").write_text(f"risk_a,days,dead\n{text}")
        pooled.append(rows)
    followed = FollowUp("days", "dead", (20.0,), ("1", "0"), 1.0)
    asked = Asked(
        analysis=Analysis(models=("risk_a",), follow_up=followed), thresholds="uniform:2000", report=ReportAsked()
    )
    (sessions := tmp_path / "sessions").mkdir()
    last = str(file_of(played(tmp_path, sessions, asked)[-1], "north"))
    shown = " ".join(lines(printed("calibrate", "fit", last, "--out", str(tmp_path / "map.json"), **SHOWN)))
    assert "rows 1,500 of 3 parties" in shown
    assert "uniform:2000; of events by 20" in shown
    calibration = calibration_file.load_map(tmp_path / "map.json")
    scores, days, dead = np.concatenate(pooled).T
    left, curve = 1.0, {}
    for day in range(1, 82):
        curve[day] = left
        left *= 1 - ((days == day) & (dead == 0)).sum() / max(
            1, (days >= day).sum() - ((days == day) & (dead == 1)).sum()
        )
    labels = (days <= 20) & (dead == 1)
    weights = np.where(labels | (days > 20), [1 / curve[min(int(day), 21)] for day in days], 0)
    rest = weights * (labels - calibration(scores))
    assert abs(rest.sum()) < 0.5
    assert abs(rest @ np.log(scores / (1 - scores))) < 1.0


def test_what_a_result_has_set_is_not_asked_again_and_results_are_no_rows(two: list[Sessions], tmp_path: Path) -> None:
    last, early = str(file_of(two[-1], "north")), str(file_of(two[2], "north"))
    assert_refused(call("report", last, "--threshold", "0.5"), "--threshold does not go with a session's result")
    assert_refused(call("report", last, last), "is a session's result: give it alone")
    assert_refused(call("report", early), "some sessions are to come")
    assert_refused(call("evaluate", last), "unknown suffix '.json'")
    with pytest.raises(InputError, match="is no evaluation: it has thresholds for one"):
        Evaluation.load(file_of(two[0], "north"))


def test_a_result_of_before_that_is_changed_is_found_and_who_differs_named(two: list[Sessions], tmp_path: Path) -> None:
    told, changed = json.loads(file_of(two[-1], "south").read_text()), tmp_path / "south.json"
    told["before"][1]["evaluation"]["auc"] = 0.99
    changed.write_text(json.dumps(told))
    trust = two[-1].options("north")
    assert "it was changed since" in " ".join(call("check", str(changed), *trust).output.split())
    changed.write_text(json.dumps(two[-1].records["south"].signed(told)))
    found = call("check", str(file_of(two[-1], "north")), str(changed), *trust)
    assert (found.exit_code, "session -5, auc 0.99, not" in " ".join(found.output.split())) == (1, True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"asked": {"thresholds": "/etc/passwd.npy"}}, "thresholds"),
        ({"asked": {"report": {"alert-rate": 2}}}, "alert_rate"),
        ({"before": [{"evaluation": {}}]}, "KeyError"),
        ({"before": {"a": 1}}, "no result of a session"),
        ({"time": "yesterday"}, "no result of a session"),
        ({"counts": {}}, "no result of a session"),
        ({"party": "nor\x1b[2Jth"}, "characters that no text of a result has"),
    ],
)
def test_what_is_no_result_is_refused_in_words(one: Sessions, tmp_path: Path, change: dict[str, Any], why: str) -> None:
    told = json.loads(file_of(one, "north").read_text()) | change
    (file := tmp_path / "r.json").write_text(json.dumps(told))
    for read in (Report.load, Evaluation.load):
        with pytest.raises(InputError, match=r"r\.json") as refused:
            read(file)
        assert why in str(refused.value)
        assert len(str(refused.value)) < 400
    for text, wrong in (("[" * 100_000, "no JSON"), ('{"metrics": {}}', "a report's numbers, and is no site's result")):
        file.write_text(text)
        with pytest.raises(InputError, match=wrong):
            Report.load(file)
