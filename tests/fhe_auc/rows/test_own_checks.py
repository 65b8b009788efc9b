"""Scores that cannot be what thresholds are for are refused by every protocol, however a party is made."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc import federated_auc, federated_thresholds
from fhe_auc.base.errors import InputError
from fhe_auc.base.special_functions import expit
from fhe_auc.cli import main
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis, Variable
from fhe_auc.question.score_bins import bins_of, listed, numbers, of_one_number
from fhe_auc.rows.datasets import NAMES as BUNDLED
from fhe_auc.rows.datasets import load
from fhe_auc.rows.default_thresholds import Thresholds, default_thresholds, of_scores
from fhe_auc.rows.own_checks import check_scores, doubts, near_other_sessions
from fhe_auc.rows.party_data import SCALES, PartyData, rescaled, to_probabilities
from fhe_auc.rows.party_files import FileEntries
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request, new_manifest
from tests.support.tables import read_parties

NAMED = ("uniform:20", "hybrid:50", "dpauc:20")
LOGITS = np.linspace(-5, 5, 21)
LABELS = [0, 1] * 50


def party(scores: Sequence[float], name: str = "odd", **about: Any) -> PartyData:
    return PartyData.from_arrays(name, np.arange(len(scores)) % 2, scores, **about)


@pytest.mark.parametrize("grid", NAMED)
@pytest.mark.parametrize(
    ("scores", "row", "value", "span"),
    [
        (np.linspace(0.5, 97.5, 98), 1, "1.5", "from 0.5 to 97.5"),  # percentages
        ([0.5, -2.25, 3.0], 1, "-2.25", "from -2.25 to 3"),  # logits
        ([44, 71, 18], 0, "44.0", "from 18 to 71"),  # ages
        ([1_000_001, 1_000_002], 0, "1000001.0", "from 1000001 to 1000002"),  # numbers of patients
        ([7, 7, 7], 0, "7.0", "from 7 to 7"),
        ([0.5, -0.01], 1, "-0.01", "from -0.01 to 0.5"),
    ],
)
def test_scores_that_are_no_probabilities_are_refused_with_row_range_and_remedy(
    grid: str, scores: Sequence[float], row: int, value: str, span: str
) -> None:
    with pytest.raises(InputError) as refused:
        check_scores(party(scores, score_column="risk"), thresholds.parse(grid))
    told = str(refused.value)
    assert told.startswith(f"party 'odd', row {row}, column 'risk': score is {value}, but ")
    assert f"scores run {span}: check that this is the column of scores; then let thresholds span them" in told


@given(st.lists(st.floats(0, 1)), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(NAMED))
def test_probabilities_are_taken_wherever_they_lie_others_refused(others: list[float], score: float, grid: str) -> None:
    check_scores(party([*others, 0.5]), thresholds.parse(grid))
    check_scores(party([*others, 0.5]), np.array([0.25, 0.5]))  # thresholds need not reach to the ends
    if 0 <= score <= 1:
        check_scores(party([*others, score]), thresholds.parse(grid))
    else:
        with pytest.raises(InputError):
            check_scores(party([*others, score]), thresholds.parse(grid))


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([44, 71, 18], "100 % lie at or above the last threshold, 5; its scores run from 18 to 71"),
        ([*range(20, 119), 3], "99 % lie at or above the last threshold, 5"),  # ages and a baby
        ([-44, -71], "100 % lie below the first threshold, -5; its scores run from -71 to -44"),  # debts
    ],
)
def test_own_thresholds_are_refused_where_nearly_all_rows_lie_beyond_an_end(scores: Sequence[float], told: str) -> None:
    with pytest.raises(InputError, match=f"^party 'odd': of its rows {re.escape(told)}"):
        check_scores(party(scores), LOGITS)
    # Beyond both ends, 98 of 100 beyond one, a constant, and the last threshold itself, as a score in points has.
    for taken in ([-9.0, 9.0], [*range(5, 103), 4.9, 4.8], [12.0, 12.0], [5.0] * 99 + [1.0]):
        check_scores(party(taken), LOGITS)


@pytest.mark.parametrize("name", registry.names())
def test_every_protocol_checks_scores_before_anything_else_of_a_party(name: str) -> None:
    """The manifest has no plan, and the party no key: whatever it looked at first would be refused in other words."""
    plugin = registry.load(name)
    manifest = new_manifest(plugin, Request(parties=("odd",), thresholds=thresholds.parse("uniform:16")))
    with pytest.raises(InputError, match=r"'odd', row 0: score is 44\.0, but these thresholds are for probabilities"):
        plugin.party(manifest, b"", party([44, 71]))
    with pytest.raises(Exception, match=r"^(?!.*for probabilities)"):
        plugin.party(manifest, b"", party([0.44, 0.71])).respond(b"")


def sites(scale: float = 100.0) -> list[PartyData]:
    """Three, of which the second has other units."""
    random = np.random.default_rng(3)
    scores = random.random((3, 100)) * np.array([[1.0], [scale], [1.0]])
    return [PartyData.from_arrays(name, LABELS, s) for name, s in zip(("north", "odd", "south"), scores, strict=True)]


def test_sessions_that_find_thresholds_check_scores_and_a_softmax_s_rounding_error_is_to_be_clipped() -> None:
    """Histograms have no bin beyond 1, and a protocol must not decide what a site's number was meant to be."""
    with pytest.raises(InputError, match=r"^party 'odd', row 0: score is "):
        federated_thresholds(sites(), 10)
    with pytest.raises(InputError, match=r"^party 'odd', row 0: score is "):
        federated_auc(sites(), thresholds="quantile:10")
    with pytest.raises(InputError, match=r"row 1: score is 1\.0000000002, .*: if this is a rounding error, clip them"):
        check_scores(party([0.5, 1.0000000002]), thresholds.parse("uniform:20"))


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "--thresholds", "uniform:20"),
        ("report", "--out", "card", "--thresholds", "hybrid:1000"),
        ("calibrate", "fit", "--out", "map.json"),
        ("thresholds", "--out", "found.txt"),
        pytest.param(("compare-protocols", "--protocols", "semi-honest", "--runs", "2"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("without_figures")
def test_every_command_names_site_column_and_remedy_and_takes_the_scale(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for data in sites(1.0):
        rows = zip(LABELS, (100 * data.y_score).tolist(), strict=True)
        Path(f"{data.name}.csv").write_text("y_true,risk\n" + "".join(f"{y},{s!r}\n" for y, s in rows))
    asked = [*command, "north.csv", "odd.csv", "south.csv", "--score-column", "risk"]
    refused = CliRunner().invoke(main, asked)
    assert (refused.exit_code, refused.stdout) == (2, "")
    told = " ".join(refused.stderr.split())
    assert re.search("party 'north', north.csv, line 2, column 'risk': score is .* percent or logit .--score-sc", told)
    assert CliRunner().invoke(main, [*asked, "--score-scale", "percent"]).exit_code == 0


PROBABILITIES, FINE = thresholds.parse("uniform:20"), thresholds.parse("uniform:5000")


def test_a_party_of_fewer_than_ten_rows_or_with_a_sizeable_part_outside_its_own_thresholds_is_warned() -> None:
    for rows, expected in ((1, True), (9, True), (10, False)):
        found = doubts([party([0.5] * rows)], PROBABILITIES)
        assert len(found) == expected
        assert all(text.startswith("party 'odd' has fewer than 10 rows: who knows or guesses") for text in found)
    inside, outside = party([0.0] * 95 + [9.0] * 5), party([0.0] * 94 + [9.0] * 3 + [-9.0] * 3)
    assert doubts([inside], LOGITS) == ()
    (told,) = doubts([outside], LOGITS)
    assert told.startswith("party 'odd' has more than 5% of the rows outside the thresholds (-5 to 5)")
    assert doubts([outside], PROBABILITIES) == ()  # they are refused


def test_each_party_is_told_of_its_own_rows_only_and_who_holds_all_of_all() -> None:
    plugin = registry.load("dpauc-laplace")
    small, large = party([0.5, 0.6], "small"), party([0.5, 0.6] * 5, "large")
    request = Request(parties=("small", "large"), thresholds=PROBABILITIES, options={"epsilon": 1.0})
    session = plugin.prepare(request)
    told = {data.name: plugin.party(session.manifest, b"", data).own_warnings for data in (small, large)}
    assert [len(each) for each in told.values()] == [1, 0]
    rows = [small, large, party([0.1, 0.2], "other")]
    found = federated_auc(rows, thresholds=PROBABILITIES, protocol="histogram-federated")
    assert sum(text.startswith("2 of 3 parties, 'small' first, have fewer than 10") for text in found.warnings) == 1


@pytest.mark.parametrize(
    ("number", "told"),
    [(1, "there is only one party"), (2, "only two parties are in the result: each can subtract"), (3, "")],
)
@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        pytest.param("verified", {}, marks=pytest.mark.slow),
        pytest.param("semi-honest", {}, marks=pytest.mark.slow),
        ("histogram-federated", {}),
        ("ustat-krr", {"epsilon": 4.0}),
    ],
)
def test_sessions_of_fewer_than_three_parties_say_what_that_discloses(
    protocol: str, options: dict[str, float], number: int, told: str
) -> None:
    data = [party(np.linspace(0.1, 0.9, 100).tolist(), f"site {each}") for each in range(number)]
    warnings = federated_auc(data, protocol=protocol, thresholds=PROBABILITIES, **options).warnings
    few = [text for text in warnings if text.startswith(("there is only one", "only two", "only one"))]
    assert len(few) == (number < 3)
    assert all(text.startswith(told) for text in few)


def test_a_difference_of_one_to_nine_rows_from_another_session_is_told() -> None:
    for rows, told in (
        (99, "differs by 1 from another session .* about that row$"),
        (109, "differs by 9 from another session .* about those rows$"),
        (100, ""),
        (110, ""),
    ):
        found = near_other_sessions("north", 100, [500, rows, 80])
        assert len(found) == bool(told)
        assert all(re.search(told, text) for text in found)


@pytest.mark.parametrize("name", ["sample_weight", "weights"])
def test_weights_are_refused_by_name_rather_than_left_out(name: str) -> None:
    refused = CliRunner().invoke(main, ["evaluate", "absent.csv", "-o", f"{name}=w"])
    assert (refused.exit_code, "--weight-column NAME=50" in refused.stderr) == (2, True)


RANDOM = np.random.default_rng(61)
NORMAL = RANDOM.normal(-2, 1.5, 3000)
SHAPES = {
    "points": RANDOM.binomial(9, 0.4, 3000).astype(float),
    "logits": NORMAL,
    "-3 to 3": RANDOM.integers(-3, 4, 3000).astype(float),
    "lab values": RANDOM.lognormal(3, 2, 3000),
    "percent": np.round(100 / (1 + np.exp(-NORMAL))),
    "all one": np.full(50, 5.0),
    "three rows": np.array([97.2, 98.0, 99.1]),
    "far apart": np.array([-1.7e308, 0.0, 1e-300, 1.7e308]),
}


def chosen(scores: NDArray[np.float64], protocol: str = "exact", **about: Any) -> Thresholds:
    data = PartyData.from_arrays("north", np.arange(len(scores)) % 2, scores)
    return default_thresholds([data], about.pop("analysis", PLAIN), registry.load(protocol).options, about)


@pytest.mark.parametrize("name", SHAPES)
def test_any_numbers_are_spanned_and_values_that_ten_rows_have_stand_alone(name: str) -> None:
    scores = SHAPES[name]
    grid, told = of_scores([scores], "hybrid:5000")
    assert 2 <= len(grid) <= 5000
    values, rows = np.unique(numbers(scores), return_counts=True)
    own = values[rows >= 10]
    assert of_one_number(grid)[bins_of(own, grid)].all()
    count = f" with {len(own)} own value{'s' * (len(own) > 1)}" if len(own) else ""
    assert told == f"{len(grid):,} points of these rows{count}"
    assert name == "all one" or len(set(bins_of(values, grid).tolist())) > 0.5 * len(values)


@pytest.mark.parametrize("name", ["logits", "lab values"])
def test_the_nine_rows_at_either_end_may_have_any_scores(name: str) -> None:
    scores = np.sort(SHAPES[name])
    others = scores.copy()
    others[:9], others[-9:] = scores[0] - np.arange(9.0, 0, -1), scores[-1] * np.arange(2.0, 11)
    assert np.array_equal(*(of_scores([each], "hybrid:5000").grid for each in (scores, others)))


def test_probabilities_keep_the_named_grid_but_for_as_many_points_as_their_values_take() -> None:
    few = RANDOM.random(2000)
    assert chosen(few)[1] == "hybrid:5000"
    grid, told = chosen(np.concatenate([few, np.repeat([0.0, 0.1, np.float32(0.3), 1.0], 10), np.repeat(0.7, 9)]))
    assert told == "hybrid:5000 with 4 own values"
    assert 4900 <= len(grid) <= 5000  # points closer to 1 than numbers are go with the value 1
    assert of_one_number(grid)[bins_of(np.array([0, 0.1, 0.3, 1]), grid)].all()
    assert not of_one_number(grid)[bins_of(np.array([0.7]), grid)].any()
    assert np.isin(thresholds.hybrid(4992), grid).mean() > 0.98
    many = np.repeat(np.arange(1, 901) / 1000, 10)
    assert chosen(many)[1] == "hybrid:5000 with 500 own values"


@pytest.mark.parametrize(
    ("protocol", "about", "told"),
    [
        ("exact", {}, "hybrid:5000 with 10 own values"),
        ("semi-honest", {}, "hybrid:1000 with 10 own values"),
        ("histogram-federated", {}, "hybrid:5000 with 10 own values"),
        ("exact", {"round_scores": 2}, "hybrid:5000"),
        ("verified", {"epsilon": 1.0}, "hybrid:5000"),
        ("dpauc-laplace", {"epsilon": 1.0}, "hybrid:1000"),
        ("histogram-local-dp", {"epsilon": 1.0}, "quantile:20"),
        ("histogram-distributed-dp", {"epsilon": 1.0}, "quantile"),
        ("exact", {"analysis": Analysis(by=(Variable("sex", ("f", "m")),))}, "hybrid:5000 with 10 own values"),
        ("exact", {"analysis": Analysis(models=("a", "b"))}, "hybrid:1500 with 10 own values"),
        (
            "exact",
            {"analysis": Analysis(by=(Variable("ward", tuple(map(str, range(26)))),))},
            "hybrid:1000 with 10 own values",
        ),
    ],
)
def test_rows_choose_unless_privacy_noise_or_rounding_forbids(protocol: str, about: dict[str, Any], told: str) -> None:
    assert chosen(np.repeat(np.arange(10) / 10, 20), protocol, **about)[1] == told


def test_one_site_with_fractions_among_percentages_is_refused() -> None:
    percent = PartyData.from_arrays("north", np.arange(50) % 2, np.linspace(1, 99, 50))
    for rows, refused in (
        (np.linspace(0.01, 0.99, 10), True),
        (np.linspace(0.01, 0.99, 9), False),
        (np.arange(50) % 2, False),
    ):
        south = PartyData.from_arrays("south", np.arange(len(rows)) % 2, rows)
        if refused:
            with pytest.raises(
                InputError,
                match=r"'south': its scores lie between 0 and 1, .* 'north' beyond, as percent.* of party 'south'",
            ):
                default_thresholds([percent, south], PLAIN, registry.load("exact").options, {})
        else:
            assert default_thresholds([percent, south], PLAIN, registry.load("exact").options, {}).grid[-1] > 1


def test_thresholds_of_rows_that_lie_number_by_number_list_no_scores() -> None:
    """Far from 0, as 5 + 0.0001 z, all points follow one another in single precision; other scores are not refused."""
    scores = 5 + 1e-4 * np.random.default_rng(3).normal(size=3000)
    grid, _ = chosen(scores, "exact")
    assert listed(grid) is None
    assert len(np.unique(bins_of(scores, grid))) > 300


Y_TRUE = np.arange(400) % 2
Y_LOGITS = np.random.default_rng(8).normal(2.0 * Y_TRUE - 1, 2)


def test_values_are_those_of_the_definitions_and_other_scales_or_percentages_refused() -> None:
    assert to_probabilities(np.array([-745.2, -2.0, 0.0, 2.0, 37.0]), "logit").tolist() == pytest.approx(
        [0.0, 1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(-2)), 1.0], rel=1e-15
    )
    assert to_probabilities(np.array([0.0, 12.5, 100.0]), "percent").tolist() == [0.0, 0.125, 1.0]
    assert to_probabilities(np.array([-3.0, 44.0]), "probability").tolist() == [-3.0, 44.0]
    data = PartyData.from_arrays("a", [0, 1, 1], [0.5, 100.5, 3], score_column="risk")
    with pytest.raises(InputError, match=r"^score scale 'log' is unknown; known are probability, logit, percent$"):
        rescaled(data, "log")
    with pytest.raises(InputError, match=r"^party 'a', row 1, column 'risk': score is 100\.5, and percentages lie "):
        rescaled(data, "percent")


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from(SCALES))
def test_no_two_scores_change_places(first: float, second: float, scale: str) -> None:
    low, high = to_probabilities(np.array(sorted((first, second))), scale)
    assert low <= high


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_any_logit_becomes_a_score_that_named_thresholds_take(scores: list[float]) -> None:
    data = PartyData.from_arrays("a", [0] * len(scores), scores)
    check_scores(rescaled(data, "logit"), thresholds.parse("hybrid:20"))


