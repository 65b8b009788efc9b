"""A study's sessions: both sides make the same of one file, anything else differs, and what cannot work is refused."""

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.question import thresholds
from fhe_auc.question.study import Study
from fhe_auc.report.studies import Session, check_study, differing, next_session
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.evaluation import CensoringCurve, Evaluation, QuantileThresholds
from fhe_auc.session import registry

WORDS: dict[str, Any] = {"model": "net 2", "outcome": "sepsis", "cohort": "adults", "period": "2030"}
ROLES: dict[str, Any] = {"sites": ("north", "south", "west"), "maker": "north", "aggregator": "adder"}
ROWS = {"north": 770, "south": 2587, "west": 4236}
FOUND = QuantileThresholds(protocol="", backend="", parties=3, security_bits=0, grid=thresholds.uniform(9)[:-1])
GROUPS = {"thresholds": "uniform:9", "score_columns": ("a", "b"), "by": ("sex=F,M", "age=<1,1-4,5+"), "cluster": "id"}
EVALUATION = Evaluation(
    **{"protocol": "", "backend": "", "parties": 3, "security_bits": 0, "auc": 0.5, "binning_error": 0.0},
    **{"numerical_error": 0.0, "thresholds": 9, "verified": True},
)


def estimate_at(horizon: float) -> GroupEstimate:
    return GroupEstimate(model="", group="", auc=0.5, horizon=horizon)


FOLLOWED = {"time_column": "days", "event_column": "status", "horizon": (30.0, 60.0), "time_grid": 10.0}
CURVE = CensoringCurve(
    **{"protocol": "", "backend": "", "parties": 3, "security_bits": 0, "beyond": 40},
    counts=np.array([[0, 3, 4, 2, 1, 5, 2], [1, 6, 2, 8, 2, 1, 3]]),
)


def study(**more: Any) -> Study:
    return Study(**WORDS, **{**ROLES, **more})


def first(of: Study) -> Session:
    """The first session, once thresholds are found."""
    found = (FOUND,) if of.thresholds == "quantile:8" else ()
    asked = next_session(of, of.sites, found)
    assert asked is not None
    return asked


CASES: list[dict[str, Any]] = [
    {},
    {**GROUPS, "thresholds": "quantile:8"},
    {**GROUPS, "thresholds": "quantile:8", "report": True, "decisions": (0.1, 0.2), "title": "Sepsis"},
    {"helper": "registry", "row_caps": ROWS, "min_parties": 2},
    {"helper": "registry", "rows": ROWS, "epsilon": 1.0, "options": {"epsilon_unit": "label"}},
    {"protocol": "exact", "options": {"round_scores": 2}, "interval": 0.0},
    {"protocol": "dpauc-laplace", "epsilon": 1.0, "thresholds": "dpauc:20"},
    {"classes": ("x", "y", "z"), "score_columns": ("x", "y", "z")},
    {"score_values": "0:9", "report": True},
    {"report": True, "epsilon": 1.0, "thresholds": "uniform:8"},
    {"report": True, "options": {"epsilon": 1.0}, "thresholds": "quantile:8", "helper": "registry"},
    {"protocol": "semi-honest", "thresholds": (0.0, 0.25, 0.5), "row_caps": ROWS},
    {**FOLLOWED, "thresholds": "quantile:8"},
    {**FOLLOWED, "score_values": "0:9"},
]


@pytest.mark.parametrize("more", CASES, ids=str)
def test_a_site_makes_of_the_file_what_its_maker_makes_and_no_other_step_is_that(more: dict[str, Any]) -> None:
    made = study(**more)
    check_study(made)
    read = decode(encode(made), Study, "study")  # what has travelled
    assert read == made == Study.from_dict(made.as_dict())
    assert read.digest == made.digest != study(**more, until="2030-01-01").digest
    made_session, told = first(made), first(read)
    manifest = registry.load(made_session.protocol).manifest_of(made_session.request)
    assert differing(made_session.named(manifest, 7), told) == []
    assert differing(manifest, told) == ["step"]


