"""docs/guide/paper.md, executed: its commands print what it shows, and its sentences say what its commands computed."""

import re
from pathlib import Path

import pytest

from tests.support.guides import not_printed, printed_by
from tests.support.lazy import Lazy

pd = Lazy("pandas")
roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "paper.md"
MODELS = ("risk_a", "risk_b")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("paper guide")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all blocks have run, one after another; what they printed is in printed.txt."""
    place = tmp_path_factory.mktemp("paper")
    (place / "printed.txt").write_text(printed_by(GUIDE.name, place))
    return place


def test_commands_print_what_the_guide_shows(folder: Path) -> None:
    assert not not_printed(GUIDE.name, (folder / "printed.txt").read_text())
    assert (folder / "forest.png").read_bytes().startswith(b"\x89PNG")


def test_table_and_sentences_are_what_was_computed_and_scikit_learns_within_the_binning_error(folder: Path) -> None:
    pooled = pd.concat([pd.read_csv(folder / f"{site}.csv") for site in ("north", "south", "west")])
    table, differences = (pd.read_csv(folder / f"{name}.csv") for name in ("table2", "differences"))
    assert (len(table), len(differences)) == (14, 1)
    (compared,) = differences.itertuples()
    first, second = (table[(table["model"] == each) & (table["variable"] == "all")].iloc[0] for each in MODELS)
    assert (compared.model, compared.minus) == ("risk_b", "risk_a")
    assert compared.difference == pytest.approx(second.auc - first.auc)
    for row in table.itertuples():
        rows = pooled if row.variable == "all" else pooled[pooled[row.variable] == row.level]
        assert abs(row.auc - roc_auc_score(rows["died"], rows[row.model])) <= row.binning_error + 1e-12  # of a CSV
        assert (row.n, row.events) == (len(rows), rows["died"].sum())
    sentences = " ".join(re.findall(r"^> (.*)$", GUIDE.read_text("utf-8"), re.MULTILINE))
    first = pd.read_csv(folder / "table2.csv").iloc[0]
    found = f"{first.auc:.3f} (95 % CI {first.low:.3f} to {first.high:.3f}; {first.method})"
    assert f"of risk_a was {found}, of {int(first.n):,} patients with {int(first.events)} events" in sentences
    compared = r"risk_b minus risk_a +-(\S+) +-(\S+) to -(\S+) +(\S+)"
    difference, high, low, p = map(float, re.search(compared, (folder / "printed.txt").read_text()).groups())
    found = f"{difference:.3f} lower (95 % CI {low:.3f} to {high:.3f}; p = {p}; DeLong, paired, on binned scores)"
    assert f"That of risk_b was {found}" in sentences