def test_logits_beyond_36_tie_and_the_binning_error_is_about_what_they_become() -> None:
    """The AUC of the logits is 1, that of the probabilities 7/8: of four pairs one is of equal scores."""
    from sklearn.metrics import roc_auc_score

    rows = ([0, 1, 0, 1], [40.0, 50.0, 0.0, 45.0])
    found = federated_auc([rows, rows, rows], score_scale="logit", thresholds="uniform:20")
    become = to_probabilities(np.array(rows[1]), "logit")
    assert roc_auc_score(*rows) == 1
    assert abs(found.auc - roc_auc_score(rows[0], become)) <= found.binning_error + 1e-15


@pytest.mark.parametrize(("scale", "scores"), [("logit", Y_LOGITS), ("percent", 100 / (1 + np.exp(-Y_LOGITS)))])
def test_the_auc_is_scikit_learns_of_the_scores_as_they_were(scale: str, scores: np.ndarray, tmp_path: Path) -> None:
    from sklearn.metrics import roc_auc_score

    parts = [slice(0, 100), slice(100, 250), slice(250, 400)]
    pairs = [(Y_TRUE[part], scores[part]) for part in parts]
    found = federated_auc(pairs, score_scale=scale, thresholds="hybrid:200", interval=None)
    assert 0 < abs(found.auc - roc_auc_score(Y_TRUE, scores)) + 1e-12 <= found.binning_error + 2e-12
    names = []
    for number, (labels, part) in enumerate(pairs):
        names.append(tmp_path / f"{number}.npz")
        np.savez(names[-1], y_true=labels, y_score=part)
    read = read_parties(names, entries=FileEntries(score_scale=scale))
    assert federated_auc(read, thresholds="hybrid:200", interval=None).fraction == found.fraction