@pytest.mark.parametrize(
    ("more", "changes", "named"),
    [
        ({}, {"interval": 0.0}, "plan"),
        (GROUPS, {"by": ("sex=F,M",)}, "plan"),
        (GROUPS, {"by": ("age=<1,1-4,5+", "sex=F,M")}, "plan"),
        (GROUPS, {"cluster": ""}, "plan"),
        ({}, {"thresholds": "uniform:20"}, "grid"),
        ({}, {"max_rows": 500}, "plan"),
        ({"helper": "registry"}, {"min_parties": 2}, "min_parties"),
        ({"helper": "registry", "row_caps": ROWS}, {"proofs": False}, "plan"),
        ({"helper": "registry"}, {"helper": ""}, "its plan"),
        ({}, {"sites": ("north", "south")}, "parties"),
        ({}, {"protocol": "exact"}, "its plan"),
        ({"helper": "registry", "rows": ROWS, "epsilon": 1.0}, {"epsilon": 2.0}, "options"),
    ],
)
def test_a_session_that_is_not_of_the_study_differs_from_it(more: Any, changes: Any, named: str) -> None:
    agreed, made = first(study(**more)), first(study(**{**more, **changes}))
    manifest = made.named(registry.load(made.protocol).manifest_of(made.request), 7)
    assert differing(manifest, agreed) != []
    assert named in differing(manifest, agreed)


def test_thresholds_are_found_once_for_all_turns_and_the_session_after_is_at_them() -> None:
    asked = study(thresholds="quantile:8", score_columns=("a", "b"))
    begun = next_session(asked, asked.sites, ())
    assert begun is not None
    assert (begun.step, begun.protocol, begun.once) == (1, "boundaries-federated", True)
    assert begun.request.options == {"bins": 8}
    evaluation = first(asked)
    assert (evaluation.step, evaluation.protocol, evaluation.once) == (2, "verified", False)
    assert np.array_equal(evaluation.request.thresholds, FOUND.grid)
    manifest = registry.load(begun.protocol).manifest_of(begun.request)
    assert (begun.named(manifest, 7).turn, evaluation.named(manifest, 7).turn) == (0, 7)


def test_after_the_censoring_curve_each_horizon_has_its_session_with_the_weights_of_that_curve_alone() -> None:
    """A maker who changes one weight by one unit is found out by each site that has the curve."""
    asked = study(**FOLLOWED, thresholds="uniform:9")
    done = [dataclasses.replace(EVALUATION, estimates=(estimate_at(horizon),)) for horizon in (30.0, 60.0)]
    sessions = [next_session(asked, asked.sites, (CURVE, *done[:at])) for at in range(3)]
    assert sessions[2] is None
    for session, horizon in zip(sessions[:2], (30.0, 60.0), strict=True):
        assert session is not None and session.request.analysis.at  # noqa: PT018
        at = session.request.analysis.at
        assert (at.horizon, session.protocol) == (horizon, "verified")
        plugin = registry.load(session.protocol)
        assert differing(session.named(plugin.manifest_of(session.request), 7), session) == []
        for other in ({"beyond": at.beyond + 1}, {"weights": (at.weights[0] + 1, *at.weights[1:])}):
            analysis = replace(session.request.analysis, at=replace(at, **other))
            changed = plugin.manifest_of(dataclasses.replace(session.request, analysis=analysis))
            assert differing(session.named(changed, 7), session) == ["plan"]
        with pytest.raises(InputError, match="a horizon is one of those of follow-up times"):
            replace(session.request.analysis, at=replace(at, horizon=31.0))
    with pytest.raises(InputError, match="the results are not those of the question's sessions"):
        next_session(asked, asked.sites, (CURVE, done[1]))
    other = dataclasses.replace(CURVE, beyond=39)  # what another site has been told
    assert sessions[0] is not None
    theirs = next_session(asked, asked.sites, (other,))
    assert theirs is not None
    manifest = sessions[0].named(registry.load("verified").manifest_of(sessions[0].request), 7)
    assert differing(manifest, theirs) == ["plan"]


