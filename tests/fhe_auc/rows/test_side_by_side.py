"""Several parties' rows in one process: other scales, lone levels and rows that count twice are told, chance is not."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.cli import main
from fhe_auc.question.analysis import PLAIN, Analysis, Questions, Variable
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import FileEntries, read_for
from fhe_auc.rows.side_by_side import compared
from tests.support.tables import read_parties

Rows: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
FINE, POINTS, CENTS = "fine", "points", "cents"


def some_rows(random: np.random.Generator, rows: int, kind: str = FINE) -> Rows:
    """Labels and scores: of any value, in points from 0 to 9, or of two digits."""
    labels = random.random(rows) < 0.3
    scores = random.beta(2, 5, rows) if kind != POINTS else random.binomial(9, 0.4, rows).astype(float)
    return labels, np.round(scores, 2) if kind == CENTS else scores


def joined(*parts: Rows) -> Rows:
    return np.concatenate([labels for labels, _ in parts]), np.concatenate([scores for _, scores in parts])


def parties_of(**rows: Rows) -> list[PartyData]:
    return [PartyData.from_arrays(name, *own) for name, own in rows.items()]


def told(**rows: Rows) -> str:
    return " ".join(compared(parties_of(**rows), PLAIN)[0].notes)


@pytest.mark.parametrize(("kind", "rows"), [(FINE, 25), (FINE, 70_000), (CENTS, 200), (CENTS, 70_000), (POINTS, 4000)])
def test_equal_rows_in_any_order_and_a_party_that_is_others_together_are_named(kind: str, rows: int) -> None:
    random = np.random.default_rng(5)
    north, south, west = (some_rows(random, rows + more, kind) for more in (0, 3, 9))
    order = random.permutation(rows)
    again = (north[0][order], north[1][order] * np.where(north[1][order] == 0, -1, 1))  # -0.0 is 0.0
    assert told(north=north, south=south, west=west) == ""
    assert told(north=north, south=south, copy=again).startswith("party 'north' has the same rows as party 'copy',")
    pooled = joined(west, again, south)
    for names, whole in (("'north', 'south', 'west'", pooled), ("'north', 'south'", joined(again, south))):
        assert f"party 'all' has all rows of parties {names}, which count twice" in told(
            north=north, south=south, all=whole, west=west
        )


@pytest.mark.parametrize("number", [5, 14])
@pytest.mark.parametrize("kind", [FINE, CENTS])
def test_of_many_parties_too_the_one_that_has_all_rows_is_named(kind: str, number: int) -> None:
    random = np.random.default_rng(6)
    parts = {f"site {place}": some_rows(random, 100, kind) for place in range(number)}
    assert told(**parts) == ""
    assert "party 'all' has all rows of parties 'site 0', 'site 1', " in told(**parts, all=joined(*parts.values()))
    assert "party 'copy' has the same rows as" in told(copy=parts["site 3"], **parts)


def test_a_copy_with_more_rows_is_named_and_single_rows_that_agree_are_not() -> None:
    random = np.random.default_rng(7)
    north, south = some_rows(random, 500), some_rows(random, 40_000)
    later = joined(north, some_rows(random, 60))
    assert "party 'later' has all rows of party 'north'" in told(later=later, north=north, south=south)
    shared = joined(some_rows(random, 500), (north[0][:250], north[1][:250]))
    assert told(north=north, south=shared) == ""


@pytest.mark.parametrize(
    "draw",
    [
        lambda random: some_rows(random, 30, POINTS),
        lambda random: some_rows(random, int(random.integers(5, 60)), POINTS),
        lambda random: some_rows(random, int(random.integers(20, 80)), CENTS),
        lambda random: some_rows(random, int(random.choice([20, 40, 2000])), CENTS),
        lambda random: (np.ones(30, bool), np.full(30, 0.5)),
        lambda random: some_rows(random, int(random.integers(1, 19))),
        lambda random: some_rows(random, 1000, POINTS),
    ],
)
@pytest.mark.parametrize("trials", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_few_values_agree_by_chance_without_a_word(draw: Callable[[np.random.Generator], Rows], trials: int) -> None:
    random = np.random.default_rng(8)
    for _ in range(trials):
        assert told(**{f"site {place}": draw(random) for place in range(5)}) == ""


def test_files_that_count_rows_twice_are_refused_and_tables_in_memory_are_told_so(tmp_path: Path) -> None:
    """Of rows of other levels nothing is said: they are others."""
    random = np.random.default_rng(9)
    rows = {name: some_rows(random, 60, CENTS) for name in ("north", "south")}
    rows["all"] = joined(*rows.values())
    texts = dict[str, str]()
    for name, own in rows.items():
        texts[name] = "".join(f"{int(y)},{s},{name[0]}\n" for y, s in zip(*own, strict=True))
        (tmp_path / f"{name}.csv").write_text("y_true,y_score,sex\n" + texts[name])
    files = [tmp_path / f"{name}.csv" for name in rows]
    for paths, about in ((files, {}), ([tmp_path / "one.csv"], {"site_column": "site"})):
        lines = [f"{line},{name}" for name, text in texts.items() for line in text.splitlines()]
        (tmp_path / "one.csv").write_text("\n".join(["y_true,y_score,sex,site", *lines]))
        with pytest.raises(InputError, match=r"^party 'all' has all rows of parties 'north', 'south', which count"):
            read_parties(paths, **about)
    assert len(read_parties(files[:2])) == 2
    asked = CliRunner().invoke(main, ["evaluate", *map(str, files), "--by", "sex"])
    assert "count twice" not in asked.output
    found = federated_auc(rows, thresholds="uniform:20", protocol="histogram-federated")
    assert sum("has all rows of parties 'north', 'south'" in text for text in found.warnings) == 1


def site(random: np.random.Generator, rows: int = 60) -> Rows:
    labels = random.random(rows) < 0.5
    return labels, 1 / (1 + np.exp(-random.normal(2 * labels - 1.5, 1)))


@pytest.mark.parametrize(
    ("scales", "about", "expected"),
    [
        ("ppf", {"score_scale": "percent"}, "those of party 'south' beyond|convert those of party 'west'"),
        ("fpf", {"score_scale": "percent"}, "as percentages do: convert those of party 'south'"),
        ("llf", {"score_scale": "logit"}, "as logits do: convert those of party 'west'"),
        ("ffp", {}, "as percentages do: convert those of party 'west'; or, if all are right"),
        ("pfp", {}, "as percentages do: convert those of party 'south'; or, if all are right"),
        ("lff", {}, "as logits do: convert those of party 'north'; or, if all are right"),
        ("fll", {}, "as logits do: convert those of party 'north'; or, if all are right"),
        ("fll", {"thresholds": np.linspace(-6, 6, 50)}, "as logits do: convert those of party 'north'"),
        ("ppf", {"thresholds": np.linspace(0, 100, 50)}, "as percentages do: convert those of party 'west'"),
        ("fff", {}, ""),
        ("ppp", {"score_scale": "percent"}, ""),
        ("lll", {"score_scale": "logit"}, ""),
        ("lll", {}, ""),
    ],
)
def test_the_one_party_on_another_scale_is_named_whatever_scale_is_given(
    scales: str, about: dict[str, Any], expected: str
) -> None:
    random, convert = np.random.default_rng(3), {"f": lambda s: s, "p": lambda s: 100 * s}
    convert["l"] = lambda s: np.log(s / (1 - s))
    rows = {}
    for name, scale in zip(("north", "south", "west"), scales, strict=True):
        labels, scores = site(random)
        rows[name] = (labels, convert[scale](scores))
    try:
        warnings = " ".join(federated_auc(rows, protocol="histogram-federated", **about).warnings)
    except InputError as error:
        warnings = str(error)
    assert ("convert those of" in warnings) == bool(expected)
    assert all(part in warnings for part in expected.split("|"))


def test_labels_for_scores_and_points_beside_fractions_by_chance_are_on_no_other_scale() -> None:
    random = np.random.default_rng(4)
    points = [(random.random(200) < 0.3, random.integers(0, 10, 200).astype(float)) for _ in range(2)]
    for rows in ((np.arange(40) % 2, np.arange(40.0) % 2), (np.arange(9) % 2, np.linspace(0.1, 0.9, 9))):
        assert told(north=points[0], south=points[1], west=rows) == ""


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (["FM", "FM", "01"], "rows of '0' (party 'west'), '1' (party 'west'): if others write"),
        (["FM", "FM", "FX"], "rows of 'X' (party 'west'): if others"),
        (["F", "M", "F"], "rows of 'M' (party 'south'): if others"),
        (["FM", "FM", "F"], ""),
        (["FM", "FM", "FM"], ""),
    ],
)
def test_levels_that_one_party_alone_has_are_named_with_it(levels: list[str], expected: str) -> None:
    random = np.random.default_rng(2)
    rows = {}
    for name, own in zip(("north", "south", "west"), levels, strict=True):
        labels, scores = site(random)
        rows[name] = {"y_true": labels, "y_score": scores, "sex": [own[row % len(own)] for row in range(60)]}
    warnings = " ".join(federated_auc(rows, by="sex", thresholds="uniform:20", min_cell=1).warnings)
    assert ("one party alone has" in warnings) == bool(expected)
    assert expected in warnings


def test_levels_of_parties_are_counted_in_pieces() -> None:
    analysis, many = Analysis(by=(Variable("sex", ("F", "M")),)), 70_000
    made = [
        PartyData.from_columns(
            name,
            np.arange(many) % 2,
            {"risk": np.random.default_rng(place).random(many)},
            {"sex": ["F"] * (many - 1) + [last]},
            analysis,
        )
        for place, (name, last) in enumerate((("north", "F"), ("south", "M")))
    ]
    assert "rows of 'M' (party 'south')" in " ".join(compared(made, analysis)[0].notes)


def test_percentages_read_from_files_say_which_file_differs(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for name, scale in (("north", 100), ("south", 100), ("west", 1)):
        rows = "".join(f"{int(y)},{s * scale:.4f}\n" for y, s in zip(*site(random), strict=True))
        (tmp_path / f"{name}.csv").write_text("y_true,y_score\n" + rows)
    files = [tmp_path / f"{name}.csv" for name in ("north", "south", "west")]
    notes = " ".join(read_parties(files, entries=FileEntries(score_scale="percent"))[0].notes)
    assert "party 'west', column 'y_score': its scores lie between 0 and 1" in notes
    asked = CliRunner().invoke(main, ["evaluate", *map(str, files), "--thresholds", "hybrid:1000"])
    assert asked.exit_code == 2
    assert "where those of all parties are alike, set the score scale" in " ".join(asked.stderr.split())


@pytest.mark.parametrize(
    ("scale", "scores", "told"),
    [
        ("percent", [[0.2, 0.9, 0.4]], "read as percentages, no score is above 1"),
        ("percent", [[0.2, 1.0, 0.0]], "read as percentages, no score is above 1"),
        ("percent", [[20, 90, 40], [0.2, 0.9, 0.4]], "column 'model 1': read as percentages, no score is above 1"),
        ("percent", [[0.2, 1.5, 0.4]], ""),
        ("percent", [[20, 90, 40]], ""),
        ("logit", [[98.0, 98.5, 97.2]], "logits beyond 36 tie"),
        ("logit", [[-800.0, -750.0, -1.0]], "logits beyond 36 tie"),
        ("logit", [[0.5, 40.0, -40.0]], "logits beyond 36 tie"),
        ("logit", [[-3.0, 3.0, 0.0], [1.0, 37.0, 0.0]], "column 'model 1': logits beyond 36 tie"),
        ("logit", [[-3.0, 3.0, 0.0]], ""),
        ("probability", [[0.001, 0.002, 0.009]], ""),
    ],
)
def test_one_party_whose_scale_is_wrong_is_noted(
    scale: str, scores: list[list[float]], told: str, tmp_path: Path
) -> None:
    names = [f"model {number}" for number in range(len(scores))]
    lines = [",".join(map(str, row)) for row in zip([0, 1, 0], *scores, strict=True)]
    (tmp_path / "ward.csv").write_text("\n".join([",".join(["y_true", *names]), *lines]))
    entries = FileEntries(score_scale=scale)
    notes = read_for(Questions(score_columns=tuple(names)), tmp_path / "ward.csv", entries=entries)[0][0].notes
    assert len(notes) == bool(told)
    assert all(note.startswith("party 'ward'") and told in note for note in notes)


@pytest.mark.parametrize("names", [("north", "North"), ("fi", "\ufb01"), ("Köln", "KÖLN"), ("a b", "A B")])
@pytest.mark.parametrize("form", ["files", "column", "table", "mapping"])
def test_names_that_people_take_for_the_same_are_both_in_the_message(
    names: tuple[str, str], form: str, tmp_path: Path
) -> None:
    rows = {"y_true": [0, 1] * 4, "y_score": [each / 8 for each in range(8)], "site": [names[0]] * 4 + [names[1]] * 4}
    text = "y_true,y_score,site\n" + "".join(f"{y},{s},{site}\n" for y, s, site in zip(*rows.values(), strict=True))
    files = [tmp_path / f"{name}.csv" for name in names]
    for file in files:
        file.write_text(text)
    read: dict[str, Callable[[], object]] = {
        "files": lambda: read_parties(files),
        "column": lambda: read_parties(files[:1], site_column="site"),
        "table": lambda: federated_auc(rows, site="site"),
        "mapping": lambda: federated_auc(dict.fromkeys(names, (rows["y_true"], rows["y_score"]))),
    }
    with pytest.raises(InputError) as refused:
        read[form]()
    assert all(repr(name) in str(refused.value) for name in names)


@pytest.mark.parametrize("kind", ["gzip", "parquet", "other columns"])
def test_a_copy_in_another_form_is_named(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(12)
    rows = {name: some_rows(random, 60) for name in ("north", "south")}
    for name, (labels, scores) in rows.items():
        lines = [f"{int(y)},{s!r}" for y, s in zip(labels, scores.tolist(), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["y_true,y_score", *lines]))
    labels, scores = rows["south"]
    copy = tmp_path / "copy.csv"
    if kind == "gzip":
        copy = tmp_path / "copy.csv.gz"
        copy.write_bytes(gzip.compress((tmp_path / "south.csv").read_bytes()))
    elif kind == "parquet":
        import pyarrow.parquet

        copy = tmp_path / "copy.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"y_score": scores, "y_true": labels.astype(float)}), copy)
    else:
        lines = [f"{s!r},x,{y}" for y, s in zip(labels, scores.tolist(), strict=True)]
        copy.write_text("\n".join(["y_score,ward,y_true", *lines]))
    with pytest.raises(InputError, match=r"party '(south|copy)' has the same rows as party '(south|copy)'"):
        read_parties([tmp_path / "north.csv", tmp_path / "south.csv", copy])