NAMES = ("north", "south", "west")


def hospitals(**changed: Any) -> dict[str, dict[str, Any]]:
    """Three with an AUC of 0.71 or so, 1,500 rows each; one by name is changed by its function."""
    random, found = np.random.default_rng(67), dict[str, dict[str, Any]]()
    for name in NAMES:
        labels = (random.random(1500) < 0.3).astype(int)
        scores = 1 / (1 + np.exp(1.2 - random.normal(0.78 * labels, 1)))
        found[name] = {"y_true": labels, "y_score": scores, "sex": np.array(["F", "M"])[random.integers(0, 2, 1500)]}
    return {name: own | changed.get(name, dict)(own) for name, own in found.items()}


def without_event(rows: dict[str, Any]) -> dict[str, Any]:
    return {"y_true": 0 * rows["y_true"]}


STORIES: dict[str, tuple[dict[str, Any], list[str], int, str]] = {
    "turned": (
        {"south": lambda rows: {"y_score": np.where(rows["y_true"], 0.4, 0.6) - rows["y_score"] / 3}},
        [],
        0,
        "party 'south' has scores that fall where labels rise, its own AUC is far below 0.5",
    ),
    "labels turned": (
        {"west": lambda rows: {"y_true": 1 - rows["y_true"]}},
        ["--score-scale", "probability"],
        0,
        "party 'west' has scores that fall where labels rise",
    ),
    "per cent": (
        {"south": lambda rows: {"y_score": 100 * rows["y_score"]}},
        [],
        2,
        "as percentages do: convert those of party 'south'",
    ),
    "per cent, as was proposed": (
        {"south": lambda rows: {"y_score": 100 * rows["y_score"]}},
        ["--score-scale", "percent"],
        0,
        "as percentages do: convert those of party 'south'",
    ),
    "no event": ({"south": without_event}, [], 0, "party 'south' has no row of label 1, where more are to be expected"),
    "events alone": (
        {"south": lambda rows: {"y_true": 0 * rows["y_true"] + 1}},
        [],
        0,
        "party 'south' has no row of label 0, where more",
    ),
    "two without event": (
        {"south": without_event, "west": without_event},
        [],
        0,
        "2 of 3 parties, 'south' first, have no row of label 1",
    ),
    "levels": (
        {"west": lambda rows: {"sex": (rows["sex"] == "F").astype(int)}},
        ["--by", "sex"],
        0,
        "column 'sex': one party alone has rows of '0' (party 'west'), '1' (party 'west')",
    ),
    "one score": (
        {"south": lambda rows: {"y_score": np.full(1500, 0.25)}},
        [],
        0,
        "party 'south' has one and the same score in all rows",
    ),
    "labels for scores": (
        {"south": lambda rows: {"y_score": rows["y_true"].astype(float)}},
        [],
        0,
        "party 'south' has scores that tell the labels without an error",
    ),
    "honest": ({}, [], 0, ""),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_is_odd_at_one_hospital_of_three_is_told_with_its_name(story: str, tmp_path: Path) -> None:
    changed, options, code, expected = STORIES[story]
    paths = []
    for name, rows in hospitals(**changed).items():
        lines = map(",".join, zip(*(map(str, rows[each].tolist()) for each in rows), strict=True))
        paths.append(str(tmp_path / f"{name}.csv"))
        Path(paths[-1]).write_text("\n".join(["y_true,y_score,sex", *lines]))
    quick = [] if "--by" in options else ["--protocol", "histogram-federated"]
    found = CliRunner().invoke(main, ["evaluate", *paths, *options, *quick, "--json"])
    assert found.exit_code == code
    said = " ".join(json.loads(found.stdout)["warnings"]) if not code else found.stderr
    assert expected in said
    assert bool(expected) == bool(said)


@pytest.mark.parametrize("copied", [(), ("south",), ("north", "west")])
def test_a_pooled_file_beside_its_parts_or_a_copy_is_refused_by_name(copied: tuple[str, ...], tmp_path: Path) -> None:
    rows = hospitals()
    texts = {
        name: "".join(f"{y},{s}\n" for y, s in zip(own["y_true"].tolist(), own["y_score"].tolist(), strict=True))
        for name, own in rows.items()
    }
    texts["pooled"] = "".join(texts[name] for name in copied or NAMES)
    paths = [str(tmp_path / f"{name}.csv") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        Path(path).write_text("y_true,y_score\n" + text)
    found = CliRunner().invoke(main, ["evaluate", *paths])
    everyone = "all rows of parties 'north', 'south', 'west'"
    what = [everyone, "the same rows as party 'pooled'", "all rows of parties 'north', 'west'"][len(copied)]
    assert found.exit_code == 2
    assert f"has {what}, which count twice" in " ".join(found.stderr.split())


def test_a_site_alone_is_told_of_its_own_rows_with_words_that_tell_no_number() -> None:
    analysis = Analysis(by=(Variable("sex", ("F", "M", "0", "1")),))
    random = np.random.default_rng(1)
    labels, scores = np.arange(200) % 2, random.random(200)

    def told(labels: Any, scores: Any, levels: str = "FM01", analysis: Analysis = analysis) -> tuple[str, ...]:
        sexes = {"sex": [levels[row % len(levels)] for row in range(len(labels))]}
        data = PartyData.from_columns("north", labels, {"risk": scores}, sexes if analysis.by else {}, analysis)
        return doubts([data], PROBABILITIES, analysis)

    assert told(labels, scores) == told(labels[:99] * 0, scores[:99]) == ()
    for texts, expected in (
        (told(labels, 0.9 - 0.5 * labels), "party 'north' has scores that fall where labels rise"),
        (told(labels[:100] * 0, scores[:100]), "party 'north' has no row of label 1, where more"),
        (told(labels, scores, "01"), "party 'north' has rows of '0', '1' alone, of 4 levels of 'sex': do others"),
        (told(labels, scores, "F"), "party 'north' has rows of 'F' alone, of 4 levels"),
    ):
        (text,) = texts
        assert text.startswith(expected)
    assert told(labels[:19], scores[:19], "01") == told(labels, scores, "FM0") == told(labels, scores, "F", PLAIN) == ()


@pytest.mark.parametrize("strength", [-0.6, -0.3, -0.1, 0.3])
def test_an_auc_is_far_below_a_half_where_the_test_of_mann_and_whitney_says_so(strength: float) -> None:
    from scipy.stats import mannwhitneyu

    random, sites, expected = np.random.default_rng(2), list[PartyData](), list[str]()
    for number in range(200):
        labels = np.repeat([1, 0], random.integers(10, 120, 2))
        scores = expit(random.normal(strength * labels, 1))
        two = scores[labels == 1], scores[labels == 0]
        below = mannwhitneyu(*two, alternative="less", method="asymptotic", use_continuity=False).pvalue
        sites.append(PartyData.from_arrays(f"site {number}", labels, scores))
        expected += [f"site {number}"] * bool(below < 1.349898e-3)  # of three standard errors
    found = [site.name for site in sites if any("fall where" in text for text in doubts([site], FINE, PLAIN))]
    assert found == expected
    assert bool(found) == (strength < 0)


@pytest.mark.parametrize(("strength", "most"), [(0.0, 8), (0.25, 1)])
def test_of_parties_with_an_auc_of_one_half_one_in_740_is_suspected_of_better_ones_hardly_any(
    strength: float, most: int
) -> None:
    """Of 2,000, 2.7 are expected at 1/2; 0.57 in truth is better, and a good AUC is far beyond."""
    random, suspected = np.random.default_rng(3), 0
    for place, own in enumerate(random.integers(10, 80, (2000, 2))):
        labels = np.repeat([1, 0], own)
        scores = expit(random.normal(strength * labels, 1))
        told = doubts([PartyData.from_arrays(f"site {place}", labels, scores)], PROBABILITIES, PLAIN)
        suspected += any("fall where" in text for text in told)
    assert suspected <= most


def test_of_the_bundled_parties_nothing_is_told_but_that_some_have_few_rows() -> None:
    for name in BUNDLED:
        assert all("fewer than 10 rows" in text for text in doubts(load(name), FINE, PLAIN))


def test_rows_that_a_copy_or_a_join_has_multiplied_are_told_and_honest_ones_are_not() -> None:
    rng = np.random.default_rng(7)
    for rows in (40, 3000, 100_000):
        labels, scores = rng.random(rows) < 0.3, rng.random(rows)
        for times in (2, 3):
            twice = PartyData.from_arrays("odd", np.tile(labels, times), np.tile(scores, times))
            assert "rows twice or more" in " ".join(doubts([twice], PROBABILITIES))
        if rows >= 3000:  # one part of four was copied, as within a folder
            own = slice(0, rows // 4)
            part = PartyData.from_arrays("odd", np.append(labels, labels[own]), np.append(scores, scores[own]))
            assert "rows twice or more" in " ".join(doubts([part], PROBABILITIES))
        tied = np.round(rng.beta(0.5, 5, rows), 3)
        for honest in (scores, scores.round(2), scores.round(4), tied, np.append(scores[:-1], scores[0])):
            assert "twice" not in " ".join(doubts([PartyData.from_arrays("odd", labels, honest)], PROBABILITIES))


def test_a_pooled_file_beside_its_parts_is_told_where_a_column_names_the_sites(tmp_path: Path) -> None:
    rows = [f"{place % 3 == 0:d},{place / 700},{'ab'[place % 2]}\n" for place in range(600)]
    parts = {"a.csv": rows[::2], "b.csv": rows[1::2], "pooled.csv": rows}
    for name, own in parts.items():
        (tmp_path / name).write_text("y_true,y_score,site\n" + "".join(own), encoding="utf-8")
    doubled = read_parties([tmp_path / name for name in parts], site_column="site")
    assert "2 of 2 parties, 'a' first, have rows twice" in " ".join(doubts(doubled, PROBABILITIES))
    once = read_parties(tmp_path / "pooled.csv", site_column="site")
    assert "twice" not in " ".join(doubts(once, PROBABILITIES))