def test_a_result_of_another_kind_in_the_place_of_the_curve_or_one_of_other_times_leads_nowhere() -> None:
    asked = study(**FOLLOWED, thresholds="uniform:9")
    for wrong in (FOUND, dataclasses.replace(CURVE, counts=CURVE.counts[:, 1:])):
        with pytest.raises(InputError, match="the results are not those of the question's sessions"):
            next_session(asked, asked.sites, (wrong,))
    with pytest.raises(EvaluationError, match="no row is followed up for longer than 60, or so few"):
        next_session(asked, asked.sites, (dataclasses.replace(CURVE, beyond=0),))


def test_a_report_asks_for_the_histogram_at_the_decisions_too() -> None:
    asked = first(study(report=True, thresholds="uniform:5", decisions=(0.3,), score_columns=("risk",)))
    assert asked.protocol == "histogram-federated"
    assert asked.request.thresholds.tolist() == [0, 0.25, 0.3, 0.5, 0.75, 1]
    assert asked.request.analysis.models == ("risk",)


EVALUATING = [name for name in registry.names() if issubclass(registry.load(name).yields, Evaluation)]


@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize("protocol", EVALUATING)
def test_no_study_with_an_epsilon_makes_a_session_without_one(protocol: str, report: bool) -> None:
    """Its sites would show exact counts, though their study promises a bound."""
    made = 0
    common = {"protocol": protocol, "report": report, "helper": "registry", "rows": ROWS}
    for epsilon in ({"epsilon": 2.0}, {"options": {"epsilon": 2.0}}):
        for more in ({}, {"thresholds": "quantile:8"}, {"by": ("sex=F,M",)}, {"score_columns": ("a", "b")}):
            asked = study(**{"thresholds": "uniform:9", **common, **epsilon, **more})
            for known in ((), (FOUND,)):
                with suppress(InputError, FheAucError):
                    if session := next_session(asked, asked.sites, known):
                        plugin = registry.load(session.protocol)
                        spent = plugin.spends(plugin.manifest_of(session.request))
                        assert spent is not None, (asked, session.protocol)
                        made += 1
    assert made or protocol not in ("verified", "histogram-distributed-dp")


def test_who_makes_exact_counts_of_a_study_with_an_epsilon_is_found_out() -> None:
    asked = {"report": True, "thresholds": "uniform:8"}
    lie = first(study(**asked))
    manifest = lie.named(registry.load(lie.protocol).manifest_of(lie.request), 7)
    assert "histogram-federated" in manifest.protocol
    assert differing(manifest, first(study(**asked, epsilon=1.0)))[0] == "protocol"


def test_who_has_left_is_in_no_later_session_nor_are_its_rows() -> None:
    asked = next_session(study(helper="registry", row_caps=ROWS), ("north", "west"), ())
    assert asked is not None
    assert asked.request.parties == ("north", "west")
    assert asked.request.row_caps == {"north": 770, "west": 4236}
    assert asked.request.max_rows == 5006
    assert registry.load("verified").manifest_of(asked.request).min_parties == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"row_caps": {"north": 5, "west": 5}}, r"^row-caps: 'south' has none: give all sites one, or none"),
        ({"row_caps": {**ROWS, "east": 5}}, r"^row-caps: 'east' is no site of the study"),
        ({"rows": {"north": 770}}, r"^rows: 'south' has none"),
        ({"rows": ROWS, "row_caps": ROWS}, r"^rows are row caps too"),
        ({"maker": "keeper"}, r"^maker is one of the sites \(north, south, west\), not 'keeper'"),
        ({"aggregator": ""}, r"^aggregator is not named"),
        ({"aggregator": "North"}, r"^'north' and 'North' are one member"),
        ({"helper": "adder"}, r"^'adder' and 'adder' are one member"),
        ({"every": "dya"}, r"^every is hour, day, week or month, not 'dya'; did you mean 'day'"),
        ({"days": 32}, r"^days must lie between 1 and 31, got 32"),
        ({"score_values": "0:9", "thresholds": "uniform:8"}, r"^score-values are the thresholds"),
        ({"sites": ("north",), "maker": "north"}, r"^sites: 1 of the study's take part, and it takes 2"),
        ({"by": ("sex",)}, r"which levels does 'sex' have\?"),
        ({"min_parties": 4, "helper": "registry"}, r"^sites: 3 of the study's take part, and it takes 4"),
        ({"min_parties": 2}, r"^min-parties: without a helper"),
        ({"epsilon": 1.0}, r"^epsilon: .* the number of rows of each site, exactly"),
        ({"epsilon": 1.0, "helper": "registry", "row_caps": ROWS}, r"^epsilon: .*\(rows = "),
        ({"epsilon": 1.0, "helper": "registry", "rows": ROWS, "thresholds": "quantile:8"}, "must not come from the"),
        ({"protocol": "dpauc-laplace", "thresholds": "uniform:8"}, "epsilon"),
        ({"epsilon": 1.0, "protocol": "histogram-federated", "thresholds": "quantile:8"}, "would show exact counts"),
        ({"protocol": "histogram-federated", "by": ("sex=F,M",)}, r"answers for one model .* are for exact and veri"),
        ({"protocol": "nobody's"}, "unknown protocol"),
        ({"options": {"round_score": 2}}, "no option 'round_score'; did you mean 'round_scores'"),
        ({"thresholds": "grid.txt"}, "'grid.txt': name a grid"),
        ({"report": True, "epsilon": 1.0, "by": ("sex=F,M",)}, "^AUCs of groups, .* do not go with a model that adds"),
        ({"report": True, "epsilon": 1.0, "options": {"epsilon_unit": "label"}}, "no option 'epsilon_unit'"),
        ({"report": True, "epsilon": 1.0, "protocol": "histogram-federated"}, "no option 'epsilon': it adds no noise"),
        ({"report": True, "epsilon": 1.0, "protocol": "dpauc-rr"}, "^report: protocol 'dpauc-rr' is for an AUC alone"),
        ({"report": True, "protocol": "ustat-krr"}, "^report: protocol 'ustat-krr' is for an AUC alone"),
        ({"report": True, "epsilon": 1.0, "bootstrap": 200}, "replicates are of exact counts"),
        ({"report": True, "epsilon": 1.0, **FOLLOWED, "horizon": (30.0,)}, "do not go with a model that adds noise"),
        ({"decisions": (1.5,), "report": True}, "threshold 1.5 is asked for, but scores are from 0 to 1"),
    ],
)
def test_what_cannot_work_is_refused_when_the_study_is_made(changes: dict[str, Any], why: str) -> None:
    with pytest.raises((InputError, FheAucError), match=why):
        check_study(study(**changes))


def test_a_file_beside_the_study_gives_its_thresholds(tmp_path: Path) -> None:
    thresholds.save(tmp_path / "grid.txt", np.arange(5) / 7)
    text = "".join(f'{name} = "{value}"\n' for name, value in WORDS.items())
    (tmp_path / "study.toml").write_text(text + 'thresholds = "grid.txt"\nuntil = 2030-06-30\n')
    found = Study.read(tmp_path / "study.toml")
    assert found.thresholds == tuple((np.arange(5) / 7).tolist())
    assert "until" in found.differing(msgspec.structs.replace(found, until=None))
    (tmp_path / "grid.txt").write_text("1\n0\n")
    with pytest.raises(InputError, match=r"study\.toml'.*grid\.txt': threshold 1 is 0"):
        Study.read(tmp_path / "study.toml")
